"""Whole agents on one simulated clock and network: the shipped composite cores, glue included.

What gossip asks of the network the gossip world plays; disk writes, runs of checks and replies are played
here, on a disk for each host that survives its process. As everywhere: one seed, one run, to the bit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any

from adsum.address import Address
from adsum.agent import tags
from adsum.agent.client_agent import client_agent
from adsum.agent.cluster_state import ClusterState
from adsum.agent.commands import (
    Command,
    MemberAnswered,
    MemberAsked,
    Message,
)
from adsum.agent.core import AgentCore
from adsum.agent.line import NOBODY
from adsum.agent.local_catalog import LocalCatalog
from adsum.agent.presence import uuid_text
from adsum.agent.saved_catalog import decode as decode_copy
from adsum.agent.saved_files import COPY, GENERATION, PEERS
from adsum.agent.server_agent import AnswerServer, ServerAgent, ServerEffect
from adsum.agent.settings import AgentSettings
from adsum.catalog.definitions import CheckStatus
from adsum.catalog.effects import CheckRan, RunCheck, StopCheck
from adsum.catalog.model import Node
from adsum.catalog.replication.interner import Interner
from adsum.consensus.effects import ConsensusEffect
from adsum.effects import (
    AnswerMember,
    AnyCommand,
    AskMember,
    LogLine,
    Notify,
    NotPersisted,
    Persist,
    Persisted,
    Refusal,
    Reply,
    Save,
    WriteFile,
)
from adsum.gossip.claims import Profile
from adsum.gossip.commands import Datagram
from adsum.gossip.membership_view import MembershipView
from adsum.gossip.settings import MemberIdentity
from adsum.gossip.tally import GossipTally
from adsum.logs.system_errors import told
from adsum.now import MILLISECOND, SECOND, Now
from adsum.raft.types import MemberId
from adsum.storage import registrations
from adsum.storage.owed import Owed
from adsum.storage.writer import ROUND_S
from adsum.testing.disk import SimulatedDisk
from adsum.testing.gossip_world import GossipWorld
from adsum.testing.hosts import Plays, SimulatedHost, State
from adsum.testing.raft_cluster import RaftCluster

DISK_NS_MIN, DISK_NS_MAX = MILLISECOND // 10, 5 * MILLISECOND
ROUND_NS = ROUND_S * SECOND
RUN_NS_MIN, RUN_NS_MAX = MILLISECOND, 50 * MILLISECOND
ASK_TIMEOUT_NS = 5 * SECOND
DESCRIBED = tags.encode(tags.Tags(datacenter="dc1", build="1.8.7"))

OF_CONSENSUS = ConsensusEffect | AnswerServer

CheckOutcome = tuple[CheckStatus, str]


class Player:
    """One agent's composite, as the world drives it."""

    def __init__(self, composite: AgentCore | ServerAgent, core: AgentCore, owed: Owed) -> None:
        self.composite = composite
        self.core = core  # what every composite has
        self.owed = owed
        self.replies: dict[int, Refusal | None] = {}
        self.values: dict[int, object] = {}

    def note(self, reply: Reply) -> None:
        self.replies[reply.request], self.values[reply.request] = reply.refusal, reply.value

    @property
    def cluster(self) -> ClusterState:
        return self.core.cluster

    @property
    def membership(self) -> MembershipView:
        return self.cluster.membership

    @property
    def tally(self) -> GossipTally:
        return self.cluster.gossip.tally

    def receive(self, now: Now, source: Address, message: bytes) -> Sequence[Any]:
        return self.composite.receive(now, Datagram(source, message, is_authentic=True))

    def report(self, now: Now, report: Any) -> Sequence[Any]:
        return self.composite.receive(now, report)

    def command(self, now: Now, command: Command) -> Sequence[Any]:
        return self.submit(now, NOBODY, command)

    def submit(self, now: Now, request: int, command: AnyCommand) -> Sequence[Any]:
        return self.composite.command(now, request, command)

    def tick(self, now: Now) -> Sequence[Any]:
        return self.composite.tick(now)

    def deadline(self) -> int | None:
        return self.composite.deadline()


