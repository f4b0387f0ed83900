"""Requests that came before, byte for byte, and are begun anew without a look at what they say."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import pytest
import trio
import trio.testing

from adsum.http.limits import HttpCounters
from adsum.http.request import Request
from adsum.http.request_cache import REQUEST_BYTES_MAX, REQUESTS_BYTES_MAX, KnownBeginning, KnownRequests
from adsum.http.response import Response, text
from adsum.http.router import Answered, HttpRules, Route, Router
from tests.http.http_support import Server, connected, get, request, running, until

RULES = HttpRules(response_headers=(("X-Site", "ours"),))
LARGE_BYTES = 300_000


@dataclass
class Keeper:
    """Says how to begin each GET again, and answers when the test says so."""

    begun: list[str] = field(default_factory=list)  # by the route, with the whole request
    taken: list[tuple[str, Answered]] = field(default_factory=list)

    async def handle(self, _request: Request, rest: str) -> Response:
        return text(200, f"task {rest}")

    def begin(self, request: Request, rest: str, answered: Answered) -> bool:
        self.begun.append(rest)
        self.taken.append((rest, answered))
        request.begins_again = partial(self.begin_again, rest)
        return True

    def begin_again(self, rest: str, answered: Answered) -> None:
        self.taken.append((rest, answered))

    def answer(self, body: bytes = b"", varying: bytes = b"") -> None:
        rest, answered = self.taken.pop(0)
        answered(Response(200, body or rest.encode()), varying)


@asynccontextmanager
async def keeping(keeper: Keeper) -> AsyncIterator[Server]:
    """A GET of `a` was begun once."""
    route = Route(("GET", "PUT"), "/v1/kv/", keeper.handle, rest=True, begin=keeper.begin)
    router = Router([route], RULES)
    async with running(lambda request: router.answer(request), None, router.begin) as server:
        async with connected(server) as client:
            await client.ask(get("/v1/kv/x"))  # its head is known from here on
            await client.send(get("/v1/kv/a"))
            await until(lambda: len(keeper.taken) == 1)
            keeper.answer()
            await client.answer()
        await until(lambda: server.counters.connections_open == 0)
        yield server


async def until_taken(keeper: Keeper, number: int = 1) -> None:
    await until(lambda: len(keeper.taken) == number)


async def test_the_same_request_is_begun_unparsed_and_answered_later_with_the_sites_headers() -> None:
    keeper = Keeper()
    async with keeping(keeper) as server, connected(server) as client:
        for time in range(2):
            await client.send(get("/v1/kv/a"))
            await until_taken(keeper)
            keeper.answer(b"%d" % time, b"X-Time: %d\r\n" % time)
            answer = await client.answer()
            assert (answer.status, answer.body) == (200, b"%d" % time)
            assert (answer.headers["x-time"], answer.headers["x-site"]) == (str(time), "ours")
            assert {"date", "content-length", "vary"} <= set(answer.headers)
        assert keeper.begun == ["a"]
        assert (server.counters.unparsed, server.counters.requests["GET"][2]) == (2, 4)


async def test_one_answer_is_kept_for_all_and_what_varies_goes_out_once() -> None:
    keeper = Keeper()
    kept = text(200, "kept")
    async with keeping(keeper) as server, connected(server) as client:
        for varying in (b"X-Time: 1\r\n", b""):
            await client.send(get("/v1/kv/a"))
            await until_taken(keeper)
            keeper.taken.pop()[1](kept, varying)
            answer = await client.answer()
            assert (answer.body, "x-time" in answer.headers) == (b"kept", bool(varying))


@pytest.mark.parametrize(
    "raw",
    [
        get("/v1/kv/b"),
        get("/v1/kv/a?stale"),
        get("/v1/kv/a", "X-Other: 1"),
        request("PUT", "/v1/kv/a", body=b""),
    ],
)
async def test_another_request_is_not_taken_for_it(raw: bytes) -> None:
    keeper = Keeper()
    async with keeping(keeper) as server, connected(server) as client:
        await client.send(raw)
        await trio.testing.wait_all_tasks_blocked(0.01)
        if keeper.taken:
            keeper.answer()
        await client.answer()
        assert server.counters.unparsed == 0


async def test_what_comes_behind_it_is_answered_after_it() -> None:
    keeper = Keeper()
    async with keeping(keeper) as server, connected(server) as client:
        await client.send(get("/v1/kv/a"))
        await until_taken(keeper)
        await client.send(get("/v1/kv/b") + get("/v1/kv/c"))
        await trio.testing.wait_all_tasks_blocked(0.01)
        keeper.answer()
        assert [(await client.answer()).body for _ in "abc"] == [b"a", b"task b", b"task c"]
        await client.send(get("/v1/kv/a"))
        await until_taken(keeper)
        keeper.answer()
        assert (await client.answer()).body == b"a"


async def test_a_client_that_is_gone_is_answered_in_vain() -> None:
    keeper = Keeper()
    async with keeping(keeper) as server:
        async with connected(server) as client:
            await client.send(get("/v1/kv/a"))
            await until_taken(keeper)
        await trio.testing.wait_all_tasks_blocked(0.01)
        keeper.answer()
        await until(lambda: server.counters.connections_open == 0)
        assert server.counters.handler_errors == 0


async def test_a_client_that_stops_sending_still_gets_its_answer() -> None:
    keeper = Keeper()
    async with keeping(keeper) as server, connected(server) as client:
        await client.send(get("/v1/kv/a"))
        await client.stream.send_eof()  # type: ignore[attr-defined]
        await until_taken(keeper)
        await trio.testing.wait_all_tasks_blocked(0.01)
        keeper.answer()
        assert (await client.answer()).body == b"a"
        assert await client.read_to_end() == b""


async def test_one_that_has_become_large_goes_out_whole_and_as_it_is() -> None:
    keeper, raw = Keeper(), get("/v1/kv/a", "Accept-Encoding: gzip")
    async with keeping(keeper) as server, connected(server) as client:
        assert (await client.ask(raw)).body == b"task a"  # its head is new
        for size, is_packed in ((10, False), (2_000, True), (LARGE_BYTES, False)):
            await client.send(raw)
            await until_taken(keeper)
            keeper.answer(b"x" * size)
            answer = await client.answer()
            assert (answer.headers.get("content-encoding") == "gzip") is is_packed
            assert is_packed or len(answer.body) == size
        assert server.counters.unparsed == 2


async def test_answers_that_are_ready_at_once_go_out_when_all_were_heard() -> None:
    keeper = Keeper()
    seen_sent: list[int] = []
    async with keeping(keeper) as server, connected(server) as one, connected(server) as other:

        def begin_again(_rest: str, answered: Answered) -> None:
            seen_sent.append(server.counters.sent_bytes)
            answered(text(200, "at once"))

        keeper.begin_again = begin_again  # type: ignore[method-assign,assignment]
        await one.send(get("/v1/kv/b"))
        await until_taken(keeper)
        keeper.answer()
        await one.answer()
        for client in (one, other):  # without a turn for the server in between
            assert isinstance(client.stream, trio.SocketStream)
            with socket.fromfd(client.stream.socket.fileno(), socket.AF_INET, socket.SOCK_STREAM) as same:
                same.send(get("/v1/kv/b"))
        for client in (one, other):
            assert (await client.answer()).body == b"at once"
        assert seen_sent[0] == seen_sent[1] < server.counters.sent_bytes


def test_as_many_bytes_are_kept_as_may_be_and_then_all_are_forgotten() -> None:
    counters = HttpCounters()
    known = KnownRequests(counters)
    entry = KnownBeginning(lambda _answered: None, takes_gzip=False, site_headers=b"")
    fit = REQUESTS_BYTES_MAX // REQUEST_BYTES_MAX
    longest = [b"%0*d" % (REQUEST_BYTES_MAX, number) for number in range(fit + 1)]
    for data in longest[:fit]:
        known.keep(data, entry)
        known.keep(data, entry)  # it counts once
    assert (known.get(longest[0]), counters.known_overflows) == (entry, 0)
    known.keep(longest[fit], entry)
    assert (known.get(longest[0]), known.get(longest[fit])) == (None, entry)
    assert counters.known_overflows == 1
