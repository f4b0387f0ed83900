"""The HTTP server: listeners, a task for each connection, and one look a second for those who keep us
waiting.

Bounds on connections are kept here, per client and for all. A refused client gets a sentence and a moment
to read it; beyond a few such moments at once, it gets neither.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import trio

from adsum.http.connection import CLOSE, Connection, ConnectionParts, Known, discard, head_of
from adsum.http.head_cache import KnownHeads
from adsum.http.idlers import Idlers
from adsum.http.limits import HttpCounters, HttpLimits
from adsum.http.request import Request
from adsum.http.request_cache import KnownRequests
from adsum.http.response import Response, text
from adsum.logs.complaints import Complaints
from adsum.logs.system_errors import is_shortage, told

if TYPE_CHECKING:
    from adsum.http.connection import Wire
    from adsum.http.tls import Secure

App = Callable[[Request], Awaitable[Response]]
Begins = Callable[[Request], bool]  # whether it takes the request without a task

ACCEPTS_PER_TURN_MAX = 64
REVIEW_INTERVAL_S = 1.0
ACCEPT_PAUSE_S = 0.1  # out of file descriptors or memory: nothing will be better at once
LINGER_S = 1.0
LINGER_BYTES_MAX = 64 * 1024
UNIX = "unix"

# Consul's words; the first is matched by nobody, the number is.
TOO_MANY_OF_CLIENT = "Your IP is issuing too many concurrent connections, please rate limit your calls\n"
TOO_MANY = "This agent has as many HTTP connections as it may; try again in a second.\n"
RETRY_AFTER = (("Retry-After", "1"),)
WHY = {
    "connections": "all that the limit of open files leaves to HTTP are taken; raise it, or see by whom",
    "connections_per_client": "it has as many open as limits.http_max_conns_per_client allows",
}

logger = logging.getLogger("agent.http")


async def serve(
    listeners: list[socket.socket],
    app: App,
    limits: HttpLimits,
    counters: HttpCounters,
    secure: Secure | None = None,
    begin: Begins | None = None,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Runs until cancelled, then closes the listeners and every connection."""
    secured = [] if secure is None else secure.listeners
    idlers = Idlers()
    try:
        async with trio.open_nursery() as nursery:
            server = _Server(app, limits, counters, idlers, nursery, begin)
            for listener in listeners:
                nursery.start_soon(server.accept_from, listener)
            for listener in secured:
                nursery.start_soon(server.accept_from, listener, secure)
            nursery.start_soon(server.review)
            nursery.start_soon(idlers.run)
            task_status.started()
    finally:
        idlers.close()
        for listener in (*listeners, *secured):
            _close(listener)


def _close(listener: socket.socket) -> None:
    path = listener.getsockname() if listener.family == socket.AF_UNIX else ""
    listener.close()
    if path:
        with suppress(OSError):
            os.unlink(path)


class _Server:
    def __init__(
        self,
        app: App,
        limits: HttpLimits,
        counters: HttpCounters,
        idlers: Idlers,
        nursery: trio.Nursery,
        begin: Begins | None,
    ) -> None:
        self._limits = limits
        self._counters = counters
        self._nursery = nursery
        self._complaints = Complaints(logger)
        known = [Known(KnownRequests(counters), KnownHeads(counters)) for _kind in range(2)]
        self._parts = ConnectionParts(app, begin, limits, counters, self._complaints, idlers, *known)
        self._connections: set[Connection] = set()
        self._by_client: dict[str, int] = {}
        self._lingering = 0

    async def accept_from(self, listener: socket.socket, secure: Secure | None = None) -> None:
        is_on_loopback = _is_loopback(listener)
        while True:
            try:
                await trio.lowlevel.wait_readable(listener)
                for _ in range(ACCEPTS_PER_TURN_MAX):
                    self._welcome(*listener.accept(), secure, is_on_loopback=is_on_loopback)
            except BlockingIOError:
                continue
            except OSError as error:
                self._counters.accept_errors += 1
                if is_shortage(error):
                    self._complaints.say(
                        "accept", "connections of HTTP clients cannot be taken: %s", told(error)
                    )
                    await trio.sleep(ACCEPT_PAUSE_S)

    async def review(self) -> None:
        while True:
            await trio.sleep(REVIEW_INTERVAL_S)
            now = trio.current_time()
            for connection in self._connections:
                if connection.deadline < now:
                    connection.cut_off()

    def _welcome(
        self, sock: socket.socket, address: object, secure: Secure | None, *, is_on_loopback: bool
    ) -> None:
        sock.settimeout(0)
        # An IPv4 client of a listener on :: has both.
        peer = str(address[0]).removeprefix("::ffff:") if isinstance(address, tuple) else UNIX
        self._counters.connections_accepted += 1
        held = self._by_client.get(peer, 0)
        if held >= self._limits.connections_per_client_max:
            answer = text(429, TOO_MANY_OF_CLIENT, RETRY_AFTER)
            self._turn_away(sock, secure, peer, "connections_per_client", answer)
        elif len(self._connections) >= self._limits.connections_max:
            self._turn_away(sock, secure, peer, "connections", text(503, TOO_MANY, RETRY_AFTER))
        else:
            self._by_client[peer] = held + 1
            kind = Connection if secure is None else secure.connection
            connection = kind(sock, self._parts, peer=peer, is_on_loopback=is_on_loopback)
            self._connections.add(connection)
            self._counters.connections_open += 1
            self._nursery.start_soon(self._keep, connection, name="http connection")

    async def _keep(self, connection: Connection) -> None:
        try:
            await connection.run()
        finally:
            self._connections.remove(connection)
            self._counters.connections_open -= 1
            peer = connection.peer
            self._by_client[peer] -= 1
            if not self._by_client[peer]:
                del self._by_client[peer]

    def _turn_away(
        self, sock: socket.socket, secure: Secure | None, peer: str, cause: str, response: Response
    ) -> None:
        self._counters.rejected[cause] += 1
        self._complaints.say(cause, "a connection of %s was turned away: %s", peer, WHY[cause])
        if self._lingering >= self._limits.refusals_lingering_max:
            sock.close()
            return
        self._lingering += 1
        self._nursery.start_soon(self._see_off, sock, secure, response)

    async def _see_off(self, sock: socket.socket, secure: Secure | None, response: Response) -> None:
        """Closing on an unread request would reset the connection before the sentence was read."""
        wire: Wire = sock
        try:
            with trio.move_on_after(LINGER_S):
                if secure is not None:
                    wire = tls = secure.wrap(sock)
                    await tls.shake_hands()
                wire.send(head_of(response, CLOSE) + response.body.plain)
                wire.shutdown(socket.SHUT_WR)
                await discard(wire, LINGER_BYTES_MAX)
        except OSError:
            self._counters.clients_gone += 1
        finally:
            wire.close()
            self._lingering -= 1


def _is_loopback(listener: socket.socket) -> bool:
    if listener.family == socket.AF_UNIX:
        return False
    host = str(listener.getsockname()[0])
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback
