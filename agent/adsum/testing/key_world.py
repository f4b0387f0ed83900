"""Keys in a simulated world: servers with the store on their logs, and client agents (`key_agents`) with the
core that asks them, as both ship.

Each has a host of its own, with clocks, and a place in the network. What the stores do with each command is
recorded (`written`), and what clients ask and hear (`operations`); both are judged in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, cast
from uuid import UUID

from adsum.agent.server_agent import ConsistentRead, Proposal
from adsum.consensus.commands import SubmitProposal, SubmitRead
from adsum.consensus.effects import Turned
from adsum.consensus.errors import OutcomeUnknown, Unavailable
from adsum.dedup import WriteNumbers
from adsum.effects import RefusalCause, Reply
from adsum.gossip.settings import MemberIdentity
from adsum.kv import KeyRead, ReadShape
from adsum.leading import ConsensusFigures
from adsum.now import SECOND
from adsum.raft.types import Entry, EntryKind, MemberId
from adsum.servers.agent_questions import AgentQuestions
from adsum.servers.keys import ServerKeys
from adsum.store.history import HistoryBounds
from adsum.store.machine import StoreMachine
from adsum.store.table import end_of
from adsum.testing.hosts import Plays, SimulatedHost
from adsum.testing.judged_request import JudgedRequest
from adsum.testing.key_agents import KeyAgent
from adsum.testing.logged_store import LoggedStore
from adsum.testing.raft_cluster import SETTINGS, TURN_NS_MAX, BareServers
from adsum.testing.raft_server import SimulatedServer
from adsum.testing.written import Changes, Ran, Written

SERVERS, AGENTS = 3, 3
HISTORY = HistoryBounds(changes_max=40, bytes_max=1 << 20)  # so that watchers fall behind it, too
RESULTS_BYTES_MAX = 16 << 20


class StoreOnLog(LoggedStore):
    """Whose commands are written down."""

    def __init__(
        self,
        applied: Callable[[Entry], None],
        written: Written,
        *,
        results_bytes_max: int = RESULTS_BYTES_MAX,
    ) -> None:
        super().__init__(StoreMachine(bounds=HISTORY, results_bytes_max=results_bytes_max))
        self._applied = applied
        self._written = written

    def apply(self, entry: Entry) -> bytes:
        self.registers.see(entry)
        before = self.store.keyspaces[0].revision
        answer = self.store.apply(entry)
        if entry.kind is EntryKind.COMMAND:
            self._written.add(Ran(entry, answer, self._changes_after(before)))
        self._applied(entry)
        return answer

    def _changes_after(self, before: int) -> Changes | None:
        space = self.store.keyspaces[0]
        if space.revision == before:
            return ()
        if space.revision == space.history.floor:
            return None
        changed = space.history.after(max(before, space.history.floor))
        return tuple((key, after) for _revision, key, _before, after, _via, _wall_ms in changed)

    def look(self, read: KeyRead) -> dict[bytes, bytes]:
        """What it would find here."""
        space = self.store.keyspaces[0]
        if read.shape is ReadShape.KEY:
            record = space.get(read.key)
            return {} if record is None else {read.key: record.value}
        return {key: record.value for key, record in space.table.items(read.key, end_of(read.key))}


class KeyServer:
    """The keys of one life of a server. It `RunsConsensus`."""

    waits_for = "no leader is known here"
    behind_ms = 0
    figures: ConsensusFigures | None = None

    def __init__(self, world: KeyWorld, server: SimulatedServer) -> None:
        self.server = server
        self.machine = server.state_machine
        assert isinstance(self.machine, StoreOnLog)
        self._world = world
        host = server.host
        numbers = WriteNumbers(server.me.node, host.generation)
        store = self.machine.store
        self.keys = ServerKeys(self, store, numbers, lambda: world.now_at(host).wall_ms, _wake_all)
        self.questions = AgentQuestions(self, self.keys, lambda: world.now_at(host).monotonic_ns / SECOND)

    @property
    def leader(self) -> MemberId | None:
        return self.server.core.leader

    @property
    def read_turn(self) -> int:
        return self.server.core.reads.turn

    @property
    def apply_level(self) -> int:
        return self.server.core.level.in_force

    @property
    def level_waits_for(self) -> list[str]:
        return [member.node for member in self.server.core.level.waits_for()]

    def submit(self, request: SubmitProposal | SubmitRead) -> None:
        token: Any = request.token

        def answered(reply: Reply) -> None:
            if reply.refusal is None:
                token(reply.value)
            elif reply.refusal.cause is RefusalCause.UNCERTAIN:
                token(OutcomeUnknown(reply.refusal.sentence))
            else:
                token(Unavailable(reply.refusal.sentence))

        if isinstance(request, SubmitRead):
            self._world.raft.submit(self.server, ConsistentRead(), answered)
        else:
            self._world.raft.submit(self.server, Proposal(request.data, request.dedup), answered)

    def give_up(self, token: object) -> None:
        """It is answered all the same, and nobody listens."""


class KeyWorld(BareServers):
    def __init__(
        self,
        *,
        seed: int,
        results_bytes_max: int = RESULTS_BYTES_MAX,
        hold_ns: int | None = None,
        is_traced: bool = False,
    ) -> None:
        """`hold_ns`: of the agents, if not as long as it ships."""
        self.written = Written(lambda: self.now_ns)
        self.operations: list[JudgedRequest] = []
        self.key_servers: dict[int, KeyServer] = {}  # by host
        super().__init__(
            SERVERS + AGENTS,
            seed=seed,
            settings=SETTINGS,
            is_traced=is_traced,
            make_machine=lambda applied: StoreOnLog(
                applied, self.written, results_bytes_max=results_bytes_max
            ),
        )
        self.members = [MemberId(str(UUID(int=number + 1)), "a") for number in range(SERVERS)]
        self.raft.found(self.members, self.hosts[:SERVERS], voters=SERVERS)
        self.agents = [
            KeyAgent(self, host, Random(self.random.getrandbits(64))) for host in self.hosts[SERVERS:]
        ]
        for agent in self.agents:
            agent.hold_ns = hold_ns if hold_ns is not None else agent.hold_ns
            agent.host.turn_ns_max = TURN_NS_MAX
        for host in self.hosts:
            self.start(host.index)

    def server_of(self, node_id: bytes) -> KeyServer:
        return self.key_servers[self.raft.of_node(str(UUID(bytes=node_id))).host.index]

    def look(self, read: KeyRead) -> dict[bytes, bytes]:
        """At whichever store is the furthest."""
        machines = [cast("StoreOnLog", server.state_machine) for server in self.raft.up()]
        return max(machines, key=lambda machine: machine.store.applied).look(read)

    def drift(self, host: SimulatedHost, ppm: int) -> None:
        host.drift(self.now_ns, ppm)
        if host.is_up:
            self._schedule(host)

    def perform(self, host: SimulatedHost, effects: Sequence[Any]) -> None:
        self._do(host, effects)

    def _boot(self, host: SimulatedHost, identity: MemberIdentity, random: Random) -> Plays:
        if host.index >= SERVERS:
            return cast("Plays", self.agents[host.index - SERVERS].boot(random))
        plays = super()._boot(host, identity, random)
        self.key_servers[host.index] = KeyServer(self, self.raft.on_host[host.index])
        return plays

    def _do(self, host: SimulatedHost, effects: Sequence[Any]) -> None:
        if host.index >= SERVERS:
            self.agents[host.index - SERVERS].carry_out(effects)
            self._schedule(host)
            return
        super()._do(host, effects)
        server = self.key_servers[host.index]
        for effect in effects:
            if isinstance(effect, Turned):
                server.keys.turned(effect)
        if host.is_up:
            server.keys.applied()


def _wake_all(woken: list[Callable[[], None]]) -> None:
    for wake in woken:
        wake()
