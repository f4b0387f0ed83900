"""Keys in a simulated world: servers with the store on their logs, and client agents with the core that asks
them, as both ship.

A client agent is somewhere in the network: at the place of a server, so that partitions have it on a side. It
hears of the servers and of their leader late, and sometimes wrongly. Its calls are lost, come late and meet a
server that has been started again; a paused server finds them in its socket when it wakes.

What the store changed is recorded by revision, from whichever server applied it first: all have to agree, and
no value may be written by two entries, for each is asked for once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from random import Random
from typing import Any
from uuid import UUID

import cbor2

from adsum.address import Address
from adsum.agent import asking, tags
from adsum.agent.forwarding import HOLD_NS, Forwarding
from adsum.agent.known_servers import KnownServers
from adsum.agent.server_agent import ConsistentRead, Proposal
from adsum.agent.tags import Tags
from adsum.consensus.commands import SubmitProposal, SubmitRead
from adsum.consensus.effects import Turned
from adsum.consensus.errors import OutcomeUnknown, Unavailable
from adsum.dedup import WriteNumbers
from adsum.effects import RefusalCause, Reply, Save
from adsum.forwarded import cause_and_leader
from adsum.gossip.claims import Profile
from adsum.gossip.effects import MemberChanged
from adsum.gossip.evidence import ChangeCause, Evidence
from adsum.gossip.order import Departure, Rank, Standing
from adsum.gossip.settings import MemberIdentity
from adsum.kv import KeyCause, KeyRead, KeyWrite
from adsum.leading import ConsensusFigures
from adsum.now import MILLISECOND, SECOND, Now
from adsum.raft.types import Entry, MemberId
from adsum.servers.agent_questions import AgentQuestions, AgentRefusal
from adsum.servers.keys import ServerKeys
from adsum.store.history import HistoryBounds
from adsum.store.machine import StoreMachine
from adsum.store.snapshot import StoreState
from adsum.testing.checkers import demand
from adsum.testing.clock import FIRST_WALL_MS
from adsum.testing.hosts import Plays, SimulatedHost
from adsum.testing.raft_cluster import SETTINGS, BareServers
from adsum.testing.raft_machine import Registers
from adsum.testing.raft_server import SimulatedServer

SERVERS = 3
BROKEN_NS_MIN, BROKEN_NS_MAX = 20 * MILLISECOND, SECOND  # until a broken line is noticed
GOSSIP_NS = 300 * MILLISECOND  # between two things that an agent hears
RUMOUR_SHARE = 0.03  # of what it hears, what is not so
HISTORY = HistoryBounds(changes_max=40, bytes_max=1 << 20)  # so that watchers fall behind it, too
ALIVE = Standing(1, Departure.NONE, 0, Rank.ALIVE)
DEAD = Standing(1, Departure.NONE, 0, Rank.DEAD)


class Written:
    """What the store changed, by revision."""

    def __init__(self) -> None:
        self.changes: dict[int, list[tuple[bytes, bytes | None]]] = {}
        self.revision_of: dict[bytes, int] = {}  # each value is written once

    def add(self, revision: int, changes: list[tuple[bytes, bytes | None]]) -> None:
        known = self.changes.setdefault(revision, changes)
        demand(known == changes, f"revision {revision} is {known} on one server and {changes} on another")
        for _key, value in changes:
            if value is not None:
                first = self.revision_of.setdefault(value, revision)
                demand(first == revision, f"{value!r} was written at {first} and again at {revision}")


class StoreOnLog:
    """The shipped store as a simulated server has it; index and digest are what the checkers look at."""

    def __init__(self, applied: Callable[[Entry], None], written: Written) -> None:
        self.registers = Registers()
        self.store = StoreMachine(bounds=HISTORY)
        self._applied = applied
        self._written = written

    def apply(self, entry: Entry) -> bytes:
        self.registers.see(entry)
        space = self.store.keyspaces[0]
        before = space.revision
        answer = self.store.apply(entry)
        space = self.store.keyspaces[0]
        if space.revision != before:
            changed = space.history.after(max(before, space.history.floor))
            values = [(change[1], change[3].value if change[3] is not None else None) for change in changed]
            self._written.add(space.revision, values)
        self._applied(entry)
        return answer

    def snapshot(self) -> Iterator[bytes]:
        head = self.registers.dump()
        return iter([cbor2.dumps([head, b"".join(self.store.snapshot())])])

    def read(self, pieces: Iterator[bytes]) -> tuple[Registers, StoreState | None]:
        content = b"".join(pieces)
        if not content:  # of a cluster that begins
            return Registers(), None
        head, state = cbor2.loads(content)
        return Registers(head), self.store.read(iter([state]))

    def restore(self, state: tuple[Registers, StoreState | None]) -> None:
        self.registers, store = state
        if store is not None:
            self.store.restore(store)

    def hash(self) -> bytes | None:
        return self.store.hash()


class KeyServer:
    """The keys of one life of a server. It `RunsConsensus`."""

    waits_for = "no leader is known here"
    behind_ms = 0
    figures: ConsensusFigures | None = None
    ticks: int | None = None  # each read is asked by itself

    def __init__(self, world: KeyWorld, server: SimulatedServer) -> None:
        self.server = server
        machine = server.state_machine
        assert isinstance(machine, StoreOnLog)
        self._world = world
        numbers = WriteNumbers(server.me.node, world.now.wall_ms)
        self.keys = ServerKeys(self, machine.store, numbers, lambda: world.now.wall_ms, _wake_all)
        self.questions = AgentQuestions(self, self.keys, lambda: world.now_ns / SECOND)

    @property
    def leader(self) -> MemberId | None:
        return self.server.core.leader

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
    def __init__(self, *, seed: int, is_traced: bool = False) -> None:
        self.written = Written()
        self.key_servers: dict[int, KeyServer] = {}  # by host
        super().__init__(
            SERVERS,
            seed=seed,
            settings=SETTINGS,
            is_traced=is_traced,
            make_machine=lambda applied: StoreOnLog(applied, self.written),
        )
        self.members = [MemberId(str(UUID(int=number + 1)), "a") for number in range(SERVERS)]
        self.raft.found(self.members, self.hosts, voters=SERVERS)
        for host in self.hosts:
            self.start(host.index)

    def _boot(self, host: SimulatedHost, identity: MemberIdentity, random: Random) -> Plays:
        plays = super()._boot(host, identity, random)
        self.key_servers[host.index] = KeyServer(self, self.raft.on_host[host.index])
        return plays

    def _do(self, host: SimulatedHost, effects: Sequence[Any]) -> None:
        super()._do(host, effects)
        server = self.key_servers[host.index]
        for effect in effects:
            if isinstance(effect, Turned):
                server.keys.turned(effect)
        if host.is_up:
            server.keys.applied()

    def server_of(self, node_id: bytes) -> KeyServer:
        return self.key_servers[self.raft.of_node(str(UUID(bytes=node_id))).host.index]


class KeyAgent:
    """A client agent: one process after the other of one member."""

    def __init__(self, world: KeyWorld, number: int, random: Random, *, hold_ns: int = HOLD_NS) -> None:
        self.world = world
        self.hold_ns = hold_ns
        self.random = random
        self.node_id = UUID(int=100 + number).bytes
        self.place = number % SERVERS  # in the network
        self.life = 0
        self.begin()

    def begin(self) -> None:
        """Another process; what the last one was asked is not answered any more."""
        self.life += 1
        self.servers = KnownServers()
        numbers = WriteNumbers(str(UUID(bytes=self.node_id)), FIRST_WALL_MS + self.life)
        seed = self.random.getrandbits(64)
        self.core = Forwarding(self.servers, {}, numbers, Random(seed), hold_ns=self.hold_ns)
        self._calls: dict[int, AgentCall] = {}
        self._alarm_ns = -1
        self._hear(self.life)

    def write(self, write: KeyWrite, token: Callable[[Any], None]) -> None:
        self._perform(self.core.command(self._now, asking.ForwardWrite(write, token)))

    def read(self, read: KeyRead, token: Callable[[Any], None]) -> None:
        self._perform(self.core.command(self._now, asking.ForwardRead(read, token)))

    def give_up(self, token: Hashable) -> None:
        self._perform(self.core.command(self._now, asking.GiveUpForwarded(token)))

    def receive(self, life: int, report: asking.ForwardReport) -> None:
        if life == self.life:
            self._perform(self.core.receive(self._now, report))

    @property
    def _now(self) -> Now:
        return self.world.now

    def _perform(self, effects: list[asking.ForwardEffect]) -> None:
        for effect in effects:
            match effect:
                case asking.AskServer():
                    self._calls = {ticket: call for ticket, call in self._calls.items() if not call.is_over}
                    self._calls[effect.ticket] = AgentCall(self, effect)
                case asking.CancelAsk(ticket):
                    self._calls[ticket].cancel()
                case asking.AnswerForwarded(token, outcome):
                    answered: Any = token
                    answered(outcome)
                case Save():
                    pass
        due_ns = self.core.deadline()
        if due_ns is not None and not self.world.now_ns < self._alarm_ns <= due_ns:
            self._alarm_ns = max(due_ns, self.world.now_ns + 1)
            life, at_ns = self.life, self._alarm_ns
            self.world.call(at_ns, lambda: self._tick(life, at_ns))

    def _tick(self, life: int, at_ns: int) -> None:
        if life == self.life and at_ns == self._alarm_ns:
            self._perform(self.core.tick(self._now))

    def _hear(self, life: int) -> None:
        """Of one server, as it is; or of one that is gone or back, as it is not."""
        if life != self.life:
            return
        server = self.random.choice(list(self.world.raft.on_host.values()))
        is_so = self.random.random() >= RUMOUR_SHARE
        leads_in = 0
        if server.takes_part and server in self.world.raft.leaders():
            leads_in = server.raft.replica.term
        said = Tags(is_server=True, server_port=8300, leads_in_term=leads_in)
        node_id = UUID(server.me.node).bytes
        profile = Profile(node_id, server.me.node, Address("10.0.0.1", 8301), tags.encode(said))
        standing = ALIVE if server.is_up == is_so else DEAD
        self.servers.changed(MemberChanged(profile, None, standing, Evidence(ChangeCause.JOINED)))
        if self.core.has_news:
            self.receive(life, asking.ServersChanged())
        self.world.call(self.world.now_ns + self.random.randrange(GOSSIP_NS), lambda: self._hear(life))


class AgentCall:
    """One question on its way to a server and back, or lost."""

    def __init__(self, agent: KeyAgent, asked: asking.AskServer) -> None:
        self.is_over = False
        self._agent = agent
        self._asked = asked
        self._life = agent.life
        self._world = agent.world
        self._target = self._world.server_of(asked.node_id)
        self._server_life = self._target.server.life
        self._begun: object = None
        self._network = self._world.network
        self._world.call(self._world.now_ns + asked.timeout_ns, lambda: self._break("no answer came in time"))
        delays_ns = self._delays_ns(agent.place, self._place)
        if delays_ns:
            self._after(delays_ns[0], self._arrive)
        else:
            # What cannot be dialled is not sent; what is lost on a line that stands, may be.
            is_sent = not self._network.is_cut(agent.place, self._place)
            self._break_soon("the line broke", is_sent=is_sent)

    def cancel(self) -> None:
        self.is_over = True
        for delay_ns in self._delays_ns(self._agent.place, self._place)[:1]:
            self._after(delay_ns, self._give_up)

    @property
    def _place(self) -> int:
        return self._target.server.host.index

    def _delays_ns(self, source: int, target: int) -> tuple[int, ...]:
        return self._network.delays_ns(source, target)

    def _after(self, delay_ns: int, action: Callable[[], None]) -> None:
        self._world.call(self._world.now_ns + delay_ns, action)

    # At the server.

    def _arrive(self) -> None:
        server = self._target.server
        if not server.takes_part or server.life != self._server_life:
            self._break_soon("its host refused the connection", is_sent=False)
            return
        self._world.raft.later(server, 0, self._begin)
        self._watch()

    def _begin(self) -> None:
        asked = self._asked
        self._begun = self._target.questions.begin(
            self._agent.node_id, asked.method, asked.body, self._answered
        )

    def _give_up(self) -> None:
        if self._target.server.life == self._server_life and self._begun is not None:
            self._target.questions.give_up(self._begun)

    def _answered(self, outcome: bytes | AgentRefusal) -> None:
        self._begun = None
        delays_ns = self._delays_ns(self._place, self._agent.place)
        if delays_ns:
            self._after(delays_ns[0], lambda: self._come_back(outcome))
        else:
            self._break_soon("the line broke", is_sent=True)

    def _watch(self) -> None:
        """Until it is over the line has to stand."""
        if self.is_over:
            return
        server = self._target.server
        is_gone = not server.is_up or server.life != self._server_life
        if is_gone or self._network.is_cut(self._agent.place, self._place):
            self._break("the line broke")
        else:
            self._after(self._agent.random.randint(BROKEN_NS_MIN, BROKEN_NS_MAX), self._watch)

    # Back at the agent.

    def _come_back(self, outcome: bytes | AgentRefusal) -> None:
        if isinstance(outcome, bytes):
            self._report(asking.ServerAnswered(self._asked.ticket, outcome))
            return
        cause, leader = cause_and_leader(outcome.code)
        assert cause is not None, "servers speak these codes"
        demand(cause is not KeyCause.FAILED or self._asked.method == "key.more", outcome.sentence)
        self._report(asking.ServerRefused(self._asked.ticket, cause, outcome.sentence, leader))

    def _break_soon(self, why: str, *, is_sent: bool) -> None:
        delay_ns = self._agent.random.randint(BROKEN_NS_MIN, BROKEN_NS_MAX)
        self._after(delay_ns, lambda: self._break(why, is_sent=is_sent))

    def _break(self, why: str, *, is_sent: bool = True) -> None:
        self._report(asking.ServerUnreached(self._asked.ticket, is_sent, why))

    def _report(self, report: asking.ForwardReport) -> None:
        if not self.is_over:
            self.is_over = True
            self._agent.receive(self._life, report)


def _wake_all(woken: list[Callable[[], None]]) -> None:
    for wake in woken:
        wake()
