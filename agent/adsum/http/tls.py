"""HTTPS: a socket that ciphers, and a connection that agrees on keys before it converses.

OpenSSL works on the socket itself, without blocking, so that a connection reads, waits and is cut off as over
plain HTTP. Signing a handshake takes a good part of a millisecond of the loop: those that come at once take
turns. Loaded only where HTTPS is configured.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress

import trio

from adsum.http.connection import Connection, ConnectionParts
from adsum.net.tls_files import told

HANDSHAKES_PER_PASS = 4  # with RSA keys of 4096 bits each signs for 4 ms
RECORD_BYTES_MAX = 16 * 1024  # as much as one record of TLS holds
# As Go's server says it, for clients that are told of it by these words.
SPEAKS_IN_CLEAR = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"

logger = logging.getLogger("agent.http")


class Secure:
    """What the HTTPS listeners of one agent share. The context is asked for at each connection: a reload
    replaces it.
    """

    def __init__(self, listeners: list[socket.socket], context: Callable[[], ssl.SSLContext]) -> None:
        self.listeners = listeners
        self._context = context
        self._turns = trio.Semaphore(HANDSHAKES_PER_PASS)

    def wrap(self, sock: socket.socket) -> TlsSocket:
        return TlsSocket(sock, self._context(), self._turns)

    def connection(
        self, sock: socket.socket, parts: ConnectionParts, *, peer: str, is_on_loopback: bool
    ) -> TlsConnection:
        return TlsConnection(self.wrap(sock), parts, peer=peer, is_on_loopback=is_on_loopback)


class TlsSocket:
    """The part of a socket that a connection uses. Nothing goes through before `shake_hands`."""

    __slots__ = ("_context", "_line", "_turns")

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, turns: trio.Semaphore) -> None:
        self._line = sock
        self._context = context
        self._turns = turns

    async def shake_hands(self) -> None:
        """Raises OSError, of which SSLError is one."""
        await trio.lowlevel.wait_readable(self._line)
        line = await self._wrapped()
        while True:
            try:
                async with self._turns:
                    line.do_handshake()
                return
            except ssl.SSLWantReadError:
                await trio.lowlevel.wait_readable(line)
            except ssl.SSLWantWriteError:
                await trio.lowlevel.wait_writable(line)

    async def _wrapped(self) -> ssl.SSLSocket:
        """OpenSSL's state is made for those who say something."""
        async with self._turns:
            self._line.getpeername()  # who is gone already would leave the wrapped one open
            line = self._context.wrap_socket(self._line, server_side=True, do_handshake_on_connect=False)
        self._line = line
        return line

    def fileno(self) -> int:
        return self._line.fileno()

    def recv(self, bytes_max: int, /) -> bytes:
        try:
            return self._line.recv(bytes_max)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None

    def send(self, data: bytes | memoryview, flags: int = 0, /) -> int:  # noqa: ARG002 - TLS has records instead
        """As much as the socket takes. A record that it does not take whole stays with OpenSSL, and must be
        offered again.
        """
        rest, sent = memoryview(data), 0
        with suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
            while sent < len(rest):
                sent += self._line.send(rest[sent : sent + RECORD_BYTES_MAX])
        return sent

    def shutdown(self, how: int, /) -> None:
        if how == socket.SHUT_WR:
            self._say_end()
        # not SSLSocket's own, after which it would go on in clear
        socket.socket.shutdown(self._line, how)

    def close(self) -> None:
        self._say_end()
        self._line.close()

    def give_up(self) -> None:
        """What still goes through goes in clear."""
        self._line = socket.socket(fileno=self._line.detach())
        self._line.settimeout(0)

    def _say_end(self) -> None:
        """So that the other side can tell the end from a connection that was cut."""
        if isinstance(self._line, ssl.SSLSocket):
            with suppress(OSError, ValueError):  # it wants the other side's, for which nobody waits
                self._line.unwrap()


class TlsConnection(Connection):
    __slots__ = ("_wire",)

    def __init__(self, wire: TlsSocket, parts: ConnectionParts, *, peer: str, is_on_loopback: bool) -> None:
        super().__init__(wire, parts, peer=peer, is_on_loopback=is_on_loopback)
        self._begin = None  # what it would spare is little beside the ciphers
        self._wire = wire

    async def _converse(self) -> None:
        self.waits_for = "handshake_timeout"
        self.deadline = trio.current_time() + self._limits.handshake_timeout_s
        try:
            await self._wire.shake_hands()
        except ssl.SSLEOFError:
            raise  # as at any other hang-up: a balancer looks whether somebody listens
        except ssl.SSLError as error:
            self._counters.rejected["tls_handshake"] += 1
            self._complaints.say("tls_handshake", "No TLS with %s: %s", self.peer, told(error))
            self._wire.give_up()
            if error.reason == "HTTP_REQUEST":
                self._wire.send(SPEAKS_IN_CLEAR)
            await self._linger()  # that sentence, or the alert that OpenSSL has sent, is to be read
        else:
            self._counters.tls_handshakes += 1
            await super()._converse()
