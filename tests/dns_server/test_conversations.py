"""Connections over TCP: who may stay, for how long, and who makes room for whom."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest
import trio
import trio.testing

from adsum.dns.limits import DnsLimits
from tests.dns.support import Catalog, lines
from tests.dns_server.test_server import Server, framed, query, reply_on, serving

QUESTION = framed(query("n1.node.consul"))


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


async def test_connection_that_asks_nothing_is_closed_after_a_second(
    catalog: Catalog, autojump_clock: trio.testing.MockClock
) -> None:
    for sent in (b"", QUESTION[:5], QUESTION[:-1]):
        async with serving(catalog) as server, await server.connect() as stream:
            began_s = trio.current_time()
            if sent:
                await stream.send_all(sent)
            assert await stream.receive_some() == b""
            assert trio.current_time() - began_s == pytest.approx(1)
        assert server.counters.tcp_newcomers_timed_out == 1
        assert server.counters.tcp_accepted == server.counters.tcp_newcomers == 0


async def test_idle_connection_is_closed_ten_seconds_after_its_question(
    catalog: Catalog, autojump_clock: trio.testing.MockClock
) -> None:
    async with serving(catalog) as server, await server.connect() as stream:
        await ask_on(stream)
        began_s = trio.current_time()
        await stream.send_all(QUESTION[:5])
        assert await stream.receive_some() == b""
        assert trio.current_time() - began_s == pytest.approx(10)
    assert server.counters.tcp_timed_out == 1
    assert server.counters.tcp_connections == server.counters.tcp_unread_bytes == 0


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
        await ask_on(first)
        async with await server.connect() as second:
            await second.send_all(QUESTION)
            assert await second.receive_some() == b""
    assert server.counters.tcp_turned_away == 1


async def test_one_host_cannot_hold_all_connections(catalog: Catalog) -> None:
    limits = DnsLimits(tcp_connections_per_host_max=1)
    async with serving(catalog, limits=limits) as server:
        for _ in range(2):  # a place is free again once its conversation is over
            async with await server.connect() as first:
                await ask_on(first)
                async with await server.connect() as second:
                    await second.send_all(QUESTION)
                    assert await second.receive_some() == b""
            await trio.testing.wait_all_tasks_blocked()
    assert server.counters.tcp_accepted == server.counters.tcp_turned_away == 2


async def test_question_is_answered_at_once_beside_hundreds_of_connections_that_ask_nothing(
    catalog: Catalog, mock_clock: trio.testing.MockClock
) -> None:
    """The clock stands still, so nobody has timed out when the answer comes."""
    async with serving(catalog) as server, AsyncExitStack() as stack:
        for number in range(600):
            await stack.enter_async_context(await connect_from(server, f"127.0.0.{2 + number % 5}"))
        for host in ("127.0.0.1", "127.0.0.2"):
            async with await connect_from(server, host) as stream:
                await ask_on(stream)
        assert server.counters.tcp_newcomers == 63
        assert server.counters.tcp_newcomers_displaced == 537
        assert server.counters.tcp_turned_away == 0


async def test_host_with_too_many_that_ask_nothing_loses_its_own_oldest(catalog: Catalog) -> None:
    limits = DnsLimits(tcp_newcomers_per_host_max=2)
    async with serving(catalog, limits=limits) as server, AsyncExitStack() as stack:
        hosts = ("127.0.0.3", *["127.0.0.2"] * 3)
        other, *own = [await stack.enter_async_context(await connect_from(server, host)) for host in hosts]
        assert await own[0].receive_some() == b""
        for stream in (other, *own[1:]):
            await ask_on(stream)
    assert server.counters.tcp_newcomers_displaced == 1


async def test_of_too_many_that_ask_nothing_the_oldest_makes_room(catalog: Catalog) -> None:
    limits = DnsLimits(tcp_newcomers_max=2)
    async with serving(catalog, limits=limits) as server, AsyncExitStack() as stack:
        hosts = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
        streams = [await stack.enter_async_context(await connect_from(server, host)) for host in hosts]
        assert await streams[0].receive_some() == b""
        for stream in streams[1:]:
            await ask_on(stream)
    assert server.counters.tcp_newcomers_displaced == 1


async def test_connection_that_waits_longest_with_half_a_question_makes_room_for_the_others(
    catalog: Catalog,
) -> None:
    limits = DnsLimits(tcp_unread_bytes_max=2 * 30)
    async with serving(catalog, limits=limits) as server, AsyncExitStack() as stack:
        streams = [await stack.enter_async_context(await server.connect()) for _ in range(3)]
        for stream in streams:
            await ask_on(stream)
        for stream in streams:
            await stream.send_all(QUESTION[:30])
            await trio.testing.wait_all_tasks_blocked()
        assert await streams[0].receive_some() == b""
        assert server.counters.tcp_unread_bytes == 60
        for stream in streams[1:]:
            await stream.send_all(QUESTION[30:])
            assert lines((await reply_on(stream)).answer) == ["n1.node.consul. 0 IN A 127.0.0.1"]
        assert server.counters.tcp_unread_bytes == 0
    assert server.counters.tcp_unread_displaced == 1


async def test_what_is_held_for_a_connection_is_freed_when_it_goes(catalog: Catalog) -> None:
    async with serving(catalog) as server:
        async with await server.connect() as stream:
            await stream.send_all(QUESTION[:30])
            await trio.testing.wait_all_tasks_blocked()
            assert (server.counters.tcp_unread_bytes, server.counters.tcp_newcomers) == (30, 1)
        await trio.testing.wait_all_tasks_blocked()
        assert (server.counters.tcp_unread_bytes, server.counters.tcp_newcomers) == (0, 0)


async def test_question_too_large_ends_the_conversation(catalog: Catalog) -> None:
    async with serving(catalog) as server, await server.connect() as stream:
        await stream.send_all(b"\xff\xff")
        assert await stream.receive_some() == b""
    assert server.counters.tcp_oversized == 1


async def send_forever(stream: trio.SocketStream, questions: bytes) -> None:
    while True:
        await stream.send_all(questions)


async def ask_on(stream: trio.SocketStream) -> None:
    await stream.send_all(QUESTION)
    assert lines((await reply_on(stream)).answer) == ["n1.node.consul. 0 IN A 127.0.0.1"]


async def connect_from(server: Server, host: str) -> trio.SocketStream:
    return await trio.open_tcp_stream(*server.address, local_address=host)
