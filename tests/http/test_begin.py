"""Requests that are taken without a task, and answered by somebody else later."""

from __future__ import annotations

import gzip
import ipaddress
import logging
import socket
import struct
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from adsum.http.limits import HttpLimits
from adsum.http.request import Request
from adsum.http.response import TRUE, Response, json_body, text
from adsum.http.router import Answered, HttpRefusal, HttpRules, Route, Router
from tests.http.http_support import Client, Server, connected, get, request, running, until

LARGE_BYTES = 60_000


@dataclass
class Taken:
    request: Request
    rest: str
    answered: Answered


@dataclass
class Keeper:
    """Takes what it is offered, and answers when the test says so."""

    by_task: list[str] = field(default_factory=list)
    taken: list[Taken] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    is_willing: bool = True
    hears_of_hang_ups: bool = False

    async def handle(self, _request: Request, rest: str) -> Response:
        self.by_task.append(rest)
        return text(200, f"task {rest}")

    def begin(self, request: Request, rest: str, answered: Answered) -> bool:
        if not self.is_willing:
            return False
        if rest == "refused":
            raise HttpRefusal(400, "Not like this.")
        if rest == "bug":
            raise ZeroDivisionError
        if self.hears_of_hang_ups:
            request.on_gone = lambda: self.gone.append(rest)
        self.taken.append(Taken(request, rest, answered))
        return True

    def answer(self, response: Response | None = None) -> None:
        taken = self.taken.pop(0)
        taken.answered(response or text(200, f"taken {taken.rest}"))


@asynccontextmanager
async def keeping(
    keeper: Keeper, rules: HttpRules | None = None, limits: HttpLimits | None = None
) -> AsyncIterator[Server]:
    """The heads of a PUT of one byte and of a request without a body are known already."""
    methods = ("GET", "HEAD", "PUT")
    routes = [
        Route(methods, "/v1/kv/", keeper.handle, rest=True, begin=keeper.begin, body_bytes_max=5),
        Route(methods, "/v1/other/", keeper.handle, rest=True),
    ]
    router = Router(routes, rules)
    async with running(lambda request: router.answer(request), limits, router.begin) as server:
        router._counters = server.counters
        async with connected(server) as client:
            for raw in (put("first"), get("/v1/kv/first")):
                await client.ask(raw)
        await until(lambda: server.counters.connections_open == 0)
        keeper.by_task.clear()
        yield server


def put(rest: str, *headers: str, body: bytes = b"x") -> bytes:
    return request("PUT", f"/v1/kv/{rest}", *headers, body=body)


def reset_on_close(client: Client) -> None:
    assert isinstance(client.stream, trio.SocketStream)
    client.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def until_taken(keeper: Keeper, number: int = 1) -> None:
    await until(lambda: len(keeper.taken) == number)


async def test_a_put_with_a_known_head_is_taken_and_answered_later() -> None:
    keeper = Keeper()
    async with keeping(keeper) as server, connected(server) as client:
        for rest in ("a/b", "c d"):
            await client.send(put(rest.replace(" ", "%20")))
            await until_taken(keeper)
            taken = keeper.taken[0]
            assert (taken.rest, taken.request.method, taken.request.body) == (rest, "PUT", b"x")
            assert server.counters.bodies_held_bytes == 1
            keeper.answer()
            answer = await client.answer()
            assert (answer.status, answer.body) == (200, f"taken {rest}".encode())
            assert {"date", "content-length", "content-type", "vary"} <= set(answer.headers)
        assert keeper.by_task == []
        assert server.counters.bodies_held_bytes == 0
        assert server.counters.requests["PUT"][2] == 3


