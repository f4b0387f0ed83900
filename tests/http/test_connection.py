"""One connection over a real socket: answers in order, waits that end, clients that stall or leave."""

from __future__ import annotations

import gc
import gzip
import math
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import suppress
from email.utils import formatdate

import pytest
import trio
from trio.testing import MockClock

from adsum.http import connection
from adsum.http.connection import Connection, http_date
from adsum.http.limits import HttpLimits
from adsum.http.parser import RequestParser
from adsum.http.request import ClientGone, Request
from adsum.http.response import Body, Response, empty, json_body, text
from tests.http.http_support import Client, Server, connected, get, request, request_of, running, until

PATIENT_S = 20.0
RESET = struct.pack("ii", 1, 0)  # instead of an orderly end
PIPELINED = 40


async def echo(request: Request) -> Response:
    return text(200, f"{request.method} {request.target.decode()} {len(request.body)}")


async def until_closed(client: Client) -> bytes:
    try:
        return await client.read_to_end()
    except trio.BrokenResourceError:
        return b""


async def until_parked(server: Server, parked: int) -> None:
    await until(lambda: server.counters.parked == parked)


async def until_all_closed(server: Server) -> None:
    await until(lambda: not server.counters.connections_open)


# ---- the ordinary course


@pytest.mark.parametrize("second", [0, 951_782_399, 1_798_761_599, 4_102_444_800])
def test_dates_are_written_as_the_standard_library_writes_them(second: int) -> None:
    assert http_date(second) == formatdate(second, usegmt=True)


def test_a_date_has_leading_zeros_and_english_names() -> None:
    assert http_date(1_004_590_923) == "Thu, 01 Nov 2001 05:02:03 GMT"


async def test_a_connection_is_kept_and_each_answer_has_a_date() -> None:
    async with running(echo) as server, connected(server) as client:
        for number in range(3):
            answer = await client.ask(get(f"/{number}"))
            assert answer.body == b"GET /%d 0" % number
            assert answer.headers["date"].endswith(" GMT")
            assert answer.headers["vary"] == "Accept-Encoding"
            assert "connection" not in answer.headers
        assert server.counters.requests["GET"][2] == 3
        assert server.counters.connections_accepted == 1


async def test_what_a_closed_connection_held_goes_without_the_collector() -> None:
    """A server keeps its store from it now and then (`servers/collector.py`), with all that lives then."""
    async with running(echo) as server:
        gc.collect()
        gc.disable()
        try:
            async with connected(server) as client:
                for _ in range(3):
                    await client.ask(get("/"))
                assert living(Connection) == 1
                await client.send(request("PUT", "/", body=b"a")[:-1])
            async with connected(server) as client:
                await client.ask(get("/"))
                assert isinstance(client.stream, trio.SocketStream)
                client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            await until_all_closed(server)
            assert living(Connection) == living(RequestParser) == living(Request) == 0
        finally:
            gc.enable()


def living(kind: type) -> int:
    return sum(isinstance(each, kind) for each in gc.get_objects())


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with running(echo) as server, connected(server) as client:
        await client.send(b"".join(request("PUT", f"/{n}", body=b"a" * n) for n in range(1, 100)))
        for n in range(1, 100):
            assert (await client.answer()).body == b"PUT /%d %d" % (n, n)


