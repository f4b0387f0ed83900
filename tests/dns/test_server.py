"""Real sockets: what a client on the wire sees."""

from __future__ import annotations

import itertools
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import dns.flags
import dns.message
import dns.rcode
import pytest
import trio

from adsum.catalog.definitions import Status
from adsum.catalog.model import Check
from adsum.dns import resolver as resolver_module
from adsum.dns import server as server_module
from adsum.dns.answers import Answers
from adsum.dns.counters import DnsCounters, Tally
from adsum.dns.datagrams import EveryAddress, datagrams_of, is_loopback, prefix_of
from adsum.dns.limits import DnsLimits
from adsum.dns.recursor import Recursion
from adsum.dns.resolver import Resolver
from adsum.dns.server import DnsSockets, bind_both, bind_udp, serve
from adsum.dns.settings import DnsSettings
from tests.dns.support import NOW, Catalog, lines

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
) -> AsyncIterator[Server]:
    settings, limits = settings or DnsSettings(), limits or DnsLimits()
    counters = DnsCounters()
    answers = Answers(catalog.view, settings, Random(1))
    ids = itertools.count(1)
    resolver = Resolver(answers, Recursion(limits, counters, lambda: next(ids)), counters, trio.current_time)
    udp, tcp = bind_both(host, 0)
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, DnsSockets([udp], [tcp]), resolver, limits, lambda: 10**9)
        yield Server(tcp.socket.getsockname()[:2], answers, counters)
        nursery.cancel_scope.cancel()


def query(name: str, rdtype: str = "A", edns: int | None = None) -> dns.message.Message:
    return dns.message.make_query(name, rdtype, use_edns=False if edns is None else 0, payload=edns or 0)


def framed(*requests: dns.message.Message) -> bytes:
    packets = [request.to_wire() for request in requests]
    return b"".join(len(packet).to_bytes(2) + packet for packet in packets)


async def reply_on(stream: trio.SocketStream) -> dns.message.Message:
    return dns.message.from_wire(await exactly(stream, int.from_bytes(await exactly(stream, 2))))


async def send_forever(stream: trio.SocketStream, questions: bytes) -> None:
    while True:
        await stream.send_all(questions)


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
    assert server.counters.answered[Tally("udp", "SRV", "NOERROR")] == 3
    assert server.counters.fast == 2


async def test_known_question_sees_the_catalog_move(catalog: Catalog) -> None:
    async with serving(catalog) as server:
        request = query("web.service.consul")
        for _ in range(2):
            await server.ask(request)
        check = Check(check_id="service:web1", name="web", status=Status.CRITICAL, service_id="web1")
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


async def test_pipelined_questions_over_tcp_are_answered_in_order(catalog: Catalog) -> None:
    requests = [query("many.service.consul", "SRV"), query("nope.service.consul"), query("n1.node.consul")]
    async with serving(catalog) as server, await server.connect() as stream:
        await stream.send_all(framed(*requests))
        replies = [await reply_on(stream) for _ in requests]
    assert [reply.id for reply in replies] == [request.id for request in requests]
    assert len(lines(replies[0].answer)) == 20


async def test_question_in_single_bytes_is_answered(catalog: Catalog) -> None:
    async with serving(catalog) as server, await server.connect() as stream:
        for byte in framed(query("n1.node.consul")):
            await stream.send_all(bytes((byte,)))
        assert (await reply_on(stream)).answer


async def test_idle_connection_is_closed(catalog: Catalog, autojump_clock: trio.testing.MockClock) -> None:
    async with serving(catalog) as server, await server.connect() as stream:
        await stream.send_all(framed(query("n1.node.consul"))[:5])
        assert await stream.receive_some() == b""
    assert server.counters.tcp_timed_out == 1
    assert server.counters.tcp_connections == 0


async def test_reader_that_does_not_read_is_cut_off(
    catalog: Catalog, autojump_clock: trio.testing.MockClock
) -> None:
    catalog.node("wordy", "10.8.0.1", **{f"key{number}": "x" * 500 for number in range(60)})
    questions = framed(*[query("wordy.node.consul", "TXT")] * 400)
    async with serving(catalog) as server, await server.connect() as stream:
        with pytest.raises(trio.BrokenResourceError):
            await send_forever(stream, questions)
    assert server.counters.tcp_slow_readers == 1


async def test_connections_over_the_limit_are_turned_away(catalog: Catalog) -> None:
    limits = DnsLimits(tcp_connections_max=1)
    async with serving(catalog, limits=limits) as server, await server.connect() as first:
        await first.send_all(framed(query("n1.node.consul")))
        await reply_on(first)
        async with await server.connect() as second:
            assert await second.receive_some() == b""
    assert server.counters.tcp_turned_away == 1


async def test_one_host_cannot_hold_all_connections(catalog: Catalog) -> None:
    limits = DnsLimits(tcp_connections_per_host_max=1)
    async with serving(catalog, limits=limits) as server:
        for _ in range(2):  # a place is free again once its conversation is over
            async with await server.connect() as first:
                await first.send_all(framed(query("n1.node.consul")))
                await reply_on(first)
                async with await server.connect() as second:
                    assert await second.receive_some() == b""
            await trio.testing.wait_all_tasks_blocked()
    assert server.counters.tcp_accepted == server.counters.tcp_turned_away == 2


async def test_question_too_large_ends_the_conversation(catalog: Catalog) -> None:
    async with serving(catalog) as server, await server.connect() as stream:
        await stream.send_all(b"\xff\xff")
        assert await stream.receive_some() == b""
    assert server.counters.tcp_oversized == 1


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
    limits = DnsLimits(answers_per_s=1, answers_burst=2)
    async with serving(catalog, limits=limits) as server, server.udp() as sock:
        for _ in range(7):
            await sock.send(query("web.service.consul").to_wire())
            await trio.testing.wait_all_tasks_blocked()
        replies = [dns.message.from_wire(await sock.recv(4096)) for _ in range(5)]
    assert [bool(reply.flags & dns.flags.TC) for reply in replies] == [False, False, False, True, True]
    assert [len(reply.answer) for reply in replies] == [1, 1, 1, 0, 0]
    assert server.counters.rate_slipped == 2
    assert server.counters.rate_limited == 2


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
    assert set(counters.by("transport")) == {"udp", "tcp"}
    assert counters.by("rcode")["NXDOMAIN"] == 0
    assert replace(counters).answered[Tally("tcp", "other", "NOTIMP")] == 0
