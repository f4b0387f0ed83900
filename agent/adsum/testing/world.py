"""The one world of the simulation: hosts, their clocks, a network between them, and one heap of events.

What runs on a host, and how its effects are carried out, is for others to add: gossip alone by the thousand,
whole agents, consensus alone. All of it lives on the same clock, network and hosts, so that one seed can
pause a leader of consensus while the others judge its host.

Processes may be paused (nothing runs, what comes in waits in the socket), held (timers run, but messages come
and go only at the end: Lifeguard's slow members), killed (the host still resets connections), lost with their
host, and started again with what they kept. Everything is an entry of one heap, ordered by (time, sequence);
the digest of all entries is equal for equal seeds, whatever PYTHONHASHSEED says."""

from __future__ import annotations

import enum
import gc
import hashlib
import heapq
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, cast

from adsum.address import Address
from adsum.agent.line import NOBODY
from adsum.effects import AnyCommand, Reply
from adsum.gossip.claims import Profile
from adsum.gossip.commands import DatagramUnreachable, Report
from adsum.gossip.settings import MemberIdentity
from adsum.now import MILLISECOND, Now
from adsum.testing.clock import FIRST_WALL_MS
from adsum.testing.disk import SimulatedDisk
from adsum.testing.hosts import Plays, Serves, SimulatedHost, State
from adsum.testing.network import Conditions, Network

PORT = 8301
SOCKET_MESSAGES_MAX = 2_048  # what a receive buffer of 2 MB holds of our datagrams
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


class World(ABC):
    def __init__(self, members: int, *, seed: int, conditions: Conditions) -> None:
        self.random = Random(seed)
        self.seed = seed
        self.now_ns = 0
        self.network = Network(Random(self.random.getrandbits(64)), conditions)
        self.digest = 0
        self.events = 0
        self.socket_drops = 0
        self._heap: list[tuple[int, int, int, int, Any]] = []  # what comes last depends on the kind
        self._sequence = 0
        self._requests = 0
        self._waiting: dict[int, Callable[[Reply], None]] = {}
        self.hosts = [self._host(index) for index in range(members)]
        self._by_address = {host.address: host.index for host in self.hosts}

    @abstractmethod
    def _boot(self, host: SimulatedHost, identity: MemberIdentity, random: Random) -> Plays:
        """A process begins."""

    @abstractmethod
    def _do(self, host: SimulatedHost, effects: Sequence[Any]) -> None:
        """Carries out what the process wants, and sets its timer."""

    @property
    def now(self) -> Now:
        return Now(self.now_ns, FIRST_WALL_MS + self.now_ns // MILLISECOND)

    def now_at(self, host: SimulatedHost) -> Now:
        return host.now(self.now_ns)

    # Lives.

    def start(self, index: int, *, name: str | None = None, address: Address | None = None) -> None:
        host = self.hosts[index]
        assert not host.is_up, "it runs already"
        if name is not None or address is not None:
            if self._by_address.get(host.address) == host.index:  # else another host has it by now
                del self._by_address[host.address]
            host.profile = replace(
                host.profile, name=name or host.profile.name, address=address or host.address
            )
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
        host.disk = self._disk(index)

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

    # The loop.

    def call(self, at_ns: int, function: Callable[[], None]) -> None:
        """Does something to the world at a time."""
        self._push(at_ns, EventKind.CALL, 0, function)

    def later(self, host: SimulatedHost, delay_ns: int, action: Callable[[], object]) -> None:
        """To the process that runs there now."""
        self.call(self.now_ns + delay_ns, partial(self.act, host, host.life, action))

    def act(self, host: SimulatedHost, life: int, action: Callable[[], object]) -> None:
        """To that process and no later one, and not while it is paused."""
        if host.life != life or not host.is_up:
            return
        if host.state is State.PAUSED:
            host.waiting.append(partial(self.act, host, life, action))
        else:
            action()

    def submit(self, host: SimulatedHost, command: AnyCommand, answered: Callable[[Reply], None]) -> int:
        """A client of this host asks for something."""
        self._requests += 1
        request = self._requests
        self._waiting[request] = answered
        self._do(host, cast("Serves", host.core).submit(self.now_at(host), request, command))
        return request

    def _replied(self, reply: Reply) -> None:
        if reply.request != NOBODY:
            self._waiting.pop(reply.request)(reply)

    def tell(self, host: SimulatedHost, report: Any) -> None:
        self._do(host, host.core.report(self.now_at(host), report))

    def tick(self, host: SimulatedHost) -> None:
        self._do(host, host.core.tick(self.now_at(host)))

    def run_for(self, duration_ns: int) -> None:
        self.run_until(self.now_ns + duration_ns)

    def run_until(self, end_ns: int) -> None:
        with uncollected():
            self._run_until(end_ns)

    def run_until_so(self, is_so: Callable[[], bool], *, within_ns: int) -> bool:
        """Looks after every moment in which something happens."""
        end_ns = self.now_ns + within_ns
        with uncollected():
            while not is_so():
                if not self._heap or self._heap[0][0] > end_ns:
                    return False
                self._run_until(self._heap[0][0])
        return True

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
                self._do(host, host.core.tick(host.now(time_ns)))
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
        if host.clock_drift_ppm or host.clock_ahead_ns:
            deadline_ns = host.world_ns(deadline_ns)
        if deadline_ns <= self.now_ns:
            deadline_ns = self.now_ns
            if host.turn_ns_max:
                deadline_ns += 1 + host.random.randrange(host.turn_ns_max)
        if host.deadline_ns == -1 or deadline_ns < host.deadline_ns:
            host.deadline_ns = deadline_ns
            self._push(deadline_ns, TIMER, host.index, None)

    # What comes in.

    def _arrive(self, host: SimulatedHost, source: Address, message: bytes) -> None:
        if host.state is RUNNING:
            self._do(host, host.core.receive(host.now(self.now_ns), source, message))
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
            self.tell(host, report)
        else:
            host.waiting.append(lambda: self._hear(host, life, report))

    def _report(self, host: SimulatedHost, delay_ns: int, report: Report) -> None:
        self._push(self.now_ns + delay_ns, REPORT, host.index, (host.life, report))

    def _host(self, index: int) -> SimulatedHost:
        name = f"m{index:04d}"
        node_id = hashlib.blake2b(name.encode(), digest_size=16).digest()
        address = Address(f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}", PORT)
        random = Random(self.random.getrandbits(64))
        return SimulatedHost(index, Profile(node_id, name, address), random, self._disk(index))

    def _disk(self, index: int) -> SimulatedDisk:
        return SimulatedDisk(f"{self.seed} {index}")