async def test_a_get_may_be_answered_on_the_spot() -> None:
    keeper = Keeper()

    def begin(request: Request, rest: str, answered: Answered) -> bool:
        answered(text(200, f"at once {request.method} {rest}"))
        return True

    keeper.begin = begin  # type: ignore[method-assign]
    async with keeping(keeper) as server, connected(server) as client:
        for rest in ("a", "b"):
            assert (await client.ask(get(f"/v1/kv/{rest}"))).body == b"at once GET " + rest.encode()
        assert server.counters.requests["GET"][2] == 3


async def test_what_is_declined_goes_to_the_handler() -> None:
    keeper = Keeper(is_willing=False)
    async with keeping(keeper) as server, connected(server) as client:
        for _time in range(2):
            assert (await client.ask(put("a"))).body == b"task a"
        assert server.counters.bodies_held_bytes == 0
        assert server.counters.requests["PUT"][2] == 3


async def test_a_route_without_a_beginning_goes_to_its_handler() -> None:
    keeper = Keeper()
    async with keeping(keeper) as server, connected(server) as client:
        for target in ("/v1/other/a", "/v1/other/b"):
            assert (await client.ask(get(target))).body == b"task " + target[-1].encode()


@pytest.mark.parametrize(
    "raw",
    [
        put("a") + put("b"),
        put("a", "Connection: close"),
        put("a", "Expect: 100-continue"),
        put("a", "X-New: 1"),
        request("PUT", "/v1/kv/a", "Transfer-Encoding: chunked") + b"1\r\nx\r\n0\r\n\r\n",
        put("a").replace(b"HTTP/1.1", b"HTTP/1.0"),
        b"\r\n" + put("a"),
    ],
    ids=["pipelined", "close", "expect", "unknown head", "chunked", "old", "an empty line before it"],
)
async def test_what_is_not_one_plain_known_request_has_a_task(raw: bytes) -> None:
    keeper = Keeper()
    async with keeping(keeper) as server, connected(server) as client:
        await client.send(raw)
        assert (await client.answer("PUT")).body == b"task a"
        assert keeper.taken == []


async def test_a_request_in_two_pieces_has_a_task_and_the_next_one_none() -> None:
    keeper = Keeper()
    async with keeping(keeper) as server, connected(server) as client:
        raw, before = put("a"), server.counters.received_bytes
        await client.send(raw[:-1])
        await until(lambda: server.counters.received_bytes == before + len(raw) - 1)
        await client.send(raw[-1:])
        assert (await client.answer()).body == b"task a"
        await client.send(put("b"))
        await until_taken(keeper)
        keeper.answer()
        assert (await client.answer()).body == b"taken b"


async def test_what_is_pipelined_behind_a_taken_request_is_answered_after_it() -> None:
    keeper = Keeper()
    async with keeping(keeper) as server, connected(server) as client:
        await client.send(put("a"))
        await until_taken(keeper)
        await client.send(put("b")[:20])
        await client.send(put("b")[20:] + put("c"))
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert keeper.by_task == []
        keeper.answer()
        assert [(await client.answer()).body for _ in "abc"] == [b"taken a", b"task b", b"task c"]
        await client.send(put("d"))
        await until_taken(keeper)
        keeper.answer()
        assert (await client.answer()).body == b"taken d"


async def test_a_flood_behind_a_taken_request_is_left_in_the_socket() -> None:
    keeper = Keeper()
    async with keeping(keeper) as server, connected(server) as client:
        await client.send(put("a"))
        await until_taken(keeper)
        before = server.counters.received_bytes
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send, get("/v1/other/n") * 4000)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert server.counters.received_bytes - before <= 32 * 1024
            keeper.answer()
            assert (await client.answer()).body == b"taken a"
            for _ in range(4000):
                assert (await client.answer()).body == b"task n"


# ---- clients that leave


async def test_who_wants_to_know_hears_of_a_hang_up_and_answers_in_vain() -> None:
    keeper = Keeper(hears_of_hang_ups=True)
    async with keeping(keeper) as server:
        async with connected(server) as client:
            await client.send(put("a"))
            await until_taken(keeper)
        await until(lambda: server.counters.connections_open == 0)
        assert keeper.gone == ["a"]
        assert server.counters.clients_gone == 1
        assert server.counters.bodies_held_bytes == 0
        keeper.answer()
        assert server.counters.requests["PUT"][2] == 1


