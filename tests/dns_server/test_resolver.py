"""Any packet at all: an answer that reads, a refusal, or silence; and never a fault of ours."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable
from random import Random

import dns.message
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.dns import answers as answers_module
from adsum.dns import wire
from adsum.dns.answers import Answers, Transport
from adsum.dns.limits import DnsLimits
from adsum.dns.settings import DnsSettings, Recursor
from adsum.dns_server import resolver as resolver_module
from adsum.dns_server.counters import DnsCounters
from adsum.dns_server.recursor import Recursion
from adsum.dns_server.resolver import Errand, Resolver
from adsum.logs.faults import Faults
from tests.dns.support import standard_catalog

STANDARD = standard_catalog()


def resolver_for(settings: DnsSettings, faults: Faults | None = None) -> Resolver:
    counters = DnsCounters()
    ids = itertools.count(1)
    recursion = Recursion(DnsLimits(), counters, lambda: next(ids))
    return Resolver(Answers(STANDARD.view, settings, Random(1)), recursion, counters, faults)


FAULTS = Faults()
PLAIN = resolver_for(DnsSettings(), FAULTS)
GOOD_PACKETS = [
    dns.message.make_query(name, rdtype, **options).to_wire()
    for name in ("web.service.consul", "n1.node.consul", "www.example.com", "2.0.0.10.in-addr.arpa")
    for rdtype in ("A", "SRV")
    for options in ({}, {"payload": 1232}, {"options": [dns.edns.ECSOption("10.0.0.0", 8)]})
]


def assert_sane(packet: bytes, transport: Transport) -> None:
    for _ in range(2):  # the second time some are known by their bytes
        outcome = PLAIN.consider(packet, transport)
        assert isinstance(outcome, bytes)
        if outcome:
            reply = dns.message.from_wire(outcome)
            assert reply.id == int.from_bytes(packet[:2])
    assert FAULTS.counts["dns"] == 0


@given(st.binary(max_size=600), st.sampled_from(list(Transport)))
async def test_random_bytes(packet: bytes, transport: Transport) -> None:
    assert_sane(packet, transport)


@given(
    st.sampled_from(GOOD_PACKETS),
    st.lists(st.tuples(st.integers(0, 80), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(0, 20),
    st.sampled_from(list(Transport)),
)
async def test_good_packets_with_some_bytes_changed_or_cut_off(
    good: bytes, changes: list[tuple[int, int]], cut: int, transport: Transport
) -> None:
    packet = bytearray(good)
    for at, value in changes:
        packet[at % len(packet)] = value
    assert_sane(bytes(packet[: len(packet) - cut]), transport)


def stumble(*_: object) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("packet", [GOOD_PACKETS[0], GOOD_PACKETS[2]], ids=["common", "unusual"])
async def test_a_fault_of_ours_is_silence_with_one_line(
    packet: bytes, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    faults = Faults()
    resolver = resolver_for(DnsSettings(), faults)
    monkeypatch.setattr(Answers, "to", stumble)
    caplog.set_level(logging.ERROR)
    for _ in range(3):
        assert resolver.consider(packet, Transport.UDP) == b""
    assert faults.counts["dns"] == 3
    (line,) = [record.getMessage() for record in caplog.records]
    assert "ZeroDivisionError" in line


async def test_a_fault_over_what_a_recursor_said_is_silence_too(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = Faults()
    resolver = resolver_for(DnsSettings(recursors=(Recursor(host="192.0.2.53"),)), faults)
    errand = resolver.consider(dns.message.make_query("www.example.com", "A").to_wire(), Transport.UDP)
    assert isinstance(errand, Errand)
    monkeypatch.setattr(Recursion, "ask", stumble)
    assert await resolver.run(errand) == b""
    assert faults.counts["dns"] == 1


def asking(tail: bytes, name: bytes = b"", others: int = 0) -> Callable[[int], bytes]:
    """A packet of a sort, with a name nobody asked for before."""

    def packet(number: int) -> bytes:
        label = b"x%06d" % number
        head = wire.HEADER.pack(number, wire.RD, 1, 0, 0, others)
        return head + b"\7" + label + name + b"\7service\6consul\0" + tail

    return packet


def record(rtype: int, data: bytes, owner: bytes = b"\xc0\x0c") -> bytes:
    return owner + rtype.to_bytes(2) + b"\0\1\0\0\0\0" + len(data).to_bytes(2) + data


IN_CLASS_IN, IN_CLASS_CHAOS = b"\0\1\0\1", b"\0\1\0\3"
UNUSUAL = {
    "another class": asking(IN_CLASS_CHAOS),
    "pointers to a long name": asking(IN_CLASS_IN + record(5, b"\xc0\x0c") * 8, b"\1a" * 97, 8),
    "texts of many strings": asking(IN_CLASS_IN + record(16, b"\1a" * 100) * 8, others=8),
    "long bit maps": asking(IN_CLASS_IN + record(47, b"\xc0\x0c" + b"\0\1\xff" * 30) * 8, others=8),
    "hundreds of options": asking(IN_CLASS_IN + wire.opt_record(1232, b"\0\x0a\0\1c" * 300), others=1),
    "a thousand empty options": asking(IN_CLASS_IN + wire.opt_record(1232, b"\0\x0a\0\0" * 1000), others=1),
    "long names beside it": asking(IN_CLASS_IN + record(1, b"\1\2\3\4", b"\1a" * 120 + b"\0") * 8, others=8),
    "the longest name": asking(IN_CLASS_CHAOS + record(1, b"\1\2\3\4") * 7, b"\1a" * 115, 7),
    "too many labels": asking(IN_CLASS_CHAOS, b"\1a" * 128),
    "4096 bytes": asking(IN_CLASS_IN + record(16, b"\1a" * 2000), others=1),
    "nothing but a head": asking(b"\xff" * 200, others=8),
}


def cost_ns(resolver: Resolver, packet: Callable[[int], bytes]) -> float:
    """Processor time for one, when none was asked before: the least of some rounds, for others use it too."""
    rounds = []
    for first in range(0, 1500, 300):
        packets = [packet(number) for number in range(first, first + 300)]
        began_ns = time.process_time_ns()
        for each in packets:
            resolver.consider(each, Transport.UDP_HERE)
        rounds.append((time.process_time_ns() - began_ns) / 300)
    return min(rounds)


@pytest.mark.parametrize("packet", UNUSUAL.values(), ids=UNUSUAL)
async def test_an_unusual_packet_costs_at_most_ten_times_what_a_common_question_does(
    packet: Callable[[int], bytes],
) -> None:
    common_ns = cost_ns(resolver_for(DnsSettings()), asking(IN_CLASS_IN))
    assert cost_ns(resolver_for(DnsSettings()), packet) < 10 * common_ns


async def test_what_is_known_by_its_bytes_keeps_no_rendering_that_was_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answers_module, "RENDERINGS_MAX", 10)
    resolver = resolver_for(DnsSettings())
    for number in range(100):
        resolver.consider(asking(IN_CLASS_IN)(number), Transport.UDP)
        assert len(resolver.known(Transport.UDP)) <= 5
    assert resolver.counters.rendering_overflows == 19


async def test_rubbish_in_any_number_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, resolver_module.__name__)
    resolver = resolver_for(DnsSettings())
    for _ in range(100):
        resolver.consider(b"x", Transport.UDP)
    assert resolver.counters.malformed == 100
    assert [each.getMessage() for each in caplog.records] == [
        "a DNS packet asked nothing: shorter than a header"
    ]


def test_srv_record_to_a_name_elsewhere_is_not_held_up_by_recursors() -> None:
    resolver = resolver_for(DnsSettings(recursors=(Recursor(host="192.0.2.53"),)))
    packet = dns.message.make_query("search.service.consul", "SRV").to_wire()
    reply = resolver.consider(packet, Transport.UDP)
    assert isinstance(reply, bytes)
    answer = dns.message.from_wire(reply)
    assert [str(record) for rrset in answer.answer for record in rrset] == ["1 1 8080 www.example.com."]
    assert not answer.additional


def test_what_a_recursor_must_answer_is_never_known_by_its_bytes() -> None:
    resolver = resolver_for(DnsSettings(recursors=(Recursor(host="192.0.2.53"),)))
    for name in ("www.example.com", "search.service.consul", "7.7.7.10.in-addr.arpa"):
        packet = dns.message.make_query(name, "A").to_wire()
        assert isinstance(resolver.consider(packet, Transport.UDP), Errand)
        assert packet[2:] not in resolver.known(Transport.UDP)
