"""Askers over TCP, each in a task: one question at a time, answered in order.

Whoever connects in earnest asks at once. Connections on which nothing was asked yet are therefore newcomers:
they have a second and a few places of their own, and when these are taken, the one that has waited longest is
closed. So thousands that never ask keep nobody out who does, and take no place from those who did. Bytes of
questions that are not whole are limited likewise, for all together.
"""

from __future__ import annotations

from collections import Counter

import trio

from adsum.dns.answers import Transport
from adsum.dns.limits import DnsLimits
from adsum.dns_server.counters import DnsCounters
from adsum.dns_server.resolver import Errand, Resolver

CHUNK_BYTES = 8192


class Conversations:
    def __init__(self, resolver: Resolver, limits: DnsLimits) -> None:
        self._resolver = resolver
        self._counters = resolver.counters
        self._limits = limits
        self._newcomers = NewConnections(limits, resolver.counters)
        self._unread = UnansweredBytes(limits, resolver.counters)
        self._open: Counter[str] = Counter()  # connections on which something was asked, by host

    async def hold(self, stream: trio.SocketStream) -> None:
        async with stream:
            try:
                asker = Asker(stream, stream.socket.getpeername()[0])
            except OSError:
                return  # gone before it was let in
            try:
                with asker.scope:
                    await self._hold(asker)
            except trio.BrokenResourceError:
                return  # the asker went away, which is how most conversations end
            finally:
                self._unread.forget(asker)

    async def _hold(self, asker: Asker) -> None:
        packet = await self._first_question(asker)
        if not packet:
            return
        counters, limits, host = self._counters, self._limits, asker.host
        is_full = counters.tcp_connections >= limits.tcp_connections_max
        if is_full or self._open[host] >= limits.tcp_connections_per_host_max:
            counters.tcp_turned_away += 1
            return
        counters.tcp_accepted += 1
        counters.tcp_connections += 1
        self._open[host] += 1
        try:
            while packet and await self._answer(asker, packet):
                packet = await self._further_question(asker)
        finally:
            counters.tcp_connections -= 1
            self._open[host] -= 1
            if not self._open[host]:
                del self._open[host]

    async def _first_question(self, asker: Asker) -> bytes:
        self._newcomers.let_in(asker)
        try:
            with trio.move_on_after(self._limits.tcp_first_question_timeout_s):
                return await self._next_question(asker)
        finally:
            self._newcomers.leave(asker)
        self._counters.tcp_newcomers_timed_out += 1
        return b""

    async def _further_question(self, asker: Asker) -> bytes:
        with trio.move_on_after(self._limits.tcp_idle_timeout_s):
            return await self._next_question(asker)
        self._counters.tcp_timed_out += 1
        return b""

    async def _answer(self, asker: Asker, packet: bytes) -> bool:
        outcome = self._resolver.consider(packet, Transport.TCP)
        reply = await self._resolver.run(outcome) if isinstance(outcome, Errand) else outcome
        if not reply:
            return False
        with trio.move_on_after(self._limits.tcp_send_timeout_s):
            await asker.stream.send_all(len(reply).to_bytes(2) + reply)
            return True
        self._counters.tcp_slow_readers += 1
        return False

    async def _next_question(self, asker: Asker) -> bytes:
        """The next whole question, or nothing once the conversation is over."""
        received = asker.received
        while True:
            length = int.from_bytes(received[:2])
            if length > self._limits.tcp_question_bytes_max:
                self._counters.tcp_oversized += 1
                return b""
            if len(received) >= 2 + length > 2:
                packet = bytes(received[2 : 2 + length])
                del received[: 2 + length]
                self._unread.note(asker)
                return packet
            if len(received) >= 2 and not length:
                return b""
            self._unread.note(asker)
            chunk = await asker.stream.receive_some(CHUNK_BYTES)
            if not chunk:
                return b""
            received += chunk


class Asker:
    """One connection."""

    __slots__ = ("host", "received", "scope", "stream")

    def __init__(self, stream: trio.SocketStream, host: str) -> None:
        self.stream = stream
        self.host = host
        self.received = bytearray()
        self.scope = trio.CancelScope()  # of all that is done for it


class NewConnections:
    """Connections on which nothing was asked yet, the oldest first."""

    def __init__(self, limits: DnsLimits, counters: DnsCounters) -> None:
        self._limits = limits
        self._counters = counters
        self._waiting: dict[Asker, None] = {}

    def let_in(self, asker: Asker) -> None:
        from_there = [each for each in self._waiting if each.host == asker.host]
        if len(from_there) >= self._limits.tcp_newcomers_per_host_max:
            self._displace(from_there[0])
        elif len(self._waiting) >= self._limits.tcp_newcomers_max:
            self._displace(next(iter(self._waiting)))
        self._waiting[asker] = None
        self._counters.tcp_newcomers = len(self._waiting)

    def leave(self, asker: Asker) -> None:
        self._waiting.pop(asker, None)
        self._counters.tcp_newcomers = len(self._waiting)

    def _displace(self, asker: Asker) -> None:
        del self._waiting[asker]
        self._counters.tcp_newcomers_displaced += 1
        asker.scope.cancel()


class UnansweredBytes:
    """What was received and is not answered yet. When all together hold too much of it, the connection that
    has waited longest for more, or for its turn, is closed."""

    def __init__(self, limits: DnsLimits, counters: DnsCounters) -> None:
        self._bytes_max = limits.tcp_unread_bytes_max
        self._counters = counters
        self._held: dict[Asker, int] = {}  # who has waited longest comes first

    def note(self, asker: Asker) -> None:
        self.forget(asker)
        if not asker.received:
            return
        self._held[asker] = len(asker.received)
        self._counters.tcp_unread_bytes += len(asker.received)
        while self._counters.tcp_unread_bytes > self._bytes_max:
            self._displace(next(iter(self._held)))

    def forget(self, asker: Asker) -> None:
        self._counters.tcp_unread_bytes -= self._held.pop(asker, 0)

    def _displace(self, asker: Asker) -> None:
        self.forget(asker)
        self._counters.tcp_unread_displaced += 1
        asker.scope.cancel()