class AgentCluster(GossipWorld):
    def __init__(self, members: int, *, servers: int = 0, **more: Any) -> None:
        """The first so many are servers, and vote."""
        super().__init__(members, **more)
        self._writes_until_ns: dict[int, int] = {}  # one writer a host: writes end in their order
        self.outcomes: dict[tuple[int, str], Callable[[], CheckOutcome]] = {}  # by host and check id
        self._answers: dict[tuple[int, int], bytes] = {}
        self._interner = Interner()  # one for all: what they hold of an owner, they share
        self.raft = RaftCluster(self)
        founders = self.hosts[:servers]
        ids = [MemberId(uuid_text(host.profile.node_id), "a") for host in founders]
        self.raft.found(ids, founders, voters=servers)

    def agent(self, index: int) -> Player:
        player = self.hosts[index].core
        assert isinstance(player, Player)
        return player

    def disk(self, index: int) -> SimulatedDisk:
        return self.hosts[index].disk

    def give(self, index: int, command: AnyCommand) -> int:
        """A client of this host asks for something; the number finds its reply."""
        return self.submit(self.hosts[index], command, self.agent(index).note)

    def command(self, index: int, command: Command) -> None:
        self.give(index, command)

    def rejoin(self, index: int) -> bytes | None:
        """What its last run kept of its peers."""
        return self.disk(index).read(PEERS)

    # Lives.

    def lose_folder(self, index: int) -> None:
        super().lose_folder(index)
        if index in self.raft.on_host:
            host = self.hosts[index]
            self.raft.lose_disk(host, MemberId(uuid_text(host.profile.node_id), "a"))

    def _boot(self, host: SimulatedHost, identity: MemberIdentity, random: Random) -> Plays:
        profile = Profile(host.profile.node_id, host.profile.name, host.profile.address, DESCRIBED)
        owed, now = Owed(host.disk), self.now_at(host)
        owed.save(Save((WriteFile(GENERATION, str(identity.generation).encode()),), is_synced=True))
        local = LocalCatalog(now, self._settings_of(host), Random(random.getrandbits(64)))
        local.restore(now, registrations.load(host.disk))
        identity = MemberIdentity(profile, identity.generation)
        agent = client_agent(
            *(now, local, identity, self.settings, random), claims=self._claims, interner=self._interner
        )
        is_server = host.index in self.raft.on_host
        composite = ServerAgent(agent, self.raft.begin(host)) if is_server else agent
        host.core = player = Player(composite, agent, owed)
        content = host.disk.read(COPY)
        self._do(host, composite.start(now))
        if content is not None:
            self._do(host, composite.recall(now, decode_copy(content)))
        return player

    def _settings_of(self, host: SimulatedHost) -> AgentSettings:
        own_id, profile = uuid_text(host.profile.node_id), host.profile
        node = Node(node_id=own_id, name=profile.name, address=profile.address.host, datacenter="dc1")
        return AgentSettings(node=node)

    # What agents ask of their hosts.

    def _do(self, host: SimulatedHost, effects: Sequence[Any]) -> None:
        super()._do(host, effects)
        if host.index in self.raft.on_host:
            self.raft.looked_at(host)

    def _tell(self, host: SimulatedHost, effect: ServerEffect) -> None:
        match effect:
            case Persist() | Save():
                self._write(host, effect)
            case RunCheck(check_id, run):
                status, output = self.outcomes.get((host.index, check_id), _passes)()
                wait_ns = host.random.randrange(RUN_NS_MIN, RUN_NS_MAX)
                self._later(host, wait_ns, CheckRan(check_id, run, status, output))
            case Reply():
                self._replied(effect)
            case AskMember():
                self._ask(host, effect)
            case AnswerMember(ticket, body):
                self._answers[host.index, ticket] = body
            case StopCheck() | Notify() | LogLine():
                pass
            case _ if isinstance(effect, OF_CONSENSUS):
                self.raft.carry_out(host, effect)
            case _:
                super()._tell(host, effect)

    def _ask(self, host: SimulatedHost, effect: AskMember) -> None:
        """A call: there in one turn of the network, back in another; to who is down or cut off it fails."""
        index = self._by_address.get(effect.to) if effect.to is not None else None
        target = self.hosts[index] if index is not None else None
        there_ns = self.network.turn_ns(host.index, target.index) if target is not None else None
        if target is None or there_ns is None or target.state is not State.RUNNING:
            self._later(host, ASK_TIMEOUT_NS, MemberAnswered(effect.ticket, None))
            return
        life = host.life
        self.call(self.now_ns + there_ns, lambda: self._answer(host, life, target, effect))

    def _answer(self, host: SimulatedHost, life: int, target: SimulatedHost, effect: AskMember) -> None:
        back_ns = self.network.turn_ns(target.index, host.index)
        body = None
        if target.state is State.RUNNING and back_ns is not None:
            self._tickets += 1
            asked = MemberAsked(self._tickets, host.profile.short, effect.method, effect.body)
            self.tell(target, asked)
            body = self._answers.pop((target.index, self._tickets), None)
        if host.life == life:
            self._later(host, back_ns or ASK_TIMEOUT_NS, MemberAnswered(effect.ticket, body))

    def _write(self, host: SimulatedHost, effect: Persist | Save) -> None:
        due_ns = self.now_ns + host.random.randrange(DISK_NS_MIN, DISK_NS_MAX)
        due_ns = max(due_ns, self._writes_until_ns.get(host.index, 0))
        self._writes_until_ns[host.index] = due_ns
        life = host.life

        def write() -> None:
            if host.life != life or not host.is_up:
                return
            owed = self.agent(host.index).owed
            outcome = owed.work_off(deque([effect]), retries=False)
            if outcome.unsaved:
                self.later(host, ROUND_NS, lambda: self._retry(host, owed))
            for ticket, problem in outcome.written:
                written = Persisted(ticket) if problem is None else NotPersisted(ticket, told(problem))
                self.act(host, life, partial(self.tell, host, written))

        self.call(due_ns, write)

    def _retry(self, host: SimulatedHost, owed: Owed) -> None:
        if owed.retry() is not None:
            self.later(host, ROUND_NS, lambda: self._retry(host, owed))

    def _later(self, host: SimulatedHost, wait_ns: int, message: Message) -> None:
        self.later(host, wait_ns, lambda: self.tell(host, message))


def _passes() -> CheckOutcome:
    return CheckStatus.PASSING, "fine"
