"""Many shipped gossip cores on one simulated clock and network, from one seed.

The world performs the effects of each core as the rim does. Processes may be paused (nothing runs,
datagrams wait in the socket), held (timers run, but messages come and go only at the end: Lifeguard's slow
members), killed (the host still resets connections), lost with their host, and started again with what they
kept. Everything is an entry of one heap, ordered by (time, sequence); the digest of all entries is equal
for equal seeds, whatever PYTHONHASHSEED says."""

from __future__ import annotations

import enum
import gc
import hashlib
import heapq
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from adsum.address import Address
from adsum.gossip.claims import Claims, Profile
from adsum.gossip.commands import (
    Command,
    DatagramUnreachable,
    Join,
    PingOutcome,
    Report,
    StreamPinged,
    SyncAnswered,
    SyncAsked,
    SyncBroken,
    SyncClosed,
    SyncFailed,
)
from adsum.gossip.core import GossipCore
from adsum.gossip.effects import (
    AnswerSync,
    CloseSync,
    Effect,
    GenerationAdvised,
    GenerationRaised,
    OpenSync,
    PingStream,
    Send,
    SyncMessage,
    SyncPart,
)
from adsum.gossip.order import MemberStatus
from adsum.gossip.settings import GossipSettings, MemberIdentity
from adsum.now import MILLISECOND, SECOND, Now
from adsum.testing.clock import FIRST_WALL_MS
from adsum.testing.hosts import Plays, SimulatedHost, State
from adsum.testing.introducing import introduce
from adsum.testing.network import Conditions, Network

PORT = 8301
SOCKET_MESSAGES_MAX = 2_048  # what a receive buffer of 2 MB holds of our datagrams
CLAIMS_SHARED_MAX = 32_768  # by all members of the world: an update is decoded once, not a thousand times
SYNC_TIMEOUT_NS = 10 * SECOND
_EVENT = struct.Struct(">QBII")


class EventKind(enum.IntEnum):
    TIMER = 0
    DATAGRAM = 1
    REPORT = 2
    CALL = 3


# Looking a member of an enum up costs more than comparing it, and both are done for every event.
TIMER, DATAGRAM, REPORT = EventKind.TIMER, EventKind.DATAGRAM, EventKind.REPORT
RUNNING, HELD = State.RUNNING, State.HELD