async def test_who_is_answered_does_not_go() -> None:
    keeper = Keeper(hears_of_hang_ups=True)
    async with keeping(keeper) as server:
        async with connected(server) as client:
            await client.send(put("a"))
            await until_taken(keeper)
            keeper.answer()
            await client.answer()
        await until(lambda: server.counters.connections_open == 0)
    assert keeper.gone == []


async def test_a_client_that_stops_sending_still_gets_its_answer() -> None:
    keeper = Keeper()
    async with keeping(keeper) as server, connected(server) as client:
        await client.send(put("a"))
        await client.stream.send_eof()  # type: ignore[attr-defined]
        await until_taken(keeper)
        await trio.testing.wait_all_tasks_blocked(0.01)
        keeper.answer()
        assert (await client.answer()).body == b"taken a"
        assert await client.read_to_end() == b""


@pytest.mark.parametrize("hears", [True, False])
async def test_a_reset_is_no_bug_of_ours(*, hears: bool, caplog: pytest.LogCaptureFixture) -> None:
    keeper = Keeper(hears_of_hang_ups=hears)
    async with keeping(keeper) as server:
        async with connected(server) as client:
            await client.send(put("a"))
            await until_taken(keeper)
            reset_on_close(client)
        await until(lambda: server.counters.connections_open == 0)
        keeper.answer()
        assert keeper.gone == ["a"] * hears
        assert (server.counters.clients_gone, server.counters.handler_errors) == (1, 0)
        assert server.counters.bodies_held_bytes == 0
    assert caplog.records == []


async def test_an_answer_into_a_broken_connection_is_no_fault_of_who_gives_it() -> None:
    keeper = Keeper()
    async with keeping(keeper) as server:
        async with connected(server) as client:
            await client.send(put("a"))
            await client.stream.send_eof()  # type: ignore[attr-defined]
            await until_taken(keeper)
            await trio.testing.wait_all_tasks_blocked(0.01)
            reset_on_close(client)
        await trio.testing.wait_all_tasks_blocked(0.01)
        keeper.answer()
        await until(lambda: server.counters.connections_open == 0)
        assert (server.counters.clients_gone, server.counters.handler_errors) == (1, 0)


async def test_an_answer_to_a_client_that_left_unheard_harms_nobody() -> None:
    keeper = Keeper()
    async with keeping(keeper) as server:
        async with connected(server) as client:
            await client.send(put("a"))
            await until_taken(keeper)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert server.counters.connections_open == 1
        keeper.answer()
        await until(lambda: server.counters.connections_open == 0)
        assert server.counters.handler_errors == 0


async def test_a_bug_of_who_hears_of_a_hang_up_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    keeper = Keeper()
    async with keeping(keeper) as server:
        async with connected(server) as client:
            await client.send(put("a"))
            await until_taken(keeper)

            def fail() -> None:
                raise ZeroDivisionError

            keeper.taken[0].request.on_gone = fail
        await until(lambda: server.counters.connections_open == 0)
        assert server.counters.handler_errors == 1
        assert "ZeroDivisionError" in caplog.text
        async with connected(server) as client:
            assert (await client.ask(get("/v1/other/a"))).status == 200


async def test_the_end_of_the_server_is_a_hang_up() -> None:
    keeper = Keeper(hears_of_hang_ups=True)
    async with keeping(keeper) as server:
        stream = await trio.open_tcp_stream("127.0.0.1", server.port)
        await stream.send_all(put("a"))
        await until_taken(keeper)
    assert keeper.gone == ["a"]
    keeper.answer()
    await stream.aclose()


# ---- one answer, for the right request


