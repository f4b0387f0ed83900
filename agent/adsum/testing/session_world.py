"""Sessions in a simulated world: servers with the store and the keeper of sessions as they ship, nodes that
fail, come back and leave, checks that flip, and clients that renew, stop, and renew late.

Each server sees the nodes with a lag of its own, sometimes a long one, and sometimes calls one failed that is
well; but never two servers the same one. What ends a session is judged by how things truly were:

- nobody is ended by a TTL before twice that has passed since the last renewal that was acknowledged;
- whoever renews no more is gone within the bound that the keeper promises;
- a node or check ends a session only if it truly failed after what the session was accepted with, and then it
  does end it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, NamedTuple, Protocol, cast
from uuid import UUID

from msgspec import structs

from adsum.agent.server_agent import LeadersRead, Proposal
from adsum.consensus.core import ConsensusCore
from adsum.consensus.effects import Turned
from adsum.consensus.errors import OutcomeUnknown, Unavailable
from adsum.effects import RefusalCause, Reply
from adsum.gossip.settings import MemberIdentity
from adsum.now import MILLISECOND, SECOND
from adsum.raft.types import Entry, MemberId, Term
from adsum.servers.session_keeping import SessionKeeping
from adsum.session import EndCause, EndedSession, Session
from adsum.sessions.judging import SERF_HEALTH
from adsum.sessions.keeper import SessionKeeper
from adsum.sessions.sees import CheckSeen, HostSeen, HostVerdict, NodeKey, RecordsSeen
from adsum.sessions.settings import KeeperSettings
from adsum.store.commands import CreateSession, StoreRequest, encode_request
from adsum.store.machine import SESSIONS_LEVEL, StoreMachine
from adsum.testing.checkers import demand
from adsum.testing.hosts import Plays, SimulatedHost, State
from adsum.testing.logged_store import LoggedStore
from adsum.testing.raft_cluster import SETTINGS, BareServers
from adsum.testing.raft_server import SimulatedServer

SERVERS, NODES = 3, 4
CHECK = "web"
LOOK_NS = 50 * MILLISECOND
VERDICT_NS = 2 * SECOND
DRIFT = 0.96  # of two clocks, at most
LAGS_NS = (50 * MILLISECOND, 300 * MILLISECOND, 2 * SECOND, 15 * SECOND)
GRACE_NS = 10 * SECOND
SLACK_NS = 3 * SECOND
TTLS_MS = (2_000, 4_000, 8_000, 15_000)
SETTINGS_HERE = KeeperSettings(long_ttl_ms=5_000)  # so that a minute is long enough to see long ones end


class NodeStanding(NamedTuple):
    """Of a node, as it truly is, or as somebody last heard."""

    verdict: HostVerdict
    generation: int
    version: int  # of its records
    check: CheckSeen
    number: int = 0  # what is heard late does not replace what came after it
    since_ns: int = 0


@dataclass(slots=True)
class SimulatedNode:
    name: str
    node_id: bytes
    now: NodeStanding
    history: list[NodeStanding] = field(default_factory=list)


@dataclass(slots=True)
class SessionFate:
    session: Session
    created_ns: int = -1  # applied somewhere
    acknowledged_ns: int = -1  # the last time
    led_ns: int = 0  # since then, while somebody truly led and a majority could write
    takeovers: int = 0  # since then
    ended: EndedSession | None = None
    ended_ns: int = -1


class SightOfNodes:
    """One server's. It `SeesHosts`. Whoever decides alone is believed, so it is not wrong about anybody."""

    def __init__(self, decides_alone: Callable[[], bool] = lambda: False) -> None:
        self._decides_alone = decides_alone
        self.is_isolated = False
        self.lag_ns = LAGS_NS[0]
        self.heard: dict[bytes, NodeStanding] = {}
        self.called_failed: bytes | None = None  # wrongly

    def host(self, who: NodeKey) -> HostSeen:
        heard = self.heard.get(who[0])
        if heard is None:
            return HostSeen(HostVerdict.UNKNOWN)
        is_wrong = self.called_failed == who[0] and heard.verdict is HostVerdict.PRESENT
        is_wrong = is_wrong and not self._decides_alone()
        return HostSeen(HostVerdict.FAILED if is_wrong else heard.verdict, heard.generation)

    def followed_by(self, _who: NodeKey, _node: str) -> int:
        return 0

    def records(self, who: NodeKey) -> RecordsSeen:
        heard = self.heard.get(who[0])
        if heard is None:
            return RecordsSeen()
        return RecordsSeen(heard.generation, heard.version, is_complete=True)

    def check(self, who: NodeKey, _check_id: str) -> CheckSeen:
        heard = self.heard.get(who[0])
        return heard.check if heard is not None else CheckSeen.MISSING


