"""Many agents' gossip and catalog together: the shipped cores of both, wired as the agent wires them, on one
simulated clock and network.

Gossip carries payloads and roots; calls between agents are delayed messages with sizes, on connections that
survive loss as TCP does and fail when a host is dead or cut off. All replicas share one memory of states, so
that a thousand copies of a thousand owners fit into a gigabyte and a change is worked out once.

Nothing here knows how replication works; it is told of every copy that changes, for whoever measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

import cbor2

from adsum.address import Address
from adsum.catalog.replication.core import Replication
from adsum.catalog.replication.effects import AskPeer, CarryThis, ForeignNews, OwnerChanged, RootMoved
from adsum.catalog.replication.effects import Effect as CatalogEffect
from adsum.catalog.replication.interner import Interner
from adsum.catalog.replication.items import NODE_KEY
from adsum.catalog.replication.publisher import OwnIdentity
from adsum.catalog.replication.pushes import Urgency
from adsum.catalog.replication.state import span_of
from adsum.effects import AskTicket
from adsum.gossip.commands import Carry, Join, Leave, SetRoot
from adsum.gossip.effects import CarriedHeard, Effect, LeaveDone, MemberChanged, RootHeard
from adsum.gossip.settings import GossipSettings
from adsum.now import SECOND, Now
from adsum.testing.gossip_world import GossipWorld
from adsum.testing.hosts import SimulatedHost, State
from adsum.testing.network import Conditions
from adsum.testing.shared_states import SharedStates
from adsum.testing.world import uncollected

CALL_TIMEOUT_NS = 5 * SECOND
NS_PER_BYTE = 8  # a gigabit a second
WHOLE_OWNER_BYTES = 1 << 20

PASSING, CRITICAL = 0, 2

CopyWatcher = Callable[[int, int, OwnerChanged], None]


@dataclass(slots=True, eq=False)
class CatalogReplica:
    """One process's catalog; it ends with the process."""

    core: Replication
    deadline_ns: int = -1