async def test_a_second_answer_is_not_taken_for_that_of_the_next_request() -> None:
    keeper = Keeper()
    async with keeping(keeper) as server, connected(server) as client:
        await client.send(put("a"))
        await until_taken(keeper)
        first = keeper.taken[0]
        keeper.answer()
        assert (await client.answer()).body == b"taken a"
        first.answered(text(200, "again"))
        await client.send(put("b"))
        await until_taken(keeper)
        first.answered(text(200, "again"))
        keeper.answer()
        assert (await client.answer()).body == b"taken b"
        assert server.counters.requests["PUT"][2] == 3


async def test_who_answers_and_declines_has_answered() -> None:
    keeper = Keeper()

    def begin(_request: Request, _rest: str, answered: Answered) -> bool:
        answered(TRUE)
        return False

    keeper.begin = begin  # type: ignore[method-assign,assignment]
    async with keeping(keeper) as server, connected(server) as client:
        for _time in range(2):
            assert (await client.ask(put("a"))).body == b"true"
        assert keeper.by_task == []


async def test_an_answer_after_declining_is_not_sent() -> None:
    keeper = Keeper()
    kept: list[Answered] = []

    def begin(_request: Request, _rest: str, answered: Answered) -> bool:
        kept.append(answered)
        return False

    keeper.begin = begin  # type: ignore[method-assign,assignment]
    async with keeping(keeper) as server, connected(server) as client:
        assert (await client.ask(put("a"))).body == b"task a"
        kept[-1](TRUE)
        assert (await client.ask(put("b"))).body == b"task b"


# ---- refusals


async def test_refusals_and_bugs_are_answered_as_a_handler_s(caplog: pytest.LogCaptureFixture) -> None:
    keeper = Keeper()
    rules = HttpRules(response_headers=(("X-Site", "a"),))
    async with keeping(keeper, rules) as server, connected(server) as client:
        refused = await client.ask(put("refused"))
        assert (refused.status, refused.body, refused.headers["x-site"]) == (400, b"Not like this.", "a")
        with caplog.at_level(logging.ERROR):
            assert (await client.ask(put("bug"))).status == 500
        assert server.counters.handler_errors == 1
        assert server.counters.requests["PUT"] == [0, 0, 1, 0, 1, 1]
        assert keeper.by_task == []


async def test_rules_hold_for_what_has_no_task() -> None:
    foreign, link = "Origin: http://evil.example", "Host: evil.example"
    keeper = Keeper()
    async with keeping(keeper) as server, connected(server) as client:
        for _time in range(3):
            assert (await client.ask(put("a", foreign))).status == 403
            assert (await client.ask(put("a").replace(b"Host: 127.0.0.1", link.encode()))).status == 403
            assert (await client.ask(put("%zz"))).status == 400
            assert (await client.ask(put("a", body=b"123456"))).status == 413
            assert (await client.ask(put("a").replace(b"PUT", b"DELETE"))).status == 405
        assert server.counters.rejected["foreign_origin"] == 3
        assert server.counters.rejected["foreign_host"] == 3
        assert server.counters.rejected["body_too_large"] == 3
    for rules, cause in (
        (HttpRules(block_endpoints=("/v1/kv",)), "blocked_endpoint"),
        (HttpRules(allow_write_http_from=(ipaddress.ip_network("10.0.0.0/8"),)), "write_source"),
    ):
        async with keeping(keeper, rules) as server, connected(server) as client:
            before = server.counters.rejected[cause]
            assert (await client.ask(put("a"))).status == 403
            assert server.counters.rejected[cause] == before + 1
    assert (keeper.taken, keeper.by_task) == ([], [])


async def test_bodies_held_by_all_are_bounded_with_those_that_are_under_way() -> None:
    keeper = Keeper()
    async with (
        keeping(keeper, limits=HttpLimits(bodies_held_bytes_max=1)) as server,
        connected(server) as first,
        connected(server) as second,
    ):
        await first.send(put("a"))
        await until_taken(keeper)
        await second.send(put("b"))
        assert (await second.answer()).status == 503
        keeper.answer()
        assert (await first.answer()).body == b"taken a"