@pytest.mark.parametrize(("turn_s_max", "passes_min"), [(0.0, PIPELINED // 2), (3600.0, 0)])
async def test_others_get_a_turn_when_a_client_that_pipelines_has_had_its_time(
    monkeypatch: pytest.MonkeyPatch, turn_s_max: float, passes_min: int
) -> None:
    """Counted in requests, a turn of thirty-two large listings held everybody up for seconds."""
    monkeypatch.setattr(connection, "TURN_S_MAX", turn_s_max)
    passes, seen = 0, list[int]()

    async def count_passes() -> None:
        nonlocal passes
        while True:
            await trio.lowlevel.checkpoint()
            passes += 1

    async def app(_request: Request) -> Response:
        seen.append(passes)
        return empty(200)

    async with running(app) as server, connected(server) as client, trio.open_nursery() as nursery:
        nursery.start_soon(count_passes)
        await client.send(get("/") * PIPELINED)
        for _ in range(PIPELINED):
            await client.answer()
        nursery.cancel_scope.cancel()
    assert len(seen) == PIPELINED
    assert (seen[-1] - seen[0] >= passes_min) if passes_min else (seen[-1] == seen[0])


async def test_chunked_bodies_arrive_whole() -> None:
    async with running(echo) as server, connected(server) as client:
        await client.send(request("PUT", "/a", "Transfer-Encoding: chunked"))
        await client.send(b"3\r\nabc\r\n")
        await client.send(b"4\r\nabcd\r\n0\r\n\r\n")
        assert (await client.answer()).body == b"PUT /a 7"


async def test_the_client_that_says_close_is_answered_and_closed() -> None:
    async with running(echo) as server, connected(server) as client:
        await client.send(get("/a", "Connection: close"))
        received = await client.read_to_end()
        assert b"Connection: close\r\n" in received
        assert received.endswith(b"GET /a 0")


async def test_the_old_protocol_is_closed_unless_it_asks_to_be_kept() -> None:
    async with running(echo) as server, connected(server) as client:
        await client.send(b"GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /b HTTP/1.0\r\n\r\n")
        received = await client.read_to_end()
        assert received.count(b"Connection: keep-alive\r\n") == 1
        assert received.endswith(b"GET /b 0")


async def test_a_client_that_stops_sending_still_gets_its_answer() -> None:
    async with running(echo) as server:
        stream = await trio.open_tcp_stream("127.0.0.1", server.port)
        async with stream:
            await stream.send_all(get("/a"))
            await stream.send_eof()
            assert (await Client(stream).read_to_end()).endswith(b"GET /a 0")


async def test_head_has_the_length_and_no_body() -> None:
    async with running(echo) as server, connected(server) as client:
        answer = await client.ask(request("HEAD", "/a"))
        assert (answer.headers["content-length"], answer.body) == ("9", b"")
        assert (await client.ask(get("/a"))).body == b"GET /a 0"


async def test_head_of_nothing_has_the_length_nought() -> None:
    async def nothing(_: Request) -> Response:
        return empty(404)

    async with running(nothing) as server, connected(server) as client:
        for method in ("HEAD", "GET"):
            answer = await client.ask(request(method, "/zz"))
            assert (answer.headers["content-length"], answer.body) == ("0", b"")


async def test_the_word_to_continue_is_given_before_the_body_is_sent() -> None:
    async with running(echo) as server, connected(server) as client:
        for _ in range(2):
            await client.send(request("PUT", "/a", "Expect: 100-continue", "Content-Length: 3"))
            assert await client.stream.receive_some(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
            await client.send(b"abc")
            assert (await client.answer()).body == b"PUT /a 3"


async def test_large_answers_are_compressed_for_those_who_take_it() -> None:
    small, large, huge = Body(b"s" * 10), Body(b"l" * 10_000), Body(b"h" * 3_000_000)
    bodies = {b"/small": small, b"/large": large, b"/huge": huge}

    async def app(request: Request) -> Response:
        return json_body(bodies[request.target])

    async with running(app) as server, connected(server) as client:
        for path, body in bodies.items():
            plain = await client.ask(get(path.decode()))
            assert plain.body == body.plain
            assert "content-encoding" not in plain.headers
            packed = await client.ask(get(path.decode(), "Accept-Encoding: gzip, deflate"))
            if body is small:
                assert packed.body == body.plain
            else:
                assert packed.headers["content-encoding"] == "gzip"
                assert gzip.decompress(packed.body) == body.plain


# ---- streams


async def count_to_three() -> AsyncGenerator[bytes, None]:
    for number in (b"one ", b"", b"two ", b"three"):
        yield number


async def test_a_stream_is_chunked_and_the_connection_kept() -> None:
    async def app(request: Request) -> Response:
        return Response(content_type="text/plain", chunks=count_to_three())

    async with running(app) as server, connected(server) as client:
        for _ in range(2):
            answer = await client.ask(get("/"))
            assert (answer.headers["transfer-encoding"], answer.body) == ("chunked", b"one two three")


async def test_a_stream_to_the_old_protocol_ends_with_the_connection() -> None:
    async def app(request: Request) -> Response:
        return Response(chunks=count_to_three())

    async with running(app) as server, connected(server) as client:
        await client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        received = await client.read_to_end()
        assert received.endswith(b"\r\n\r\none two three")
        assert b"chunked" not in received


async def test_the_head_and_each_chunk_of_a_stream_leave_at_once_and_a_hang_up_ends_it() -> None:
    ended = trio.Event()
    asked: list[Request] = []

    async def lines(request: Request) -> AsyncGenerator[bytes, None]:
        try:
            yield b"first"
            await request.park(math.inf)
            yield b"second"
            await request.park(math.inf)
        finally:
            ended.set()

    async def app(request: Request) -> Response:
        asked.append(request)
        return Response(chunks=lines(request))

    async with running(app) as server:
        async with connected(server) as client:
            await client.send(get("/"))
            received = b""
            while not received.endswith(b"5\r\nfirst\r\n"):
                received += await client.stream.receive_some(1000)
            asked[0].wake()
            assert await client.stream.receive_some(1000) == b"6\r\nsecond\r\n"
            await until_parked(server, 1)
        with trio.fail_after(PATIENT_S):
            await ended.wait()


# ---- parked requests


class Waiters:
    """An application that parks every request on /wait and says how its wait ended."""

    def __init__(self, wait_s: float = math.inf) -> None:
        self.parked: list[Request] = []
        self.ends: list[str] = []
        self._wait_s = wait_s

    async def app(self, request: Request) -> Response:
        if not request.target.startswith(b"/wait"):
            return await echo(request)
        self.parked.append(request)
        try:
            is_woken = await request.park(trio.current_time() + self._wait_s)
        except ClientGone:
            self.ends.append("gone")
            raise
        self.ends.append("woken" if is_woken else "deadline")
        return text(200, self.ends[-1])


async def test_a_parked_request_is_woken_and_the_connection_kept() -> None:
    waiters = Waiters()
    async with running(waiters.app) as server, connected(server) as client:
        for _ in range(2):
            await client.send(get("/wait"))
            await until_parked(server, 1)
            waiters.parked[-1].wake()
            waiters.parked[-1].wake()
            assert (await client.answer()).body == b"woken"
        assert server.counters.parked == 0


async def test_a_parked_request_returns_at_its_deadline() -> None:
    waiters = Waiters(wait_s=0.01)
    async with running(waiters.app) as server, connected(server) as client:
        assert (await client.ask(get("/wait"))).body == b"deadline"


async def test_a_wake_before_the_wait_is_not_lost_and_does_not_last() -> None:
    request = request_of("GET", b"/")
    request.wake()
    assert await request.park(math.inf)
    assert not await request.park(trio.current_time())


async def test_a_client_that_hangs_up_frees_its_task_at_once() -> None:
    waiters = Waiters()
    async with running(waiters.app) as server:
        async with connected(server) as client:
            await client.send(get("/wait"))
            await until_parked(server, 1)
        await until_parked(server, 0)
        assert waiters.ends == ["gone"]
        await until_all_closed(server)


async def test_what_a_parked_client_pipelines_is_answered_after_the_wait() -> None:
    waiters = Waiters()
    async with running(waiters.app) as server, connected(server) as client:
        await client.send(get("/wait"))
        await until_parked(server, 1)
        await client.send(get("/next")[:20])
        await client.send(get("/next")[20:] + get("/last"))
        await trio.testing.wait_all_tasks_blocked(0.01)
        waiters.parked[0].wake()
        assert (await client.answer()).body == b"woken"
        assert (await client.answer()).body == b"GET /next 0"
        assert (await client.answer()).body == b"GET /last 0"


async def test_a_parked_client_that_pipelines_and_hangs_up_is_noticed() -> None:
    waiters = Waiters()
    async with running(waiters.app) as server:
        async with connected(server) as client:
            await client.send(get("/wait"))
            await until_parked(server, 1)
            await client.send(get("/next"))
        await until_parked(server, 0)
        assert waiters.ends == ["gone"]


async def test_a_flood_behind_a_parked_request_is_left_in_the_socket() -> None:
    waiters = Waiters()
    async with running(waiters.app) as server, connected(server) as client:
        await client.send(get("/wait"))
        await until_parked(server, 1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send, get("/n") * 2000)
            await trio.testing.wait_all_tasks_blocked(0.01)
            waiters.parked[0].wake()
            assert (await client.answer()).body == b"woken"
            for _ in range(2000):
                assert (await client.answer()).body == b"GET /n 0"


# ---- refusals


async def test_a_malformed_request_is_answered_and_closed() -> None:
    async with running(echo) as server, connected(server) as client:
        await client.send(get("/a") + b"\x16\x03\x01nonsense\r\n\r\n")
        received = await client.read_to_end()
        assert b"GET /a 0" in received
        assert b"HTTP/1.1 400 Bad Request\r\n" in received
        assert b"Connection: close\r\n" in received
        assert server.counters.parse_errors == 1


async def test_a_body_too_large_is_refused_before_it_is_sent() -> None:
    async with running(echo) as server, connected(server) as client:
        await client.send(request("PUT", "/a", "Expect: 100-continue", "Content-Length: 1048577"))
        received = await client.read_to_end()
        assert received.startswith(b"HTTP/1.1 413 ")
        assert received.endswith(b"Request body(1048577 bytes) too large, max size: 1048576 bytes.")


async def test_the_refusal_reaches_a_client_that_is_still_sending() -> None:
    async with running(echo) as server, connected(server) as client:
        await client.send(request("PUT", "/a", "Content-Length: 3000000") + b"a" * 3_000_000)
        assert (await client.read_to_end()).startswith(b"HTTP/1.1 413 ")


async def test_a_bug_ends_one_connection_and_not_the_server() -> None:
    async def app(request: Request) -> Response:
        if request.target == b"/bug":
            raise ZeroDivisionError
        return empty(200)

    async with running(app) as server:
        async with connected(server) as client:
            await client.send(get("/bug"))
            assert await until_closed(client) == b""
        assert server.counters.handler_errors == 1
        async with connected(server) as client:
            assert (await client.ask(get("/"))).status == 200


async def test_a_stream_that_breaks_is_not_ended_as_if_it_were_whole() -> None:
    async def broken() -> AsyncGenerator[bytes, None]:
        yield b"half"
        raise ZeroDivisionError

    async def app(request: Request) -> Response:
        return Response(chunks=broken())

    async with running(app) as server, connected(server) as client:
        await client.send(get("/"))
        assert (await until_closed(client)).endswith(b"4\r\nhalf\r\n")


# ---- clients that keep us waiting


@pytest.mark.parametrize(
    ("sent", "cause"),
    [
        (b"GET / HTTP/1.1\r\nHo", "header_timeout"),
        (b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc", "body_timeout"),
        (b"", "idle_timeout"),
        (get("/"), "idle_timeout"),
    ],
)
async def test_half_a_request_and_a_long_silence_are_cut_off(
    sent: bytes, cause: str, mock_clock: MockClock
) -> None:
    async with running(echo, HttpLimits(idle_timeout_s=50)) as server, connected(server) as client:
        await client.send(sent)
        await until(lambda: bool(server.counters.rejected[cause]), clock=mock_clock)
        await until_all_closed(server)
        assert sum(server.counters.rejected.values()) == 1
        assert server.counters.bodies_held_bytes == 0


@pytest.mark.parametrize(
    ("head", "drop", "cause"),
    [
        (b"GET / HTTP/1.1\r\n", b"A: b\r\n", "header_timeout"),
        (request("PUT", "/", "Content-Length: 100000"), b"a", "body_timeout"),
    ],
)
async def test_slow_loris_gains_nothing_by_sending_a_little_now_and_then(
    head: bytes, drop: bytes, cause: str, mock_clock: MockClock
) -> None:
    async with running(echo) as server, connected(server) as client:
        await client.send(head)
        begun_at = trio.current_time()
        while not server.counters.rejected[cause]:
            mock_clock.jump(0.25)
            await trio.testing.wait_all_tasks_blocked(0.001)
            with suppress(trio.BrokenResourceError):
                await client.send(drop)
        # Ten seconds, up to one until the next review, and what a few drops of a body earn.
        assert 10 <= trio.current_time() - begun_at < 13
        await until_all_closed(server)


async def test_a_slow_but_steady_body_is_waited_for(mock_clock: MockClock) -> None:
    async with running(echo) as server, connected(server) as client:
        await client.send(request("PUT", "/a", "Content-Length: 100000"))
        for _ in range(50):
            await client.send(b"a" * 2000)
            await trio.testing.wait_all_tasks_blocked(0.001)
            mock_clock.jump(1.5)
        assert (await client.answer()).body == b"PUT /a 100000"


async def test_a_client_that_does_not_read_is_cut_off(mock_clock: MockClock) -> None:
    async def app(request: Request) -> Response:
        return json_body(b"a" * 30_000_000)

    async with running(app) as server, connected(server) as client:
        await client.send(get("/"))
        await until(lambda: bool(server.counters.rejected["write_timeout"]), clock=mock_clock)
        await until_all_closed(server)


async def test_a_parked_request_is_never_slow(mock_clock: MockClock) -> None:
    waiters = Waiters(wait_s=60.0)
    async with running(waiters.app) as server, connected(server) as client:
        await client.send(get("/wait"))
        await until_parked(server, 1)
        await until(lambda: bool(waiters.ends), clock=mock_clock)
        assert (await client.answer()).body == b"deadline"
        assert sum(server.counters.rejected.values()) == 0