class SessionsOnLog(LoggedStore):
    """At the level at which there are sessions."""

    def __init__(self, applied: Callable[[Entry], None], world: SessionWorld) -> None:
        super().__init__(StoreMachine())
        self._applied = applied
        self._world = world

    def apply(self, entry: Entry) -> bytes:
        self.registers.see(entry)
        before = self.store.sessions.revision
        answer = self.store.apply(structs.replace(entry, apply_level=SESSIONS_LEVEL))
        if self.store.sessions.revision != before:
            self._world.sessions_moved(self.store, before)
        self._applied(entry)
        return answer


class HasStore(Protocol):
    @property
    def store(self) -> StoreMachine: ...


class KeepingServer:
    """What one life of a server does for sessions. It is a `LeadersDoor`."""

    def __init__(
        self,
        world: BareServers,
        server: SimulatedServer,
        sights: Sequence[SightOfNodes],
        settings: KeeperSettings = SETTINGS_HERE,
    ) -> None:
        self.world = world
        self.server = server
        self.life = server.life
        self.alarm_ns = -1
        self.was_proven = 0  # the term
        self._sights = sights
        machine = cast("HasStore", server.state_machine).store
        sight = sights[server.host.index]
        self.keeping = SessionKeeping(
            server.me.node, machine, sight, self, lambda: world.now_at(server.host), settings
        )

    @property
    def keeper(self) -> SessionKeeper:
        return self.keeping.keeper

    @property
    def core(self) -> ConsensusCore | None:
        return self.server.core if self.server.has_consensus else None

    def name_of(self, node: str) -> str:
        return node[-1]

    def propose(self, data: bytes, answered: Callable[[bytes | Exception], None], term: int) -> None:
        self.world.raft.submit(self.server, Proposal(data, None, Term(term)), _told(answered))

    def read(self, answered: Callable[[int | Exception], None]) -> None:
        self.world.raft.submit(self.server, LeadersRead(), _told(answered))

    def ask_verdict(self, voter: str, node_id: bytes, answered: Callable[[HostSeen | None], None]) -> None:
        """The question and the answer may be lost."""
        world, is_over = self.world, [False]

        def end(seen: HostSeen | None) -> None:
            if not is_over[0]:
                is_over[0] = True
                world.raft.later(self.server, 0, lambda: answered(seen))

        other = world.raft.of_node(voter)

        def arrive() -> None:
            if other.takes_part:
                sight = self._sights[other.host.index]
                seen = None if sight.is_isolated else sight.host((node_id, ""))
                for delay_ns in world.network.delays_ns(other.host.index, self.server.host.index)[:1]:
                    world.call(world.now_ns + delay_ns, lambda: end(seen))

        for delay_ns in world.network.delays_ns(self.server.host.index, other.host.index)[:1]:
            world.raft.later(other, delay_ns, arrive)
        world.call(world.now_ns + VERDICT_NS, lambda: end(None))

    def wake(self) -> None:
        self.world.raft.later(self.server, MILLISECOND, self._rest)

    def _rest(self) -> None:
        if self.life != self.server.life:
            return
        due_ns = self.keeping.deadline()
        if due_ns is None:
            return
        host = self.server.host
        at_ns = max(host.world_ns(due_ns), self.world.now_ns + 1)
        if not self.world.now_ns < self.alarm_ns <= at_ns:
            self.alarm_ns = at_ns
            self.world.raft.later(self.server, at_ns - self.world.now_ns, self._tick)

    def _tick(self) -> None:
        if self.life == self.server.life:
            self.alarm_ns = -1
            self.keeping.tick()
            self._rest()


