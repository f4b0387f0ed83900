"""Real sockets: what a client on the wire sees."""

from __future__ import annotations

import contextlib
import itertools
import logging
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import dns.flags
import dns.message
import dns.rcode
import pytest
import trio

from adsum.catalog.definitions import CheckStatus
from adsum.catalog.model import Check
from adsum.dns.answers import Answers
from adsum.dns.limits import DnsLimits
from adsum.dns.settings import DnsSettings
from adsum.dns_server import resolver as resolver_module
from adsum.dns_server import server as server_module
from adsum.dns_server.counters import AnswerLabels, DnsCounters
from adsum.dns_server.datagrams import EveryAddress, datagrams_of, is_loopback, prefix_of
from adsum.dns_server.recursor import Recursion
from adsum.dns_server.resolver import Resolver
from adsum.dns_server.server import DnsSockets, bind_both, bind_udp, serve
from adsum.now import MILLISECOND, SECOND
from tests.dns.support import NOW, Catalog, lines
from tests.files import no_file_left

IPV6_INTERFACES = Path("/proc/net/if_inet6")
needs_ipv6 = pytest.mark.skipif(
    not IPV6_INTERFACES.exists() or not IPV6_INTERFACES.read_text(), reason="this machine has no IPv6"
)


@dataclass
class Server:
    address: tuple[str, int]
    answers: Answers
    counters: DnsCounters

    @asynccontextmanager
    async def udp(self) -> AsyncIterator[trio.socket.SocketType]:
        family = socket.AF_INET6 if ":" in self.address[0] else socket.AF_INET
        with trio.socket.socket(family, socket.SOCK_DGRAM) as sock:
            await sock.connect(self.address)
            yield sock

    async def ask(self, request: dns.message.Message) -> dns.message.Message:
        async with self.udp() as sock:
            await sock.send(request.to_wire())
            reply = dns.message.from_wire(await sock.recv(65535))
        assert request.is_response(reply)
        return reply

    async def connect(self) -> trio.SocketStream:
        return await trio.open_tcp_stream(*self.address)


@asynccontextmanager
async def serving(
    catalog: Catalog,
    settings: DnsSettings | None = None,
    limits: DnsLimits | None = None,
    host: str = "127.0.0.1",
    clock_ns: Callable[[], int] = lambda: SECOND,
) -> AsyncIterator[Server]:
    settings, limits = settings or DnsSettings(), limits or DnsLimits()
    counters = DnsCounters()
    answers = Answers(catalog.view, settings, Random(1))
    ids = itertools.count(1)
    resolver = Resolver(answers, Recursion(limits, counters, lambda: next(ids)), counters)
    udp, tcp = bind_both(host, 0)
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, DnsSockets([udp], [tcp]), resolver, limits, clock_ns)
        yield Server(tcp.socket.getsockname()[:2], answers, counters)
        nursery.cancel_scope.cancel()


def query(name: str, rdtype: str = "A", edns: int | None = None) -> dns.message.Message:
    return dns.message.make_query(name, rdtype, use_edns=False if edns is None else 0, payload=edns or 0)


def framed(*requests: dns.message.Message) -> bytes:
    packets = [request.to_wire() for request in requests]
    return b"".join(len(packet).to_bytes(2) + packet for packet in packets)


async def reply_on(stream: trio.SocketStream) -> dns.message.Message:
    return dns.message.from_wire(await exactly(stream, int.from_bytes(await exactly(stream, 2))))