# ---- what does not go out at once


async def test_a_client_that_reads_late_gets_every_byte() -> None:
    keeper, large = Keeper(), json_body(b"b" * LARGE_BYTES)
    async with keeping(keeper) as server, connected(server) as client:
        asked, was_short = 0, False
        while not was_short:
            asked += 1
            await client.send(get("/v1/kv/a"))
            with trio.move_on_after(1) as wait:
                await until_taken(keeper)
                keeper.answer(large)
            was_short = wait.cancelled_caught
        for number in range(asked):
            if number == asked - 1:
                await until_taken(keeper)
                keeper.answer(large)
            assert (await client.answer()).body == b"b" * LARGE_BYTES
        assert server.counters.requests["GET"][2] == asked + 1


async def test_a_client_that_does_not_read_is_cut_off(mock_clock: MockClock) -> None:
    keeper, large = Keeper(), json_body(b"b" * 30_000_000)
    async with keeping(keeper) as server, connected(server) as client:
        await client.send(get("/v1/kv/a"))
        await until_taken(keeper)
        keeper.answer(large)
        await until(lambda: bool(server.counters.rejected["write_timeout"]), clock=mock_clock)
        await until(lambda: server.counters.connections_open == 0)


async def numbers() -> AsyncGenerator[bytes, None]:
    for number in (b"one ", b"two"):
        yield number


async def test_streams_large_bodies_and_heads_without_body_are_sent_by_the_task() -> None:
    keeper = Keeper()
    async with keeping(keeper) as server, connected(server) as client:
        await client.send(get("/v1/kv/a"))
        await until_taken(keeper)
        keeper.answer(Response(chunks=numbers()))
        assert (await client.answer()).body == b"one two"
        await client.send(get("/v1/kv/a"))
        await until_taken(keeper)
        keeper.answer(json_body(b"b" * 3_000_000))
        assert (await client.answer()).body == b"b" * 3_000_000
        await client.send(request("HEAD", "/v1/kv/a"))
        await until_taken(keeper)
        keeper.answer(json_body(b"four"))
        answer = await client.answer("HEAD")
        assert (answer.headers["content-length"], answer.body) == ("4", b"")
        assert server.counters.requests["GET"][2] == 3
        assert server.counters.requests["HEAD"][2] == 1


async def test_large_answers_are_compressed_for_those_who_take_it() -> None:
    keeper = Keeper()
    async with keeping(keeper) as server, connected(server) as client:
        raw = get("/v1/kv/a", "Accept-Encoding: gzip")
        await client.ask(raw)
        await client.send(raw)
        await until_taken(keeper)
        keeper.answer(json_body(b"b" * LARGE_BYTES))
        answer = await client.answer()
        assert answer.headers["content-encoding"] == "gzip"
        assert gzip.decompress(answer.body) == b"b" * LARGE_BYTES


async def test_a_taken_request_is_never_slow_and_the_silence_after_it_is(mock_clock: MockClock) -> None:
    keeper = Keeper()
    async with (
        keeping(keeper, limits=HttpLimits(idle_timeout_s=50)) as server,
        connected(server) as client,
    ):
        await client.send(put("a"))
        await until_taken(keeper)
        for _quarter in range(400):
            mock_clock.jump(0.25)
            await trio.testing.wait_all_tasks_blocked()
        assert sum(server.counters.rejected.values()) == 0
        keeper.answer()
        assert (await client.answer()).body == b"taken a"
        begun_at = trio.current_time()
        await until(lambda: server.counters.rejected["idle_timeout"] == 1, clock=mock_clock)
        assert 50 <= trio.current_time() - begun_at < 53
        assert await Client(client.stream).read_to_end() == b""
