"""Requests answered by their bytes, and the place where their connections wait."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from weakref import WeakSet

import pytest
import trio
import trio.testing

from adsum.http.idlers import READY_PER_WAKE, Idlers
from adsum.http.limits import HttpCounters, HttpLimits
from adsum.http.listeners import bind_tcp
from adsum.http.request import Request
from adsum.http.request_cache import REQUEST_BYTES_MAX, REQUESTS_MAX, KnownRequest, KnownRequests
from adsum.http.response import Response, json_body, text
from adsum.http.server import serve
from tests.http.http_support import Client, Server, connected, get, running, until

LARGE_BYTES = 60_000  # what is answered unparsed goes out in one piece


@dataclass(eq=False)
class Shop:
    """Says what it has, and how to hear it anew."""

    has: bytes = b"bread"
    asked: int = 0
    is_closed: bool = False

    async def answer(self, request: Request) -> Response:
        self.asked += 1
        request.again = self.again
        return json_body(self.has)

    def again(self) -> Response | None:
        return None if self.is_closed else json_body(self.has)


@asynccontextmanager
async def asking(shop: Shop) -> AsyncIterator[tuple[Server, Client]]:
    async with running(shop.answer) as server, connected(server) as client:
        yield server, client


async def test_what_was_asked_before_is_answered_unparsed_as_things_are_now() -> None:
    shop = Shop()
    async with asking(shop) as (server, client):
        assert (await client.ask(get("/"))).body == b"bread"
        shop.has = b"salt"
        answer = await client.ask(get("/"))
        assert (answer.status, answer.body) == (200, b"salt")
        assert {"date", "content-length", "content-type"} <= set(answer.headers)
        async with connected(server) as another:
            assert (await another.ask(get("/"))).body == b"salt"
        assert (shop.asked, server.counters.unparsed) == (1, 2)
        assert server.counters.requests["GET"][2] == 3


async def test_what_is_known_no_more_is_asked_in_full() -> None:
    shop = Shop()
    async with asking(shop) as (server, client):
        await client.ask(get("/"))
        shop.is_closed = True
        assert (await client.ask(get("/"))).body == b"bread"
        assert (shop.asked, server.counters.unparsed) == (2, 0)


async def test_who_takes_gzip_and_who_does_not_are_told_apart() -> None:
    shop = Shop(has=b"b" * 5_000)
    async with asking(shop) as (server, client):
        for _time in range(2):
            assert len((await client.ask(get("/"))).body) == 5_000
            zipped = await client.ask(get("/", "Accept-Encoding: gzip"))
            assert zipped.headers["content-encoding"] == "gzip"
            assert len(zipped.body) < 100
        assert (shop.asked, server.counters.unparsed) == (2, 2)


@pytest.mark.parametrize(
    "raw",
    [
        get("/", "Connection: close"),
        get("/") + get("/"),
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab",
        get("/", "X-Long: " + "a" * REQUEST_BYTES_MAX),
    ],
    ids=["close", "two at once", "with a body", "long"],
)
async def test_what_is_more_than_a_question_is_not_kept(raw: bytes) -> None:
    shop = Shop()
    async with running(shop.answer) as server:
        for _time in range(2):
            async with connected(server) as client:
                await client.ask(raw)
        assert server.counters.unparsed == 0


async def test_a_request_in_pieces_is_put_together_though_its_whole_is_known() -> None:
    shop, raw = Shop(), get("/")
    async with asking(shop) as (server, client):
        await client.ask(raw)
        await client.send(raw[:20])
        await until(lambda: server.counters.received_bytes == len(raw) + 20)
        await client.send(raw[20:])
        assert (await client.answer()).body == b"bread"
        assert (shop.asked, server.counters.unparsed) == (2, 0)


def has_answered(server: Server, requests: int) -> bool:
    return server.counters.unparsed == requests


async def test_a_client_that_reads_late_gets_every_byte() -> None:
    shop = Shop(has=b"b" * LARGE_BYTES)
    async with asking(shop) as (server, client):
        await client.ask(get("/"))
        asked, is_taken = 0, True
        while is_taken:  # until an answer does not fit the socket, and the next question waits behind it
            asked += 1
            await client.send(get("/"))
            with trio.move_on_after(1) as wait:
                await until(partial(has_answered, server, asked))
            is_taken = not wait.cancelled_caught
        for _time in range(asked):
            assert len((await client.answer()).body) == LARGE_BYTES
        assert len((await client.ask(get("/"))).body) == LARGE_BYTES


async def test_a_hang_up_ends_the_wait_for_the_next_request() -> None:
    shop = Shop()
    async with asking(shop) as (server, client):
        await client.ask(get("/"))
        await client.stream.aclose()
        await until(lambda: server.counters.connections_open == 0)


async def test_a_bug_in_a_known_answer_ends_one_connection_and_not_the_server() -> None:
    def fail() -> Response | None:
        raise RuntimeError

    async def answer(request: Request) -> Response:
        request.again = fail
        return text(200, "")

    async with running(answer) as server, connected(server) as victim:
        await victim.ask(get("/"))
        await victim.send(get("/"))
        assert await victim.read_to_end() == b""
        async with connected(server) as next_one:
            assert (await next_one.ask(get("/other"))).status == 200
        assert server.counters.handler_errors == 1


async def test_who_is_answered_while_the_server_ends_meets_no_bug() -> None:
    counters, listener = HttpCounters(), bind_tcp("127.0.0.1", 0)

    async def answer(_request: Request) -> Response:
        nursery.cancel_scope.cancel()
        with trio.CancelScope(shield=True):
            await trio.testing.wait_all_tasks_blocked()
        return text(200, "just in time")

    async with trio.open_nursery() as nursery:
        await nursery.start(serve, [listener], answer, HttpLimits(), counters)
        client = await trio.open_tcp_stream(*listener.getsockname())
        await client.send_all(get("/"))
    assert b"just in time" in await client.receive_some()
    await client.aclose()
    assert (counters.handler_errors, counters.connections_open) == (0, 0)


def test_as_many_are_kept_as_may_be_and_then_all_are_forgotten() -> None:
    counters = HttpCounters()
    known, entry = (
        KnownRequests(counters),
        KnownRequest(lambda: None, takes_gzip=False, fate=b"", site_headers=b""),
    )
    for number in range(REQUESTS_MAX + 1):
        known.keep(b"%d" % number, entry)
    assert (known.get(b"0"), known.get(b"%d" % REQUESTS_MAX)) == (None, entry)
    assert counters.known_overflows == 1


def test_what_is_forgotten_is_let_go_of_a_little_at_a_time() -> None:
    """All at once would hold the loop: to each belongs an answer, and what it is made of."""
    known = KnownRequests(HttpCounters())
    there = WeakSet[Shop]()
    for number in range(REQUESTS_MAX):
        shop = Shop()
        there.add(shop)
        known.keep(b"%d" % number, KnownRequest(shop.again, False, b"", b""))
    del shop
    others = Shop()
    entry = KnownRequest(others.again, False, b"", b"")
    known.keep(b"one more", entry)
    assert len(there) == REQUESTS_MAX
    known.keep(b"and another", entry)
    assert len(there) == REQUESTS_MAX - 8
    for number in range(REQUESTS_MAX // 8):
        known.keep(b"other %d" % number, entry)
    assert len(there) == 0


class Listener:
    """Counts what it hears; keeps nothing to itself but the word `quiet`."""

    def __init__(self, sock: socket.socket) -> None:
        self.number = sock.fileno()
        self._recv = sock.recv
        self.heard = 0

    def hear(self) -> bytes | None:
        data = self._recv(100)
        self.heard += 1
        return None if data == b"quiet" else data


async def test_more_than_one_turn_s_worth_of_ready_connections_are_all_heard() -> None:
    pairs = [socket.socketpair() for _ in range(READY_PER_WAKE + 10)]
    idlers, listeners = Idlers(), [Listener(mine) for mine, _ in pairs]
    async with trio.open_nursery() as nursery:
        for listener in listeners:
            nursery.start_soon(idlers.wait, listener.number, listener.hear)
        nursery.start_soon(idlers.run)
        for _, theirs in pairs:
            theirs.send(b"quiet")
        await until(lambda: all(listener.heard == 1 for listener in listeners))
        for _, theirs in pairs:
            theirs.send(b"loud")
        await until(lambda: len(nursery.child_tasks) == 1)
        nursery.cancel_scope.cancel()
    for pair in pairs:
        for sock in pair:
            sock.close()


async def test_who_stops_waiting_is_heard_no_more() -> None:
    mine, theirs = socket.socketpair()
    idlers, listener = Idlers(), Listener(mine)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(idlers.run)
        with trio.move_on_after(0):
            await idlers.wait(listener.number, listener.hear)
        theirs.send(b"quiet")
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert listener.heard == 0
        theirs.send(b"loud")
        assert await idlers.wait(listener.number, listener.hear) == b"quietloud"
        nursery.cancel_scope.cancel()
    mine.close()
    theirs.close()


async def test_one_that_ends_the_wait_of_another_does_not_trip_over_it() -> None:
    pairs = [socket.socketpair() for _ in range(2)]
    idlers = Idlers()
    first, second = (mine.fileno() for mine, _ in pairs)
    ended: list[bytes] = []

    def hear_and_wake(other: int) -> bytes:
        idlers.wake(other)
        return b"heard"

    async def wait(number: int, other: int) -> None:
        ended.append(await idlers.wait(number, partial(hear_and_wake, other)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, first, second)
        nursery.start_soon(wait, second, first)
        await trio.testing.wait_all_tasks_blocked()
        for _, theirs in pairs:
            theirs.send(b"both are readable at once")
        nursery.start_soon(idlers.run)
        await until(lambda: len(ended) == 2)
        nursery.cancel_scope.cancel()
    assert sorted(ended) == [b"", b"heard"]
    for pair in pairs:
        for sock in pair:
            sock.close()


async def test_who_speaks_while_nobody_waits_is_left_alone_until_the_next_wait() -> None:
    mine, theirs = socket.socketpair()
    idlers, listener = Idlers(), Listener(mine)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(idlers.run)
        theirs.send(b"first")
        assert await idlers.wait(listener.number, listener.hear) == b"first"
        theirs.send(b"second")
        await trio.testing.wait_all_tasks_blocked(
            0.01
        )  # a loop that went on seeing it would never be blocked
        assert listener.heard == 1
        assert await idlers.wait(listener.number, listener.hear) == b"second"
        nursery.cancel_scope.cancel()
    mine.close()
    theirs.close()


async def test_the_deaf_hear_nothing_until_they_wait_again() -> None:
    mine, theirs = socket.socketpair()
    idlers, listener = Idlers(), Listener(mine)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(idlers.run)
        nursery.start_soon(idlers.wait, listener.number, listener.hear)
        await trio.testing.wait_all_tasks_blocked()
        idlers.deafen(listener.number)
        theirs.send(b"loud")
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert listener.heard == 0
        idlers.wake(listener.number)
        assert await idlers.wait(listener.number, listener.hear) == b"loud"
        nursery.cancel_scope.cancel()
    mine.close()
    theirs.close()


@pytest.mark.parametrize("last", [b"", get("/", "Connection: close"), b"nonsense\r\n\r\n", get("/")[:20]])
async def test_the_next_connection_is_heard_whatever_the_one_with_its_number_ended_by(last: bytes) -> None:
    """A number that was not forgotten would pass for registered."""
    async with running(Shop().answer) as server:
        for _connection in range(10):
            async with connected(server) as client:
                for target in ("/a", "/a", "/b"):
                    with trio.fail_after(5):
                        assert (await client.ask(get(target))).status == 200
                if last:
                    await client.send(last)
            await until(lambda: server.counters.connections_open == 0)
