"""A server on a port of its own, and a client that reads answers with h11."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import h11
import trio
import trio.testing

from adsum.http.limits import HttpCounters, HttpLimits
from adsum.http.listeners import bind_tcp
from adsum.http.request import Client as RequestClient
from adsum.http.request import Headers, Request
from adsum.http.response import Response
from adsum.http.server import Begins, serve

App = Callable[[Request], Awaitable[Response]]
TURNS_MAX = 20_000
ANSWER_S_MAX = 20.0  # generous: only a hang reaches it


@dataclass
class Server:
    port: int
    counters: HttpCounters


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


@asynccontextmanager
async def running(
    app: App, limits: HttpLimits | None = None, begin: Begins | None = None
) -> AsyncIterator[Server]:
    listener = bind_tcp("127.0.0.1", 0)
    counters = HttpCounters()
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, [listener], app, limits or HttpLimits(), counters, None, begin)
        yield Server(listener.getsockname()[1], counters)
        nursery.cancel_scope.cancel()


@dataclass
class Client:
    """One connection."""

    stream: trio.abc.Stream
    _parser: h11.Connection = field(default_factory=lambda: h11.Connection(h11.CLIENT))

    async def send(self, raw: bytes) -> None:
        await self.stream.send_all(raw)

    async def answer(self, method: str = "GET") -> Answer:
        """The next answer; the request's bytes were sent by hand, so h11 is told only of its method."""
        if self._parser.our_state is h11.DONE:
            self._parser.start_next_cycle()
        self._parser.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
        self._parser.send(h11.EndOfMessage())
        answer = Answer(0, {}, b"")
        while not isinstance(event := await self._next_event(), h11.EndOfMessage):
            assert not isinstance(event, h11.ConnectionClosed), "closed before the answer was whole"
            if isinstance(event, h11.Response):
                answer.status = event.status_code
                answer.headers = {name.decode(): value.decode() for name, value in event.headers}
            elif isinstance(event, h11.Data):
                answer.body += bytes(event.data)
        return answer

    async def ask(self, raw: bytes) -> Answer:
        await self.send(raw)
        return await self.answer(raw.partition(b" ")[0].decode())

    async def read_to_end(self) -> bytes:
        """Whatever comes until the server closes."""
        received = b""
        with trio.fail_after(ANSWER_S_MAX):
            while data := await self.stream.receive_some(65536):
                received += data
        return received

    async def _next_event(self) -> object:
        while (event := self._parser.next_event()) is h11.NEED_DATA:
            with trio.fail_after(ANSWER_S_MAX):
                self._parser.receive_data(bytes(await self.stream.receive_some(65536)))
        return event


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[Client]:
    stream = await trio.open_tcp_stream("127.0.0.1", server.port)
    async with stream:
        yield Client(stream)


async def until(condition: Callable[[], bool], *, clock: trio.testing.MockClock | None = None) -> None:
    """Let the server work until the condition holds; a given clock moves on a quarter of a second a turn."""
    for _ in range(TURNS_MAX):
        if condition():
            return
        if clock is not None:
            clock.jump(0.25)
        await trio.testing.wait_all_tasks_blocked(0.001)
    raise AssertionError("it never came to that")


class Nobody:
    """The client of a request that no connection brought."""

    def __init__(self) -> None:
        self._is_woken = trio.Event()

    async def until_gone(self) -> None:
        self._is_woken = trio.Event()
        await self._is_woken.wait()

    def wake(self) -> None:
        self._is_woken.set()

    def answer(self, request: Request, response: Response, varying: bytes) -> None:
        raise AssertionError("no connection took this request")


def request_of(
    method: str,
    target: bytes,
    *,
    headers: Headers | None = None,
    body: bytes = b"",
    peer: str = "127.0.0.1",
    is_on_loopback: bool = False,
    client: RequestClient | None = None,
) -> Request:
    return Request(
        method,
        target,
        headers=headers or Headers(),
        body=body,
        peer=peer,
        is_on_loopback=is_on_loopback,
        client=client or Nobody(),
    )


def get(path: str, *headers: str) -> bytes:
    return request("GET", path, *headers)


def request(method: str, path: str, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join((*lines, "", "")).encode() + body