@contextmanager
def uncollected() -> Iterator[None]:
    """A million members make the garbage collector walk far, and leave it nothing to find."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


Watcher = Callable[[int, int, Effect], None]


class GossipWorld:
    def __init__(
        self,
        members: int,
        *,
        seed: int = 0,
        settings: GossipSettings | None = None,
        conditions: Conditions | None = None,
    ) -> None:
        self.random = Random(seed)
        self.now_ns = 0
        self.settings = settings or GossipSettings()
        self.network = Network(Random(self.random.getrandbits(64)), conditions or Conditions())
        self.watchers: list[Watcher] = []  # called with time, host and effect, for what is not network
        self.digest = 0
        self.events = 0
        self.socket_drops = 0
        self._claims = Claims(CLAIMS_SHARED_MAX)
        self._heap: list[tuple[int, int, int, int, Any]] = []  # what comes last depends on the kind
        self._sequence = 0
        self._tickets = 0
        self._served: dict[
            int, tuple[int, int, int, int]
        ] = {}  # ticket here → opener, its life, its ticket, us
        self._answering: dict[tuple[int, int, int], int] = {}  # (opener, its life and ticket) → ticket here
        self.hosts = [self._host(index) for index in range(members)]
        self._by_address = {host.address: host.index for host in self.hosts}

    @property
    def now(self) -> Now:
        return Now(self.now_ns, FIRST_WALL_MS + self.now_ns // MILLISECOND)

    def now_at(self, host: SimulatedHost) -> Now:
        """As this host's clocks show it."""
        return Now(self.now_ns, FIRST_WALL_MS + self.now_ns // MILLISECOND + host.wall_ahead_ms)

    # Lives.

    def form(self) -> None:
        """Everybody runs and knows everybody, as after a long quiet time."""
        for host in self.hosts:
            self.start(host.index)
        parts = tuple(SyncPart(host.core.membership.introduction.encoded) for host in self.hosts)
        with uncollected():
            for host in self.hosts:
                self._introduce(host, parts)

    def _introduce(self, host: SimulatedHost, parts: tuple[SyncPart, ...]) -> None:
        core, now = host.core, self.now_at(host)
        caused = introduce(partial(core.command, now), partial(core.report, now), *parts)
        self._do(host, caused)

    def join_all(self, seeds: int = 1) -> None:
        """A cold start: everybody runs and is told the first few to ask."""
        for host in self.hosts:
            self.start(host.index)
        addresses = tuple(host.address for host in self.hosts[:seeds])
        for host in self.hosts:
            self.command(host.index, Join(addresses))

    def start(self, index: int, *, name: str | None = None, address: Address | None = None) -> None:
        host = self.hosts[index]
        assert not host.is_up, "it runs already"
        if name is not None or address is not None:
            host.profile = replace(
                host.profile, name=name or host.profile.name, address=address or host.profile.address
            )
            if self._by_address.get(host.address) == host.index:  # else another host has it by now
                del self._by_address[host.address]
            host.address = host.profile.address
            self._by_address[host.address] = index
        host.state = State.RUNNING
        host.life += 1
        host.generation = max(host.generation + 1, self.now_at(host).wall_ms)
        host.waiting.clear()
        host.deadline_ns = -1
        identity = MemberIdentity(host.profile, host.generation)
        random = Random(host.random.getrandbits(64))
        host.core = self._boot(host, identity, random)
        self._schedule(host)

    def lose_folder(self, index: int) -> None:
        """The next process finds nothing of the last one, and is another member."""
        host = self.hosts[index]
        assert not host.is_up, "its process has the folder"
        node_id = host.random.getrandbits(128).to_bytes(16, "big")
        host.profile = replace(host.profile, node_id=node_id)
        host.generation = 0

    def _boot(self, host: SimulatedHost, identity: MemberIdentity, random: Random) -> Plays:
        return GossipCore(self.now_at(host), self.settings, identity, random, self._claims)

    def kill(self, index: int) -> None:
        """The process ends at once; its host goes on."""
        host = self.hosts[index]
        host.state = State.DEAD
        host.waiting.clear()

    def lose(self, index: int) -> None:
        """Power or cable: nothing answers any more."""
        self.kill(index)
        self.hosts[index].state = State.GONE

    def pause(self, index: int) -> None:
        self.hosts[index].state = State.PAUSED

    def hold(self, index: int) -> None:
        self.hosts[index].state = State.HELD

    def resume(self, index: int) -> None:
        host = self.hosts[index]
        if host.state not in (State.PAUSED, State.HELD):
            return
        was_paused = host.state is State.PAUSED
        host.state = State.RUNNING
        waiting, host.waiting = host.waiting, []
        for delayed in waiting:
            delayed()
        if was_paused:
            host.deadline_ns = -1
            self._schedule(host)

    def command(self, index: int, command: Command) -> None:
        host = self.hosts[index]
        self._do(host, host.core.command(self.now_at(host), command))

    def call(self, at_ns: int, function: Callable[[], None]) -> None:
        """Does something to the world at a time."""
        self._push(at_ns, EventKind.CALL, 0, function)

    # The loop.

    def run_for(self, duration_ns: int) -> None:
        self.run_until(self.now_ns + duration_ns)

    def run_until(self, end_ns: int) -> None:
        with uncollected():
            self._run_until(end_ns)

    def _run_until(self, end_ns: int) -> None:
        heap, hosts = self._heap, self.hosts
        pop, pack, crc32 = heapq.heappop, _EVENT.pack, zlib.crc32
        while heap and heap[0][0] <= end_ns:
            time_ns, _sequence, kind, index, what = pop(heap)
            self.now_ns = time_ns
            host = hosts[index]
            size = 0
            if kind is DATAGRAM:
                source, message = what
                size = len(message)
                self._arrive(host, source, message)
            elif kind is TIMER:
                if host.deadline_ns != time_ns or not (host.state is RUNNING or host.state is HELD):
                    continue
                host.deadline_ns = -1
                self._do(host, host.core.tick(self.now_at(host)))
            elif kind is REPORT:
                size, report = what
                self._hear(host, size, report)
            else:
                what()
            self.events += 1
            self.digest = crc32(pack(time_ns, kind, index, size), self.digest)
        self.now_ns = end_ns

    def _push(self, at_ns: int, kind: EventKind, index: int, what: Any) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (at_ns, self._sequence, kind, index, what))

    def _schedule(self, host: SimulatedHost) -> None:
        deadline_ns = host.core.deadline()
        if deadline_ns is None:
            return
        if deadline_ns < self.now_ns:
            deadline_ns = self.now_ns
        if host.deadline_ns == -1 or deadline_ns < host.deadline_ns:
            host.deadline_ns = deadline_ns
            self._push(deadline_ns, TIMER, host.index, None)

    # What comes in.

    def _arrive(self, host: SimulatedHost, source: Address, message: bytes) -> None:
        if host.state is RUNNING:
            self._do(host, host.core.receive(self.now_at(host), source, message))
        elif host.state in (State.HELD, State.PAUSED):
            if len(host.waiting) < SOCKET_MESSAGES_MAX:
                host.waiting.append(lambda: self._arrive(host, source, message))
            else:
                self.socket_drops += 1
        elif host.state is State.DEAD:
            self._return_icmp(host, source)

    def _return_icmp(self, host: SimulatedHost, source: Address) -> None:
        sender = self._by_address.get(source)
        if sender is None:  # it moved meanwhile
            return
        for delay_ns in self.network.delays_ns(host.index, sender):
            self._report(self.hosts[sender], delay_ns, DatagramUnreachable(host.address))

    def _hear(self, host: SimulatedHost, life: int, report: Report) -> None:
        if host.life != life or not host.is_up:
            return
        if host.state is State.RUNNING:
            self._do(host, host.core.report(self.now_at(host), report))
        else:
            host.waiting.append(lambda: self._hear(host, life, report))

    def _report(self, host: SimulatedHost, delay_ns: int, report: Report) -> None:
        self._push(self.now_ns + delay_ns, REPORT, host.index, (host.life, report))

    # What goes out.

    def _do(self, host: SimulatedHost, effects: list[Any]) -> None:
        for effect in effects:
            if type(effect) is Send:
                if host.state is HELD:
                    self._send_later(host, effect)
                else:
                    self._deliver(host, effect.to, effect.message)
            else:
                self._perform(host, effect)
        self._schedule(host)

    def _send_later(self, host: SimulatedHost, effect: Effect) -> None:
        host.waiting.append(lambda: self._do(host, [effect]))

    def _deliver(self, host: SimulatedHost, to: Address, message: bytes) -> None:
        receiver = self._by_address.get(to)
        if receiver is None:
            return
        for delay_ns in self.network.delays_ns(host.index, receiver):
            self._push(self.now_ns + delay_ns, DATAGRAM, receiver, (host.address, message))

    def _perform(self, host: SimulatedHost, effect: Effect) -> None:
        match effect:
            case PingStream() | OpenSync() | AnswerSync() | CloseSync() if host.state is State.HELD:
                self._send_later(host, effect)
            case PingStream():
                self._ping_stream(host, effect)
            case OpenSync(ticket, to, message):
                self._open_sync(host, ticket, to, message)
            case AnswerSync(ticket, answer):
                self._answer_sync(ticket, answer)
            case CloseSync(ticket, message):
                self._close_sync(host, ticket, message)
            case GenerationRaised(generation) | GenerationAdvised(generation):
                host.generation = generation
            case _:
                self._tell(host, effect)

    def _tell(self, host: SimulatedHost, effect: Any) -> None:
        for watcher in self.watchers:
            watcher(self.now_ns, host.index, effect)

    def _ping_stream(self, host: SimulatedHost, effect: PingStream) -> None:
        probe, timeout_ns = effect.probe, effect.timeout_ns
        index = self._by_address.get(effect.to)
        target = self.hosts[index] if index is not None else None
        connected_ns = self._connect_ns(host, target)
        if target is None or connected_ns is None or connected_ns > timeout_ns:
            self._report(host, timeout_ns, StreamPinged(probe, PingOutcome.SILENT))
        elif target.state is State.DEAD:
            self._report(host, connected_ns, StreamPinged(probe, PingOutcome.REFUSED))
        else:
            answered_ns = self.network.exchange_ns(host.index, target.index)
            is_answered = answered_ns is not None and connected_ns + answered_ns <= timeout_ns
            is_meant = target.profile.short == effect.member
            if is_answered and is_meant and answered_ns is not None and target.state is State.RUNNING:
                self._report(host, connected_ns + answered_ns, StreamPinged(probe, PingOutcome.ANSWERED))
            else:  # the kernel takes the connection of a stopped process, and nobody answers
                self._report(host, timeout_ns, StreamPinged(probe, PingOutcome.HELD))

    def _connect_ns(self, host: SimulatedHost, target: SimulatedHost | None) -> int | None:
        if target is None or target.state is State.GONE:
            return None
        return self.network.connect_ns(host.index, target.index)

    # Syncs: three turns on one connection.

    def _open_sync(self, host: SimulatedHost, ticket: int, to: Address, message: SyncMessage) -> None:
        index = self._by_address.get(to)
        target = self.hosts[index] if index is not None else None
        connected_ns = self._connect_ns(host, target)
        turn_ns = self.network.turn_ns(host.index, target.index) if target is not None else None
        if target is None or connected_ns is None or turn_ns is None:
            self._fail_sync(host, ticket, message, SYNC_TIMEOUT_NS, "timed out")
        elif target.state is State.DEAD:
            self._fail_sync(host, ticket, message, connected_ns, "connection refused")
        else:
            self._tickets += 1
            if message.wants_answer:
                self._served[self._tickets] = (host.index, host.life, ticket, target.index)
                self._answering[host.index, host.life, ticket] = self._tickets
            self._report(target, connected_ns + turn_ns, SyncAsked(self._tickets, message, host.address.host))

    def _fail_sync(
        self, host: SimulatedHost, ticket: int, message: SyncMessage, after_ns: int, error: str
    ) -> None:
        if message.wants_answer:
            self._report(host, after_ns, SyncFailed(ticket, error))

    def _answer_sync(self, ticket: int, answer: SyncMessage | None) -> None:
        opener_index, life, opener_ticket, server = self._served[ticket]
        opener = self.hosts[opener_index]
        turn_ns = self.network.turn_ns(server, opener_index)
        if opener.life != life or turn_ns is None:
            self._end_sync(ticket)
            self._report(self.hosts[server], SYNC_TIMEOUT_NS, SyncBroken(ticket))
        elif answer is None:
            self._end_sync(ticket)
            self._report(opener, turn_ns, SyncFailed(opener_ticket, "busy", is_busy=True))
        else:
            self._report(opener, turn_ns, SyncAnswered(opener_ticket, answer))

    def _close_sync(self, host: SimulatedHost, opener_ticket: int, message: SyncMessage) -> None:
        ticket = self._answering.get((host.index, host.life, opener_ticket))
        if ticket is None:
            return
        server = self.hosts[self._served[ticket][3]]
        self._end_sync(ticket)
        turn_ns = self.network.turn_ns(host.index, server.index)
        if turn_ns is None:
            self._report(server, SYNC_TIMEOUT_NS, SyncBroken(ticket))
        else:
            self._report(server, turn_ns, SyncClosed(ticket, message))

    def _end_sync(self, ticket: int) -> None:
        opener, life, opener_ticket, _server = self._served.pop(ticket)
        del self._answering[opener, life, opener_ticket]

    # What members believe.

    def views(self, subject: int) -> dict[MemberStatus | None, int]:
        """How many running members see the subject how."""
        counts: dict[MemberStatus | None, int] = {}
        node_id = self.hosts[subject].profile.node_id
        for host in self.hosts:
            if host.is_up and host.index != subject:
                member = host.core.membership.member_by_id(node_id)
                status = member.status if member is not None else None
                counts[status] = counts.get(status, 0) + 1
        return counts

    def is_one_view(self) -> bool:
        """All running members hold the same roster."""
        running = [host for host in self.hosts if host.is_up]
        return len({host.core.membership.digest() for host in running}) == 1

    def _host(self, index: int) -> SimulatedHost:
        name = f"m{index:04d}"
        node_id = hashlib.blake2b(name.encode(), digest_size=16).digest()
        address = Address(f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}", PORT)
        return SimulatedHost(index, Profile(node_id, name, address), Random(self.random.getrandbits(64)))