class SessionWorld(BareServers):
    def __init__(self, *, seed: int, is_traced: bool = False) -> None:
        self.fates: dict[str, SessionFate] = {}
        self.sights = [SightOfNodes() for _ in range(SERVERS)]
        self.servers: dict[int, KeepingServer] = {}  # by host
        self.nodes = [
            SimulatedNode(
                f"node-{number}",
                UUID(int=1_000 + number).bytes,
                NodeStanding(HostVerdict.PRESENT, 1, 1, CheckSeen.FINE),
            )
            for number in range(NODES)
        ]
        self.led_ns = 0
        self.takeovers = 0
        self.is_over = False  # nothing moves any more
        super().__init__(
            SERVERS,
            seed=seed,
            settings=SETTINGS,
            is_traced=is_traced,
            make_machine=lambda applied: SessionsOnLog(applied, self),
        )
        for node in self.nodes:
            node.history.append(node.now)
            for sight in self.sights:
                sight.heard[node.node_id] = node.now
        self.members = [MemberId(str(UUID(int=number + 1)), "a") for number in range(SERVERS)]
        self.raft.found(self.members, self.hosts, voters=SERVERS)
        for host in self.hosts:
            self.start(host.index)
        self.call(LOOK_NS, self._look)

    # Lives.

    def _boot(self, host: SimulatedHost, identity: MemberIdentity, random: Random) -> Plays:
        plays = super()._boot(host, identity, random)
        self.servers[host.index] = KeepingServer(self, self.raft.on_host[host.index], self.sights)
        return plays

    def _do(self, host: SimulatedHost, effects: Sequence[Any]) -> None:
        super()._do(host, effects)
        keeping = self.servers[host.index].keeping
        for effect in effects:
            if isinstance(effect, Turned):
                keeping.turned(effect)
        if host.is_up:
            keeping.applied()

    # What truly is.

    def moves(self, node: SimulatedNode, **changed: Any) -> None:
        """And everybody hears of it, each after a lag of its own."""
        node.now = node.now._replace(**changed, number=node.now.number + 1, since_ns=self.now_ns)
        node.history.append(node.now)
        standing = node.now
        for index, sight in enumerate(self.sights):
            self.call(self.now_ns + sight.lag_ns, partial(self._heard, index, node, standing))

    def _heard(self, index: int, node: SimulatedNode, standing: NodeStanding) -> None:
        sight = self.sights[index]
        if standing.number > sight.heard[node.node_id].number:
            sight.heard[node.node_id] = standing
            self.node_moved(index, node)

    def node_moved(self, index: int, node: SimulatedNode) -> None:
        server = self.servers[index]
        self.raft.later(server.server, 0, lambda: server.keeping.host_moved((node.node_id, "")))

    # What becomes of sessions.

    def create(self, server: SimulatedServer, session: Session) -> None:
        self.fates[session.id] = SessionFate(session)
        data = encode_request(StoreRequest(CreateSession(session), 0))
        self.raft.later(server, 0, partial(self.raft.submit, server, Proposal(data), _ignore))

    def renew(self, index: int, session_id: str) -> None:
        """Somebody's renewal has come to this server, which may not lead. It is true that the session was
        renewed if it was there at any moment until the answer: a leader that was suspended, and cannot know,
        answers what was so before."""
        server, asked_ns = self.servers[index], self.now_ns

        def answered(outcome: list[Session | None] | Exception) -> None:
            fate = self.fates[session_id]
            if isinstance(outcome, list) and outcome[0] is not None:
                was_there = fate.ended is None or fate.ended_ns >= asked_ns
                demand(was_there, f"{session_id} was renewed after it had ended")
                fate.acknowledged_ns, fate.led_ns, fate.takeovers = self.now_ns, self.led_ns, self.takeovers

        def arrive() -> None:
            fate = self.fates[session_id]
            if server.keeper.is_proven:  # it may count, whether or not anybody hears of it
                fate.led_ns, fate.takeovers = self.led_ns, self.takeovers
            server.keeping.renew([session_id], answered)

        self.raft.later(server.server, 0, arrive)

    def sessions_moved(self, store: StoreMachine, before: int) -> None:
        for change in store.sessions.recent:
            if change.revision <= before or change.id not in self.fates:
                continue
            fate = self.fates[change.id]
            ended = store.sessions.ended.get(change.id)
            if ended is None and fate.created_ns < 0:
                fate.created_ns = fate.acknowledged_ns = self.now_ns
                fate.led_ns, fate.takeovers = self.led_ns, self.takeovers
            elif ended is not None and fate.ended is None:
                fate.ended, fate.ended_ns = ended, self.now_ns
                self._judge(fate, ended)

    def _judge(self, fate: SessionFate, ended: EndedSession) -> None:
        session = fate.session
        told = f"{session.id}: {ended.cause.name} ({ended.evidence})"
        node = next(each for each in self.nodes if each.node_id == session.node_id)
        accepted_with = session.generation, session.records_version
        later = [each for each in node.history if each.generation >= session.generation]
        newer = [each for each in later if (each.generation, each.version) >= accepted_with]
        match ended.cause:
            case EndCause.EXPIRED:
                lived_ns = self.now_ns - fate.acknowledged_ns
                ttl_ns = session.ttl_ms * MILLISECOND
                demand(lived_ns >= 2 * ttl_ns * DRIFT, f"{told} {lived_ns / SECOND} s after it was renewed")
            case EndCause.NODE_FAILED:
                demand(self._failed_lately(node, session.generation), f"{told}: it did not")
            case EndCause.NODE_GONE:
                demand(any(each.verdict is HostVerdict.GONE for each in later), f"{told}: it never left")
            case EndCause.CHECK_CRITICAL:
                demand(any(each.check is CheckSeen.CRITICAL for each in newer), f"{told}: it never was")
            case EndCause.CHECK_GONE:
                demand(any(each.check is CheckSeen.MISSING for each in newer), f"{told}: it never was")
            case EndCause.DESTROYED:
                demand(False, f"{told}: by nobody")  # noqa: FBT003  # what is demanded

    def _failed_lately(self, node: SimulatedNode, generation: int) -> bool:
        """So that the leader may have seen it for as long as the grace."""
        until_ns = [each.since_ns for each in node.history[1:]] + [self.now_ns]
        return any(
            each.verdict is HostVerdict.FAILED
            and each.generation >= generation
            and end_ns >= self.now_ns - GRACE_NS - LAGS_NS[-1] - SLACK_NS
            for each, end_ns in zip(node.history, until_ns, strict=True)
        )

    def _look(self) -> None:
        """Every so often: who leads, and whether anybody outlives the bound."""
        if (leader := self.leading()) is not None:
            if self._majority_writes():
                self.led_ns += LOOK_NS
            term = leader.server.raft.replica.term
            if leader.was_proven != term:
                leader.was_proven = term
                self.takeovers += 1
        for fate in self.fates.values():
            if fate.ended is None and fate.created_ns >= 0 and fate.session.ttl_ms:
                self._demand_bound(fate)
        self.call(self.now_ns + LOOK_NS, self._look)

    def _majority_writes(self) -> bool:
        """What it takes to end a session, which is an entry of the log."""
        writing = [
            server
            for server in self.raft.on_host.values()
            if server.takes_part
            and server.host.state is State.RUNNING
            and not server.is_disk_stalled(self.now_ns)
        ]
        return 2 * len(writing) > SERVERS

    def leading(self) -> KeepingServer | None:
        leaders = [server for server in self.raft.leaders() if server.host.state is State.RUNNING]
        if not leaders:
            return None
        newest = self.servers[max(leaders, key=lambda each: each.raft.replica.term).host.index]
        return newest if newest.keeper.is_proven else None

    def _demand_bound(self, fate: SessionFate) -> None:
        ttl_ns = fate.session.ttl_ms * MILLISECOND
        changes = self.takeovers - fate.takeovers
        a_change_ns = 10 * SECOND if fate.session.ttl_ms > SETTINGS_HERE.long_ttl_ms else 2 * ttl_ns
        bound_ns = (2 * ttl_ns + changes * a_change_ns) / DRIFT + (changes + 2) * SECOND
        led_ns = self.led_ns - fate.led_ns
        demand(led_ns <= bound_ns, f"{fate.session.id} lives {led_ns / SECOND} s, {changes} changes")

    def doomed(self) -> list[str]:
        """Sessions that are there and ought not to be, as things have been for long enough."""
        by_id = {node.node_id: node for node in self.nodes}
        found = []
        for fate in self.fates.values():
            standing, session = by_id[fate.session.node_id].now, fate.session
            is_failed = standing.verdict is HostVerdict.FAILED and SERF_HEALTH in session.node_checks
            is_lost = CHECK in session.node_checks and standing.check is not CheckSeen.FINE
            is_there = fate.created_ns >= 0 and fate.ended is None
            if is_there and (is_failed or is_lost or standing.verdict is HostVerdict.GONE):
                found.append(session.id)
        return found


def _ignore(_reply: Reply) -> None:
    """Whether it was created is seen in the log."""


def _told(answered: Callable[[Any], None]) -> Callable[[Reply], None]:
    def replied(reply: Reply) -> None:
        if reply.refusal is None:
            answered(reply.value)
        elif reply.refusal.cause is RefusalCause.UNCERTAIN:
            answered(OutcomeUnknown(reply.refusal.sentence))
        else:
            answered(Unavailable(reply.refusal.sentence))

    return replied
