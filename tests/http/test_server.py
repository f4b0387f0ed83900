"""Many connections."""

from __future__ import annotations

import errno
import logging
import math
import os
import random
import resource
import socket
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
import trio
from trio.testing import MockClock

from adsum.http.idlers import Idlers
from adsum.http.limits import HttpCounters, HttpLimits
from adsum.http.listeners import bind_tcp
from adsum.http.request import Request
from adsum.http.response import Response, text
from adsum.http.server import _Server
from tests.http.http_support import Client, Server, connected, get, running, until

PARKED_CONNECTIONS = 2000
# Task, frames, socket object, connection, parser and request; about 8 KiB when written.
PARKED_BYTES_MAX = 16 * 1024


async def who(request: Request) -> Response:
    return text(200, f"{request.peer} {request.is_on_loopback}")


async def test_a_client_with_too_many_connections_hears_consul_s_words() -> None:
    async with running(who, HttpLimits(connections_per_client_max=2)) as server:
        async with connected(server) as first, connected(server) as second:
            assert (await first.ask(get("/"))).status == 200
            assert (await second.ask(get("/"))).status == 200
            async with connected(server) as third:
                answer = await third.ask(get("/"))
                assert answer.status == 429
                assert answer.headers["retry-after"] == "1"
                assert answer.body == (
                    b"Your IP is issuing too many concurrent connections, please rate limit your calls\n"
                )
                assert await third.read_to_end() == b""
        await until_closed(server)
        async with connected(server) as again:
            assert (await again.ask(get("/"))).status == 200
        assert server.counters.rejected["connections_per_client"] == 1


async def test_there_is_an_end_to_connections_of_all_clients_together() -> None:
    async with running(who, HttpLimits(connections_max=1)) as server, connected(server) as first:
        assert (await first.ask(get("/"))).status == 200
        async with connected(server) as second:
            assert (await second.ask(get("/"))).status == 503
        assert server.counters.rejected["connections"] == 1


async def test_refused_clients_that_linger_are_few() -> None:
    limits = HttpLimits(connections_per_client_max=0, refusals_lingering_max=1)
    async with running(who, limits) as server, connected(server) as first, connected(server) as second:
        assert (await first.answer()).status == 429
        assert await second.read_to_end() == b""


async def until_closed(server: Server) -> None:
    await until(lambda: not server.counters.connections_open)


class Broken:
    """A listener out of file descriptors, then aborted, then without work."""

    family = socket.AF_INET

    def __init__(self, real: socket.socket) -> None:
        self._real = real
        self.errors = [OSError(errno.EMFILE, "Too many open files"), OSError(errno.ECONNABORTED, "aborted")]

    def fileno(self) -> int:
        return self._real.fileno()

    def getsockname(self) -> object:
        return self._real.getsockname()

    def accept(self) -> object:
        if self.errors:
            raise self.errors.pop(0)
        return self._real.accept()


async def test_accepting_goes_on_after_errors(
    mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    counters = HttpCounters()
    with bind_tcp("127.0.0.1", 0) as listener:
        broken = Broken(listener)
        client = socket.create_connection(listener.getsockname())
        async with trio.open_nursery() as nursery:
            server = _Server(who, HttpLimits(), counters, Idlers(), nursery, None)
            nursery.start_soon(server.accept_from, cast("socket.socket", broken))
            await until(lambda: bool(counters.connections_open), clock=mock_clock)
            nursery.cancel_scope.cancel()
        client.close()
    assert counters.accept_errors == 2
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(
        "connections of HTTP clients cannot be taken: too many open files: raise the agent"
    )


async def test_thousands_of_parked_requests_cost_a_few_kilobytes_each(
    record_property: Callable[[str, object], None],
) -> None:
    _need_files(2 * PARKED_CONNECTIONS + 200)
    parked: list[Request] = []

    async def app(request: Request) -> Response:
        parked.append(request)
        await request.park(math.inf)
        return text(200, "woken")

    async with running(app) as server:
        before_bytes = _resident_bytes()
        clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(PARKED_CONNECTIONS)]
        for client in clients:
            client.sendall(get("/v1/health/service/web?index=7&wait=5m", "User-Agent: test", "Accept: */*"))
        await until(lambda: server.counters.parked == PARKED_CONNECTIONS)
        each_bytes = (_resident_bytes() - before_bytes) // PARKED_CONNECTIONS
        record_property("parked_connection_bytes", each_bytes)
        print(f"{each_bytes} bytes a parked connection")
        assert each_bytes < PARKED_BYTES_MAX
        for request in parked:
            request.wake()
        for client in clients:
            assert await trio.to_thread.run_sync(client.recv, 15) == b"HTTP/1.1 200 OK"
            client.close()


def _need_files(number: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < number <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
    elif soft < number:
        pytest.skip(f"needs {number} open files, {hard} are allowed")


def _resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def test_random_bytes_are_answered_or_dropped_and_nothing_is_left_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = random.Random(4)
    with caplog.at_level(logging.WARNING):
        async with running(who) as server:
            for _ in range(200):
                async with connected(server) as client:
                    await client.send(source.randbytes(source.randrange(1, 3000)))
                    await client.stream.send_eof()  # type: ignore[attr-defined]
                    received = await client.read_to_end()
                    assert received == b"" or received.startswith(b"HTTP/1.1 4")
            await until_closed(server)
            assert server.counters.parse_errors > 100
            assert server.counters.handler_errors == 0
            assert server.counters.bodies_held_bytes == 0
    assert len(caplog.records) == 1


async def test_cancelling_the_server_closes_listeners_and_connections() -> None:
    async with running(who) as server:
        client = await trio.open_tcp_stream("127.0.0.1", server.port)
        assert (await Client(client).ask(get("/"))).status == 200
        port = server.port
    assert await Client(client).read_to_end() == b""
    await client.aclose()
    with pytest.raises(OSError, match="connect"):
        await trio.open_tcp_stream("127.0.0.1", port)