class CatalogWorld(GossipWorld):
    def __init__(
        self,
        members: int,
        *,
        services: int = 20,
        seed: int = 0,
        settings: GossipSettings | None = None,
        conditions: Conditions | None = None,
        are_states_shared: bool = True,
    ) -> None:
        self._now = Now(-1, 0)
        super().__init__(members, seed=seed, settings=settings, conditions=conditions)
        self.services = services
        self.copy_watchers: list[CopyWatcher] = []  # called with time, host and what changed there
        self.call_bytes = [0] * members  # sent, by host
        self.calls = 0
        self.changes = 0  # of copies, anywhere
        self.carried = 0  # payloads given to gossip, anywhere
        self.foreign: list[tuple[int, ForeignNews]] = []
        self.states = SharedStates()
        self.are_states_shared = are_states_shared
        self.shorts = [host.profile.short for host in self.hosts]
        self.by_short = {short: index for index, short in enumerate(self.shorts)}
        self._replicas: dict[int, CatalogReplica] = {}

    @property
    def now(self) -> Now:
        """Asked for many times in one moment."""
        if self._now.monotonic_ns != self.now_ns:
            self._now = super().now
        return self._now

    def replica(self, index: int) -> Replication:
        return self._replicas[index].core

    # Lives.

    def start(self, index: int, *, name: str | None = None, address: Address | None = None) -> None:
        super().start(index, name=name, address=address)
        host = self.hosts[index]
        identity = OwnIdentity(host.profile.node_id, host.generation)
        interner = self.states if self.are_states_shared else Interner()
        core = Replication(self.now, identity, Random(host.random.getrandbits(64)), interner)
        self._replicas[index] = CatalogReplica(core)
        core.publisher.put(self.now.monotonic_ns, NODE_KEY, cbor2.dumps([0, {"rack": str(index % 20)}]))
        for service in range(self.services):
            self._publish_service(core, service)
        self._drain(host)

    def _publish_service(self, core: Replication, service: int) -> None:
        name = f"service-{service:02d}"
        definition = [1, name, name, ["v1", "primary"], "", 8000 + service, {"team": "core", "tier": "2"}]
        core.publisher.put(self.now.monotonic_ns, name, cbor2.dumps(definition))
        check = [2, f"{name}-http", "HTTP check", "", name, "http"]
        core.publisher.put(self.now.monotonic_ns, f"check {name}", cbor2.dumps(check))
        core.publisher.put(
            self.now.monotonic_ns, f"state {name}", self._state(core, name, PASSING), Urgency.PASSING
        )

    def _state(self, core: Replication, name: str, status: int) -> bytes:
        output = (b"HTTP GET http://10.0.0.1:8000/health: 503 Service Unavailable",) if status else ()
        return cbor2.dumps([3, core.publisher.number(f"check {name}"), status, *output])

    def form_whole(self) -> None:
        """Everybody knows everybody and has all that they publish, as after a long quiet time."""
        self.form()
        with uncollected():
            for host in self.hosts:
                replica = self._replicas[host.index]
                replica.core.tick(self.now)
                replica.core.take_effects()  # the pushes of a start that is long over
            for host in self.hosts:
                self.copy(host.index, [each.index for each in self.hosts])
            for host in self.hosts:
                self._drain(host)

    def copy(self, owner: int, holders: list[int], *, since: int = 0) -> None:
        """What gossip and exchanges would have done in a long time, done at once."""
        core, short = self.replica(owner), self.shorts[owner]
        state = core.state(short)
        assert state is not None
        delta = self.states.delta(span_of(state, since, WHOLE_OWNER_BYTES)[0])
        for index in holders:
            if index != owner:
                copies = self.replica(index)._copies  # no door of the product does this
                copies.hear(self.now, short, copies.holdings[short], delta, is_push=False)

    # What an operator does.

    def join(self, index: int, *, by: int) -> None:
        self.command(index, Join((self.hosts[by].address,)))

    def leave(self, index: int) -> None:
        self.command(index, Leave())

    def flip(self, index: int, service: int, *, is_failing: bool) -> tuple[int, int]:
        """One check changes its mind; the number of the item and the version that tells of it."""
        core = self.replica(index)
        self.start_flip(index, service, is_failing=is_failing)
        core.tick(self.now)
        self._drain(self.hosts[index])
        number = core.publisher.number(f"state service-{service:02d}")
        return number, core.publisher.state.items[number].version

    def start_flip(self, index: int, service: int, *, is_failing: bool) -> None:
        """It is told of when its owner thinks fit."""
        core = self.replica(index)
        name = f"service-{service:02d}"
        status, urgency = (CRITICAL, Urgency.CRITICAL) if is_failing else (PASSING, Urgency.PASSING)
        core.publisher.put(self.now.monotonic_ns, f"state {name}", self._state(core, name, status), urgency)
        self._drain(self.hosts[index])

    def live_through(self, side: list[int]) -> None:
        """An hour in which nobody outside heard of this side: every check of each has changed, one host in
        ten has lost a service, and everybody on the side knows all of it."""
        with uncollected():
            for index in side:
                core = self.replica(index)
                before = core.publisher.state.version
                for service in range(self.services):
                    name = f"service-{service:02d}"
                    core.publisher.put(
                        self.now.monotonic_ns, f"state {name}", self._state(core, name, CRITICAL)
                    )
                if index % 10 == 0:
                    self._deregister(core, index % self.services)
                core.tick(self.now)
                told = [each for each in core.take_effects() if not isinstance(each, CarryThis)]
                self._perform_own(self.hosts[index], told)
                self.copy(index, side, since=before)
            for index in side:
                self._drain(self.hosts[index])

    def _deregister(self, core: Replication, service: int) -> None:
        name = f"service-{service:02d}"
        for key in (f"state {name}", f"check {name}", name):
            core.publisher.remove(self.now.monotonic_ns, key)

    # What copies hold.

    def is_one_catalog(self, hosts: list[int] | None = None) -> bool:
        """All running agents (or these) have the same root."""
        running = [host.index for host in self.hosts if host.is_up] if hosts is None else hosts
        return len({self.replica(index).root for index in running}) <= 1

    # Effects of both cores.

    def _perform(self, host: SimulatedHost, effect: Effect) -> None:
        replica = self._replicas[host.index].core
        if isinstance(effect, CarriedHeard):  # this and the next are nearly all there are
            replica.hear(self.now, effect.sender, effect.payloads)
        elif isinstance(effect, RootHeard):
            replica.root_heard(self.now, effect.sender, effect.root)
        else:
            self._perform_rare(host, replica, effect)
        self._drain(host)

    def _perform_rare(self, host: SimulatedHost, replica: Replication, effect: Effect) -> None:
        super()._perform(host, effect)
        match effect:
            case MemberChanged():
                self._tell_of_member(replica, effect)
            case LeaveDone():
                self.kill(host.index)

    def _tell_of_member(self, replica: Replication, change: MemberChanged) -> None:
        before, after = change.before, change.after
        short = self.shorts[self.by_short[change.member.short]]
        was_present = before is not None and before.is_present
        if after is not None and after.is_present:
            if not was_present:
                replica.joined(self.now, short, after.generation)
        elif was_present or after is None:
            if after is not None and not after.departure:
                replica.member_failed(self.now, short)
            else:
                replica.member_left(self.now, short, after.generation if after is not None else 0)

    def _drain(self, host: SimulatedHost) -> None:
        replica = self._replicas[host.index]
        effects = replica.core.take_effects()
        if effects:
            self._perform_own(host, effects)
        self._schedule_replica(host, replica)

    def _perform_own(self, host: SimulatedHost, effects: Sequence[CatalogEffect]) -> None:
        for effect in effects:
            match effect:
                case OwnerChanged():
                    self.changes += 1
                    for watcher in self.copy_watchers:
                        watcher(self.now_ns, host.index, effect)
                case CarryThis(key, payload, is_urgent, is_heard):
                    self.carried += 1
                    self.command(host.index, Carry(key, payload, is_urgent, is_heard))
                case RootMoved(root):
                    self.command(host.index, SetRoot(root))
                case AskPeer():
                    self._ask(host, effect)
                case ForeignNews():
                    self.foreign.append((host.index, effect))

    def _schedule_replica(self, host: SimulatedHost, replica: CatalogReplica) -> None:
        deadline_ns = replica.core.deadline()
        if deadline_ns is None:
            return
        deadline_ns = max(deadline_ns, self.now_ns)
        if replica.deadline_ns == -1 or deadline_ns < replica.deadline_ns:
            replica.deadline_ns = deadline_ns
            self.later(
                host, deadline_ns - self.now_ns, partial(self._tick_replica, host, replica, deadline_ns)
            )

    def _tick_replica(self, host: SimulatedHost, replica: CatalogReplica, deadline_ns: int) -> None:
        if replica.deadline_ns == deadline_ns:
            replica.deadline_ns = -1
            replica.core.tick(self.now)
            self._drain(host)

    # Calls.

    def _ask(self, host: SimulatedHost, ask: AskPeer) -> None:
        target = self.hosts[self.by_short[ask.to]]
        self.calls += 1
        connected_ns = self._connect_ns(host, target)
        turn_ns = self.network.turn_ns(host.index, target.index)
        if connected_ns is None or turn_ns is None or connected_ns > CALL_TIMEOUT_NS:
            self._answer(host, CALL_TIMEOUT_NS, ask.ticket, None)
        elif target.state is State.DEAD:
            self._answer(host, connected_ns, ask.ticket, None)
        else:
            self.call_bytes[host.index] += len(ask.body)
            due_ns = connected_ns + turn_ns + NS_PER_BYTE * len(ask.body)
            self.later(host, due_ns, partial(self._serve, host, target, ask))

    def _serve(self, host: SimulatedHost, target: SimulatedHost, ask: AskPeer) -> None:
        turn_ns = self.network.turn_ns(target.index, host.index)
        if target.state is not State.RUNNING or turn_ns is None:
            self._answer(host, CALL_TIMEOUT_NS, ask.ticket, None)
            return
        body = self.replica(target.index).asked(self.now, self.shorts[host.index], ask.method, ask.body)
        self._drain(target)
        self.call_bytes[target.index] += len(body)
        self._answer(host, turn_ns + NS_PER_BYTE * len(body), ask.ticket, body)

    def _answer(self, host: SimulatedHost, wait_ns: int, ticket: AskTicket, body: bytes | None) -> None:
        def answer() -> None:
            self.replica(host.index).answered(self.now, ticket, body)
            self._drain(host)

        self.later(host, wait_ns, answer)
