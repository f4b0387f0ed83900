"""Streams on gossip's port: a ping that needs no datagram, exchanges of rosters, and calls between agents.

A host may hold so many of them and all hosts together so many; what comes beyond is closed at once. That
looks nothing like a refused connection to the peer: refusal is what a dead process looks like, and we live.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import trio

from adsum.gossip.claims import Address
from adsum.net.channel import Channel
from adsum.net.errors import BadPeer, NetError, Unwelcome
from adsum.net.gate import Gate, Opened
from adsum.net.introduction import Identity, Peer, Purpose, Refusal
from adsum.net.syncs import PAYLOAD_BYTES_MAX, Sync
from adsum.observe.complaints import Complaints

PING_BYTES_MAX = 0  # nothing follows the introductions
SYNC_IDLE_S = 10.0
SYNC_S = 60.0  # a whole exchange: some megabytes over a bad line

log = logging.getLogger("net")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLimits:
    streams_max: int = 1_024
    streams_per_host_max: int = (
        128  # many agents may share one host; one that misbehaves leaves room for others
    )
    syncs_max: int = 8  # each holds a roster in memory: memberlist#158 was 3,000 of them and 7 GB
    callers_max: int = 512


@dataclass(slots=True)
class StreamCounters:
    open: int = 0
    turned_away: int = 0  # beyond the limits, unheard
    pings_answered: int = 0
    syncs_served: int = 0
    syncs_failed: int = 0


class ServesCalls(Protocol):
    """`calls.server`, as far as streams need it."""

    payload_bytes_max: int

    async def serve(self, channel: Channel, peer: Peer) -> None: ...


async def ping(gate: Gate, to: Address, *, timeout_s: float) -> Identity:
    """Who answered there; raises a NetError, of which only Refused says that nobody is there to answer."""
    opened = await gate.dial(to, Purpose.PING, payload_bytes_max=PING_BYTES_MAX, timeout_s=timeout_s)
    async with opened.channel:
        return opened.peer.identity


@asynccontextmanager
async def open_sync(gate: Gate, to: Address) -> AsyncIterator[tuple[Sync, Peer]]:
    opened = await gate.dial(to, Purpose.SYNC, payload_bytes_max=PAYLOAD_BYTES_MAX)
    async with opened.channel:
        yield Sync(opened.channel), opened.peer


class StreamServer:
    """`answer_sync` holds the other side of an exchange; the stream is closed when it returns."""

    def __init__(
        self,
        gate: Gate,
        *,
        answer_sync: Callable[[Sync, Peer], Awaitable[None]] | None = None,
        calls: ServesCalls | None = None,
        limits: StreamLimits | None = None,
        lets_in: Callable[[str], bool] = lambda _host: True,
    ) -> None:
        self.counters = StreamCounters()
        self._gate = gate
        self._answer_sync = answer_sync
        self._calls = calls
        self._limits = limits or StreamLimits()
        self._lets_in = lets_in
        self._by_host: Counter[str] = Counter()
        self._by_purpose: Counter[Purpose] = Counter()
        self._complaints = Complaints(log)

    async def run(
        self,
        listener: trio.SocketListener,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serves until cancelled, and closes the listener."""
        async with trio.open_nursery() as nursery:
            await nursery.start(trio.serve_listeners, self.hold, [listener])
            task_status.started()

    async def hold(self, stream: trio.SocketStream) -> None:
        try:
            host: str = stream.socket.getpeername()[0]
        except OSError:
            host = ""  # gone before it was let in
        if not host or not self._lets_in(host) or not self._admit(host):
            await trio.aclose_forcefully(stream)
            return
        try:
            await self._welcome(stream, host)
        finally:
            self._leave(host)

    async def _welcome(self, stream: trio.SocketStream, host: str) -> None:
        seat = _Seat(self._by_purpose, self._most)
        try:
            opened = await self._gate.welcome(stream, seat.take, payload_bytes_max=PAYLOAD_BYTES_MAX)
            async with opened.channel:
                await self._converse(opened)
        except (BadPeer, Unwelcome) as error:
            self._complaints.say("closed", "the stream from %s was closed: %s", host, error)
        except NetError as error:
            log.debug("the stream from %s ended: %s", host, error)
        finally:
            seat.leave()

    @property
    def _most(self) -> dict[Purpose, int]:
        return {
            Purpose.PING: self._limits.streams_max,
            Purpose.SYNC: self._limits.syncs_max if self._answer_sync else 0,
            Purpose.CALLS: self._limits.callers_max if self._calls else 0,
        }

    async def _converse(self, opened: Opened) -> None:
        match opened.purpose:
            case Purpose.PING:
                self.counters.pings_answered += 1
            case Purpose.SYNC:
                await self._sync(opened)
            case Purpose.CALLS:
                assert self._calls is not None, "not served otherwise"
                opened.channel.widen(self._calls.payload_bytes_max)
                await self._calls.serve(opened.channel, opened.peer)

    async def _sync(self, opened: Opened) -> None:
        assert self._answer_sync is not None, "not served otherwise"
        with trio.move_on_after(SYNC_S):
            try:
                await self._answer_sync(Sync(opened.channel), opened.peer)
            except NetError:
                self.counters.syncs_failed += 1
                raise
            self.counters.syncs_served += 1
            return
        self.counters.syncs_failed += 1

    def _admit(self, host: str) -> bool:
        counters, limits = self.counters, self._limits
        if counters.open >= limits.streams_max or self._by_host[host] >= limits.streams_per_host_max:
            counters.turned_away += 1
            self._complaints.say(
                "turned away", "streams are turned away, among them one from %s: too many are open", host
            )
            return False
        counters.open += 1
        self._by_host[host] += 1
        return True

    def _leave(self, host: str) -> None:
        self.counters.open -= 1
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]


class _Seat:
    """One place among those for a purpose, taken while the stream is being let in."""

    def __init__(self, taken: Counter[Purpose], most: Mapping[Purpose, int]) -> None:
        self._taken = taken
        self._most = most
        self._purpose: Purpose | None = None

    def take(self, purpose: Purpose) -> Refusal | None:
        if not self._most[purpose]:
            return Refusal.NOT_SERVED
        if self._taken[purpose] >= self._most[purpose]:
            return Refusal.BUSY
        self._purpose = purpose
        self._taken[purpose] += 1
        return None

    def leave(self) -> None:
        if self._purpose is not None:
            self._taken[self._purpose] -= 1
