"""Client agents in a simulated world of servers that keep keys: the core that asks servers, as it ships, on a
host with clocks of its own, and the calls between it and them.

An agent hears of the servers and of their leader late, and sometimes wrongly. Its calls are lost, come late
and meet a server that has been started again; a paused server finds them in its socket when it wakes, and so
does a paused agent what comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from adsum.address import Address
from adsum.agent import asking, tags
from adsum.agent.forwarding import HOLD_NS, Forwarding
from adsum.agent.known_servers import KnownServers
from adsum.agent.tags import Tags
from adsum.dedup import WriteNumbers
from adsum.effects import Save
from adsum.forwarded import cause_and_leader
from adsum.gossip.claims import Profile
from adsum.gossip.effects import MemberChanged
from adsum.gossip.evidence import ChangeCause, Evidence
from adsum.gossip.order import Departure, Rank, Standing
from adsum.kv import KeyCause, KeyRead, KeyWrite
from adsum.now import MILLISECOND, SECOND
from adsum.servers.agent_questions import AgentRefusal
from adsum.store_requests import StoreChange
from adsum.testing.checkers import demand
from adsum.testing.hosts import SimulatedHost

if TYPE_CHECKING:
    from adsum.testing.key_world import KeyWorld

BROKEN_NS_MIN, BROKEN_NS_MAX = 20 * MILLISECOND, SECOND  # until a broken line is noticed
GOSSIP_NS = 300 * MILLISECOND  # between two things that an agent hears
RUMOUR_SHARE = 0.03  # of what it hears, what is not so
ALIVE = Standing(1, Departure.NONE, 0, Rank.ALIVE)
DEAD = Standing(1, Departure.NONE, 0, Rank.DEAD)


class AgentProcess:
    """The verbs that the loop of the world uses."""

    def __init__(self, core: Forwarding) -> None:
        self.core = core
        self.report = core.receive
        self.tick = core.tick
        self.deadline = core.deadline


class AwaitsAgent(Protocol):
    """What somebody has asked of the process that runs now."""

    def lost(self) -> None:
        """It ended, and nobody answers."""


class KeyAgent:
    """One process after the other of one member."""

    def __init__(self, world: KeyWorld, host: SimulatedHost, random: Random) -> None:
        self.world = world
        self.host = host
        self.hold_ns = HOLD_NS
        self.rumour_share = RUMOUR_SHARE
        self.node_id = UUID(int=100 + host.index).bytes
        self.doubtful = 0  # writes of former processes of which a try may have been done
        self.joined = 0  # and watches that were asked once with others
        self.core: Forwarding
        self._random = random
        self._servers = KnownServers()
        self._calls: dict[int, AgentCall] = {}
        self._awaited: dict[AwaitsAgent, None] = {}

    def boot(self, random: Random) -> AgentProcess:
        self._servers, self._calls = KnownServers(), {}
        numbers = WriteNumbers(str(UUID(bytes=self.node_id)), self.host.generation)
        self.core = Forwarding(self._servers, {}, numbers, random, hold_ns=self.hold_ns)
        self.world.later(self.host, 1, self._hear)
        return AgentProcess(self.core)

    def kill(self) -> None:
        counters = self.core.counters
        self.doubtful, self.joined = self.doubtful + counters.doubtful, self.joined + counters.joined
        self.world.kill(self.host.index)
        awaited, self._awaited = self._awaited, {}
        for each in awaited:
            each.lost()

    # What clients ask.

    @property
    def is_up(self) -> bool:
        return self.host.is_up

    def ask(self, asked: KeyWrite | KeyRead | StoreChange, token: Callable[[Any], None]) -> None:
        if isinstance(asked, KeyRead):
            self._command(asking.ForwardRead(asked, token))
        else:
            self._command(asking.ForwardWrite(asked, token))

    def renew(self, session_id: str, token: Callable[[Any], None]) -> None:
        self._command(asking.ForwardRenewal(session_id, token))

    def give_up(self, token: Hashable) -> None:
        self._command(asking.GiveUpForwarded(token))

    def awaits(self, who: AwaitsAgent) -> None:
        self._awaited[who] = None

    def awaits_no_more(self, who: AwaitsAgent) -> None:
        self._awaited.pop(who, None)

    def _command(self, command: asking.ForwardCommand) -> None:
        """While it is paused, it waits in the socket."""
        self.world.act(self.host, self.host.life, partial(self._take, command))

    def _take(self, command: asking.ForwardCommand) -> None:
        self.world.perform(self.host, self.core.command(self.world.now_at(self.host), command))

    # What it wants done, and hears.

    def carry_out(self, effects: Sequence[asking.ForwardEffect]) -> None:
        for effect in effects:
            match effect:
                case asking.AskServer():
                    self._calls = {ticket: call for ticket, call in self._calls.items() if not call.is_over}
                    self._calls[effect.ticket] = AgentCall(self, effect)
                case asking.CancelAsk(ticket):
                    if ticket in self._calls:  # else its end waited for this process to wake up
                        self._calls[ticket].cancel()
                case asking.AnswerForwarded(token, outcome):
                    answered: Any = token
                    answered(outcome)
                case Save():
                    pass

    def receive(self, life: int, report: asking.ForwardReport) -> None:
        self.world.act(self.host, life, lambda: self.world.tell(self.host, report))

    def _hear(self) -> None:
        """Of one server, as it is; or of one that is gone or back, as it is not."""
        server = self._random.choice(list(self.world.raft.on_host.values()))
        is_so = self._random.random() >= self.rumour_share
        leads_in = 0
        if server.takes_part and server in self.world.raft.leaders():
            leads_in = server.raft.replica.term
        said = Tags(is_server=True, server_port=8300, leads_in_term=leads_in)
        node_id = UUID(server.me.node).bytes
        profile = Profile(node_id, server.me.node, Address("10.0.0.1", 8301), tags.encode(said))
        standing = ALIVE if server.is_up == is_so else DEAD
        self._servers.changed(MemberChanged(profile, None, standing, Evidence(ChangeCause.JOINED)))
        if self.core.has_news:
            self.world.tell(self.host, asking.ServersChanged())
        self.world.later(self.host, self._random.randrange(GOSSIP_NS), self._hear)


class AgentCall:
    """One question on its way to a server and back, or lost."""

    def __init__(self, agent: KeyAgent, asked: asking.AskServer) -> None:
        self.is_over = False
        self._agent = agent
        self._asked = asked
        self._life = agent.host.life
        self._world = agent.world
        self._random = agent.world.random
        self._target = self._world.server_of(asked.node_id)
        self._server_life = self._target.server.life
        self._begun: object = None
        self._network = self._world.network
        self._world.call(self._world.now_ns + asked.timeout_ns, lambda: self._break("no answer came in time"))
        delays_ns = self._delays_ns(self._here, self._there)
        if delays_ns:
            self._after(delays_ns[0], self._arrive)
        else:
            # What cannot be dialled is not sent; what is lost on a line that stands, may be.
            is_sent = not self._network.is_cut(self._here, self._there)
            self._break_soon("the line broke", is_sent=is_sent)

    def cancel(self) -> None:
        self.is_over = True
        for delay_ns in self._delays_ns(self._here, self._there)[:1]:
            self._after(delay_ns, self._give_up)

    @property
    def _here(self) -> int:
        return self._agent.host.index

    @property
    def _there(self) -> int:
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
        delays_ns = self._delays_ns(self._there, self._here)
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
        if is_gone or self._network.is_cut(self._here, self._there):
            self._break("the line broke")
        else:
            self._after(self._random.randint(BROKEN_NS_MIN, BROKEN_NS_MAX), self._watch)

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
        delay_ns = self._random.randint(BROKEN_NS_MIN, BROKEN_NS_MAX)
        self._after(delay_ns, lambda: self._break(why, is_sent=is_sent))

    def _break(self, why: str, *, is_sent: bool = True) -> None:
        self._report(asking.ServerUnreached(self._asked.ticket, is_sent, why))

    def _report(self, report: asking.ForwardReport) -> None:
        if not self.is_over:
            self.is_over = True
            self._agent.receive(self._life, report)
