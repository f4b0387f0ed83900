"""Any packet at all: an answer that reads, a refusal, or silence; and never a fault of ours."""

from __future__ import annotations

import itertools
import logging
from random import Random

import dns.message
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.dns.answers import Answers, Transport
from adsum.dns.counters import DnsCounters
from adsum.dns.limits import DnsLimits
from adsum.dns.recursor import Recursion
from adsum.dns.resolver import Errand, Resolver
from adsum.dns.settings import DnsSettings, Recursor
from tests.dns.support import standard_catalog

STANDARD = standard_catalog()


def resolver_for(settings: DnsSettings) -> Resolver:
    counters = DnsCounters()
    ids = itertools.count(1)
    recursion = Recursion(DnsLimits(), counters, lambda: next(ids))
    return Resolver(Answers(STANDARD.view, settings, Random(1)), recursion, counters, lambda: 0.0)


PLAIN = resolver_for(DnsSettings())
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
    assert PLAIN.counters.faults == 0


@given(st.binary(max_size=600), st.sampled_from(list(Transport)))
def test_random_bytes(packet: bytes, transport: Transport) -> None:
    assert_sane(packet, transport)


@given(
    st.sampled_from(GOOD_PACKETS),
    st.lists(st.tuples(st.integers(0, 80), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(0, 20),
    st.sampled_from(list(Transport)),
)
def test_good_packets_with_some_bytes_changed_or_cut_off(
    good: bytes, changes: list[tuple[int, int]], cut: int, transport: Transport
) -> None:
    packet = bytearray(good)
    for at, value in changes:
        packet[at % len(packet)] = value
    assert_sane(bytes(packet[: len(packet) - cut]), transport)


def test_a_fault_of_ours_is_silence_with_one_trace(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    resolver = resolver_for(DnsSettings())

    def stumble(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Answers, "to", stumble)
    caplog.set_level(logging.ERROR)
    for _ in range(3):
        assert resolver.consider(GOOD_PACKETS[0], Transport.UDP) == b""
    assert resolver.counters.faults == 3
    assert [record.exc_info is not None for record in caplog.records] == [True]


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