async def exactly(stream: trio.SocketStream, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = await stream.receive_some(size - len(received))
        assert chunk, "the server closed the connection"
        received += chunk
    return received


async def test_question_over_udp_is_answered_and_the_second_time_by_its_bytes(catalog: Catalog) -> None:
    async with serving(catalog) as server:
        for _ in range(3):
            reply = await server.ask(query("web.service.consul", "SRV", 1232))
            assert len(lines(reply.answer)) == 2
    assert server.counters.answered[AnswerLabels("udp", "SRV", "NOERROR")] == 3
    assert server.counters.fast == 2


async def test_known_question_sees_the_catalog_move(catalog: Catalog) -> None:
    async with serving(catalog) as server:
        request = query("web.service.consul")
        for _ in range(2):
            await server.ask(request)
        check = Check(check_id="service:web1", name="web", status=CheckStatus.CRITICAL, service_id="web1")
        catalog.view.put_check(NOW, "n1", check)
        assert lines((await server.ask(request)).answer) == ["web.service.consul. 0 IN A 10.0.0.2"]


async def test_known_question_sees_new_settings(catalog: Catalog) -> None:
    async with serving(catalog) as server:
        request = query("web.service.consul")
        await server.ask(request)
        server.answers.reconfigure(DnsSettings(service_ttl_s={"web": 30}))
        assert (await server.ask(request)).answer[0].ttl == 30


async def test_uncommon_questions_get_the_same_answers(catalog: Catalog) -> None:
    async with serving(catalog) as server:
        ecs = dns.edns.ECSOption("10.1.0.0", 16)
        for _ in range(2):
            reply = await server.ask(dns.message.make_query("web.service.consul", "A", options=[ecs]))
            assert len(lines(reply.answer)) == 2
            echoed = reply.options[0]
            assert isinstance(echoed, dns.edns.ECSOption)
            assert (echoed.address, echoed.srclen, echoed.scopelen) == ("10.1.0.0", 16, 0)
    assert server.counters.full == server.counters.fast == 1


@needs_ipv6
async def test_ipv6_is_served(catalog: Catalog) -> None:
    async with serving(catalog, host="::1") as server:
        assert len(lines((await server.ask(query("web.service.consul"))).answer)) == 2
        async with await server.connect() as stream:
            await stream.send_all(framed(query("web.service.consul")))
            assert len(lines((await reply_on(stream)).answer)) == 2


@pytest.mark.parametrize("host", ["0.0.0.0", pytest.param("::", marks=needs_ipv6)])
async def test_socket_on_every_address_answers_from_the_one_that_was_asked(
    catalog: Catalog, host: str
) -> None:
    # The client's socket is connected, so the kernel drops answers that come from another address.
    asked = "127.0.0.2" if host == "0.0.0.0" else "::1"
    async with serving(catalog, host=host) as server:
        server.address = (asked, server.address[1])
        for _ in range(2):
            assert len(lines((await server.ask(query("web.service.consul"))).answer)) == 2


async def test_rubbish_is_counted_and_told_of_once_a_minute(
    catalog: Catalog, caplog: pytest.LogCaptureFixture, autojump_clock: trio.testing.MockClock
) -> None:
    caplog.set_level(logging.WARNING, resolver_module.__name__)
    random = Random(5)
    async with serving(catalog) as server:
        async with server.udp() as sock:
            for _ in range(200):
                await sock.send(random.randbytes(random.randrange(1, 100)))
                await trio.testing.wait_all_tasks_blocked()
        assert (await server.ask(query("n1.node.consul"))).answer
        await trio.sleep(61)
        async with server.udp() as sock:
            await sock.send(b"x")
            await trio.testing.wait_all_tasks_blocked()
        await server.ask(query("n1.node.consul"))
    assert server.counters.malformed == 201
    assert len(caplog.records) == 2


async def test_askers_over_their_rate_are_sent_to_tcp_or_dropped(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "is_loopback", lambda host: False)
    limits = DnsLimits(answers_per_s=1, answers_burst=3)
    async with serving(catalog, limits=limits) as server, server.udp() as sock:
        for _ in range(7):
            await sock.send(query("web.service.consul").to_wire())
            await trio.testing.wait_all_tasks_blocked()
        replies = [dns.message.from_wire(await sock.recv(4096)) for _ in range(5)]
    assert [bool(reply.flags & dns.flags.TC) for reply in replies] == [False, False, False, True, True]
    assert [len(reply.answer) for reply in replies] == [1, 1, 1, 0, 0]
    assert server.counters.rate_slipped == 2
    assert server.counters.rate_limited == 2


class Ticking:
    """A clock that goes on by a millisecond with every look, and so with each question that is considered."""

    def __init__(self) -> None:
        self._now_ns = SECOND

    def __call__(self) -> int:
        self._now_ns += MILLISECOND
        return self._now_ns


def unusual(name: str) -> dns.message.Message:
    return dns.message.make_query(name, "A", options=[dns.edns.ECSOption("10.1.0.0", 16)])


@asynccontextmanager
async def serving_by(
    way: str, catalog: Catalog, monkeypatch: pytest.MonkeyPatch, limits: DnsLimits | None = None
) -> AsyncIterator[tuple[Server, socket.socket]]:
    """Each of the ways to read a socket, with an asker; the clock goes on by looking at it."""
    monkeypatch.setattr(server_module, "BUSY_ANSWERS", 1 if way == "batch" else 1000)
    host = "0.0.0.0" if way == "open" else "127.0.0.1"
    async with serving(catalog, limits=limits, host=host, clock_ns=Ticking()) as server:
        server.address = ("127.0.0.1", server.address[1])
        for _ in range(2):  # the second time it is known, which is when batches begin
            await server.ask(query("n1.node.consul"))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
            asker.settimeout(0)
            asker.connect(server.address)
            yield server, asker


async def numbers_of_replies(asker: socket.socket, requests: list[dns.message.Message]) -> list[int]:
    """Which are answered, in the order of the answers. All are there when the server wakes."""
    for number, request in enumerate(requests):
        asker.send(number.to_bytes(2) + request.to_wire()[2:])
    await trio.testing.wait_all_tasks_blocked()
    replies = []
    with contextlib.suppress(BlockingIOError):
        while True:
            replies.append(int.from_bytes(asker.recv(65535)[:2]))
    return replies


WAYS = ["calm", "batch", "open"]


@pytest.mark.parametrize("sort", [query, unusual])
@pytest.mark.parametrize("way", WAYS)
async def test_a_pass_ends_after_five_milliseconds_and_the_rest_has_its_turn_after_all_else(
    catalog: Catalog, way: str, sort: Callable[[str], dns.message.Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = DnsLimits(unusual_ns_at_once=SECOND)
    async with serving_by(way, catalog, monkeypatch, limits) as (server, asker):
        for number in range(100):
            asker.send(sort(f"nope{number}.service.consul").to_wire())
        answered = [2]
        while answered[-1] < 102:
            await trio.lowlevel.checkpoint()
            answered.append(sum(server.counters.answered.values()))
        # Who comes first in a round of trio's is drawn by lot, so two passes may follow one another.
        assert max(after - before for before, after in itertools.pairwise(answered)) <= 2 * 5


@pytest.mark.parametrize("way", WAYS)
async def test_questions_that_were_left_over_are_answered_before_newer_ones(
    catalog: Catalog, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving_by(way, catalog, monkeypatch) as (server, asker):
        for number in range(50):
            asker.send(number.to_bytes(2) + query(f"nope{number}.service.consul").to_wire()[2:])
        while sum(server.counters.answered.values()) == 2:
            await trio.lowlevel.checkpoint()
        asker.send((50).to_bytes(2) + query("web.service.consul").to_wire()[2:])
        assert await numbers_of_replies(asker, []) == list(range(51))


@pytest.mark.parametrize("way", WAYS)
async def test_unusual_packets_are_answered_after_the_others_that_came_with_them(
    catalog: Catalog, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, new = query("n1.node.consul"), query("web.service.consul")
    rare = unusual("n1.node.consul")
    async with serving_by(way, catalog, monkeypatch) as (_, asker):
        numbers = await numbers_of_replies(asker, [rare, known, rare, new])
    assert (sorted(numbers[:2]), numbers[2:]) == ([1, 3], [0, 2])


@pytest.mark.parametrize("way", WAYS)
async def test_unusual_packets_are_dropped_past_their_share_of_the_time_and_others_are_not(
    catalog: Catalog, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = DnsLimits(unusual_ns_a_second=1, unusual_ns_at_once=5 * MILLISECOND // 2)
    requests = [unusual(f"nope{number}.service.consul") for number in range(10)]
    async with serving_by(way, catalog, monkeypatch, limits) as (server, asker):
        assert await numbers_of_replies(asker, [*requests, query("web.service.consul")]) == [10, 0, 1, 2]
    assert server.counters.unusual_dropped == 7


async def test_new_questions_are_dropped_when_too_many_wait_and_known_ones_are_not(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = [query(f"nope{number}.service.consul") for number in range(10)]
    async with serving_by("calm", catalog, monkeypatch, DnsLimits(late_max=2)) as (server, asker):
        numbers = await numbers_of_replies(asker, [*requests, query("n1.node.consul")])
    assert sorted(numbers) == [0, 1, 2, 3, 4, 5, 6, 10]
    assert server.counters.late_dropped == 3


async def test_memory_of_known_questions_is_bounded(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolver_module, "KNOWN_MAX", 10)
    async with serving(catalog) as server:
        for number in range(25):
            await server.ask(query(f"nope{number}.service.consul"))
    assert server.counters.memory_overflows == 2


async def test_unreachable_asker_does_not_stop_the_server(catalog: Catalog) -> None:
    async with serving(catalog) as server:
        for _ in range(3):  # each is gone when its answer arrives: the kernel reports it by ICMP
            async with server.udp() as sock:
                await sock.send(query("n1.node.consul").to_wire())
        assert (await server.ask(query("n1.node.consul"))).answer


def test_loopback_and_prefixes_are_told_from_text() -> None:
    assert is_loopback("127.8.0.1")
    assert is_loopback("::1")
    assert not is_loopback("10.0.0.127")
    assert prefix_of("192.0.2.77") == b"\xc0\0\2"
    assert prefix_of("2001:db8:1:2ff::1%eth0") == bytes.fromhex("20010db8000102")


@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM])
def test_a_port_that_is_taken_is_told_as_such_where_no_loop_runs_yet(kind: socket.SocketKind) -> None:
    """An agent binds before its loop starts; outside of it trio would not even close a socket."""
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(OSError, match="in use"):
            bind_both(*taken.getsockname())


def test_sockets_bound_to_one_address_are_used_as_they_are() -> None:
    with bind_udp("127.0.0.1", 0) as sock:
        assert datagrams_of(sock) is sock
    with datagrams_of(bind_udp("0.0.0.0", 0)) as datagrams:
        assert isinstance(datagrams, EveryAddress)


def test_every_series_exists_from_the_start() -> None:
    counters = DnsCounters()
    assert {labels.transport for labels in counters.answered} == {"udp", "tcp"}
    assert counters.answered[AnswerLabels("udp", "A", "NXDOMAIN")] == 0
    assert replace(counters).answered[AnswerLabels("tcp", "other", "NOTIMP")] == 0


async def test_udp_is_answered_under_load_while_no_file_is_left(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What answers many at once is loaded when there are many, and that takes a file."""
    monkeypatch.setattr(server_module, "BUSY_ANSWERS", 1)
    monkeypatch.delitem(sys.modules, "adsum.dns_server.batches", raising=False)
    async with serving(catalog) as server, server.udp() as asker:
        question = query("web.service.consul").to_wire()
        await asker.send(question)
        await asker.recv(512)
        with no_file_left():
            for _ in range(20):
                await asker.send(question)
            assert len([await asker.recv(512) for _ in range(20)]) == 20
        assert "adsum.dns_server.batches" not in sys.modules
        await asker.send(question)
        await asker.recv(512)
        assert "adsum.dns_server.batches" in sys.modules


async def test_a_connection_that_comes_while_no_file_is_left_is_counted_and_answered_later(
    catalog: Catalog,
) -> None:
    async with serving(catalog) as server:
        with socket.socket() as client:
            with no_file_left():
                client.connect(server.address)
                with trio.fail_after(10):
                    while not server.counters.tcp_accepting.errors:
                        await trio.lowlevel.checkpoint()
            client.sendall(framed(query("web.service.consul")))
            assert len(await trio.to_thread.run_sync(client.recv, 512)) > 40
