"""Servers that begin with nothing: they found a cluster by the code that ships, and take each other in.

On each host runs a process that is of no cluster at first, then a member of consensus; after a wipe the host
is somebody new. Gossip is a view that each process has of the others, which follows the truth late and is
sometimes wrong. Direct calls travel over the same links as messages.

What must hold beside the invariants of `raft_cluster`: only one cluster ever elects a leader; nobody founds
one while another server is of a different one, unless a wipe came in between; and no change of the membership
that a leader makes by itself leaves fewer voters that exist, or one who never learned, or takes a vote from
one that it knows to live, or that nobody replaced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, cast

from adsum.agent.server_agent import (
    ConsensusPart,
    ConsistentRead,
    LeaderAsked,
    LeadersRead,
    Proposal,
    ServerEffect,
)
from adsum.consensus import effects, reports
from adsum.consensus.bootstrap import AliveServer, ServerStanding, cluster_id_of
from adsum.consensus.commands import ProposeChange
from adsum.consensus.errors import Unavailable
from adsum.consensus.founding import FoundingCore
from adsum.consensus.taking_in import TakingInCore
from adsum.effects import AnsweredWith, LogLine, Reply
from adsum.frozen import dataclass
from adsum.gossip.settings import MemberIdentity
from adsum.now import MILLISECOND, SECOND, Now
from adsum.raft.changer import ConfigurationChange, changed
from adsum.raft.messages import Message
from adsum.raft.types import Configuration, MemberId
from adsum.storage.consent import read_consent, write_consent
from adsum.storage.log_jobs import FoundingJob
from adsum.testing.checkers import demand
from adsum.testing.fault_atlas import FaultAtlas
from adsum.testing.hosts import Plays, SimulatedHost
from adsum.testing.raft_cluster import CONDITIONS, SETTINGS, TURN_NS_MAX, RaftCluster
from adsum.testing.raft_server import OPERATIONS_OF_A_FOUNDING_JOB, RegisterMachine, SimulatedServer
from adsum.testing.world import World

SERVERS_MAX = 7
GOSSIP_NS = 200 * MILLISECOND
ADVICE = "remove the file `consent`"
JOIN_NS = SECOND // 2  # until the first attempt to join has ended, if there is somebody to ask
NEWS_COMES = 0.4  # the chance that a view of one server follows the truth, each time
DATACENTER = "dc1"
# So slow are loop and disk of a server that is of no cluster yet: accidents should come in between.
FOUNDING_TURN_NS_MAX, FOUNDING_DISK_NS_MAX = 60 * MILLISECOND, 40 * MILLISECOND
DISK_NS_MAX = 2 * MILLISECOND


@dataclass(frozen=True, slots=True)
class ChangeVotes(AnsweredWith[bytes]):
    """Of this server alone, if it leads."""

    change: ConfigurationChange


class ChangingPart(ConsensusPart):
    """Whose membership can be changed."""

    def command(
        self, now: Now, request: int, command: Proposal | ConsistentRead | LeadersRead | ChangeVotes
    ) -> list[ServerEffect]:
        if isinstance(command, ChangeVotes):
            return self._try(now, ProposeChange(command.change, request))
        return super().command(now, request, command)


class FoundingProcess:
    """A server's: a core that asks the others who they are, first to come into a cluster and then to take
    them in, and consensus as soon as there is a cluster."""

    def __init__(self, founding: FoundingCore, take_part: Callable[[], ConsensusPart], now: Now) -> None:
        self.view: dict[str, AliveServer] = {}  # what gossip tells it
        self.founding = founding  # of a member it goes on to say who it is
        self.asker: FoundingCore | TakingInCore = founding
        self.part: ChangingPart | None = None
        self._take_part = take_part
        self._become_member(now)

    def report(self, now: Now, message: Any) -> Sequence[Any]:
        if isinstance(message, reports.StandingAnswered | reports.ChangeEnded):
            return self.asker.report(now, cast("Any", message))
        if isinstance(message, reports.JoinTried):
            return self.founding.report(now, message)
        if self.part is not None:
            return self.part.receive(now, message)
        if isinstance(message, Message):
            return self.founding.receive(now, message)
        if isinstance(message, LeaderAsked):  # whom it was meant for is gone
            return ()
        wanted = self.founding.report(now, message)
        self._become_member(now)
        return wanted

    def submit(self, now: Now, request: int, command: Any) -> Sequence[Any]:
        assert self.part is not None, "it has clients only when it is a member"
        return self.part.command(now, request, command)

    def tick(self, now: Now) -> Sequence[Any]:
        wanted: list[Any] = [*self.asker.tick(now, list(self.view.values()))]
        return wanted if self.part is None else wanted + self.part.tick(now)

    def deadline(self) -> int | None:
        deadlines = (self.asker.deadline(), None if self.part is None else self.part.deadline())
        return min((each for each in deadlines if each is not None), default=None)

    def _become_member(self, now: Now) -> None:
        if self.founding.is_member:
            self.part = ChangingPart(self._take_part().core)
            self.asker = TakingInCore(self.part.core, now)


class FoundingWorld(World):
    def __init__(
        self, seed: int, *, servers: int, surplus: int = 0, bystanders: int = 0, is_traced: bool = False
    ) -> None:
        """`surplus` servers are started beside those that all of them expect, and `bystanders` that expect
        nothing."""
        super().__init__(SERVERS_MAX, seed=seed, conditions=CONDITIONS)
        self.raft = RaftCluster(
            self,
            settings=replace(
                SETTINGS,
                datacenter=DATACENTER,
                stable_s=1.0,
                snapshot_entries=50,  # soon there are snapshots, for newcomers too
                snapshot_interval_s=1.0,
                entries_kept=10,
            ),
            is_traced=is_traced,
        )
        self.raft.atlas = FaultAtlas(self._in_force)
        self.founded: dict[str, Configuration] = {}  # by cluster id, as soon as one server decided it
        self.rumours = 0.0  # the chance that gossip tells nonsense, each time
        self.cuts: tuple[type[FoundingJob], ...] = ()  # at which writes the power goes, every other time
        self.wipes = 0
        self._questions = 0
        self._taken_away: list[SimulatedServer] = []
        self._said: dict[int, str] = {}  # by each host, last
        self._asking: dict[int, Callable[[ServerStanding], None]] = {}  # whom an answer is for
        self.has_surplus = surplus > 0
        self.has_lost_logs = False  # more than a majority can do without
        self.expected, self._at_first = servers, servers + surplus
        for _ in range(self._at_first + bystanders):
            self.add()
        self.call(GOSSIP_NS, self._gossip)

    def add(self) -> None:
        """One more. The first expect founders, whoever comes later expects to be taken in."""
        host = self.hosts[len(self.raft.on_host)]
        self.raft.found([MemberId(f"n{host.index}", "a")], [host], voters=0)
        self.start(host.index)

    def wipe(self, server: SimulatedServer) -> None:
        """The disk is new, and so is whoever comes back."""
        self.raft.crash(server.me)
        self.wipes += 1
        stranger = MemberId(server.me.node, f"w{self.wipes}")
        self.raft.told("wipe", server.me, stranger)
        self.lose_folder(server.host.index)
        self.raft.lose_disk(server.host, stranger)

    def take_away(self, server: SimulatedServer) -> None:
        """For good, as an operator does who has started too many."""
        self.raft.told("taken away", server.me)
        self.raft.retire(server.me)
        del self.raft.on_host[server.host.index]
        self._taken_away.append(server)

    def follow_advice(self) -> None:
        """Who misses one that was taken away says what to do about it."""
        for server in self.there():
            if ADVICE in self._said.pop(server.host.index, "") and server.is_up:
                self.raft.told("consent removed", server.me)
                self.raft.crash(server.me)
                write_consent(server.store.disk, ())
                self.raft.boot(server.me)

    def process(self, host: SimulatedHost) -> FoundingProcess:
        """That runs there, or ran last."""
        return cast("FoundingProcess", host.core)

    def there(self) -> list[SimulatedServer]:
        """Up or down: who lives on the hosts now."""
        return list(self.raft.on_host.values())

    def founders_there(self) -> list[SimulatedServer]:
        """Those that expect founders."""
        return [server for server in self.there() if self._expect(server.host)]

    def clusters_held(self) -> list[str]:
        """On each disk; empty: none."""
        return [server.store.log.identity.cluster for server in self.there()]

    # Processes.

    def _boot(self, host: SimulatedHost, _identity: MemberIdentity, _random: Random) -> Plays:
        server = self.raft.on_host[host.index]
        server.begin()
        host.turn_ns_max, server.disk_ns_max = FOUNDING_TURN_NS_MAX, FOUNDING_DISK_NS_MAX
        opened, identity = server.store.opened, server.store.log.identity
        founding = FoundingCore(
            identity.member,
            identity.cluster,
            identity.epoch,
            opened.restored,
            RegisterMachine(lambda _entry: None),
            replace(self.raft.settings, expect=self._expect(host)),
            is_in_doubt=bool(opened.doubt),
            consent=read_consent(server.store.disk),
        )
        join_ns = self.random.choice((0, 0, JOIN_NS))
        self.later(host, join_ns, lambda: self.tell(host, reports.JoinTried()))
        process = FoundingProcess(founding, partial(self._take_part, server, founding), self.now_at(host))
        return cast("Plays", process)

    def _take_part(self, server: SimulatedServer, founding: FoundingCore) -> ConsensusPart:
        if not server.has_consensus:
            cluster_id, held = founding.standing(()).cluster_id, self.clusters_held()
            self.raft.told("member", server.me, cluster_id)
            is_only = all(each in ("", cluster_id) for each in held)
            demand(is_only or self.wipes > 0, f"{server.me} is of {cluster_id} beside {held}")
            self.raft.table.ended("founding", server.host.index)
        server.host.turn_ns_max, server.disk_ns_max = TURN_NS_MAX, DISK_NS_MAX
        server.store.opened = replace(server.store.opened, restored=founding.restored)
        part = self.raft.take_part(server.host)
        founding.follow(lambda: part.core.raft.replica.configuration)
        return part

    def _expect(self, host: SimulatedHost) -> int:
        return self.expected if host.index < self._at_first else 0

    def _do(self, host: SimulatedHost, wanted: Sequence[Any]) -> None:
        for effect in wanted:
            match effect:
                case Reply():
                    self._replied(effect)
                case effects.AskStanding():
                    self._ask(host, effect)
                case LogLine(_severity, sentence):
                    self._said[host.index] = sentence
                    self.raft.carry_out(host, effect)
                case effects.AnswerStanding(ticket, standing):
                    self._asking.pop(ticket)(standing)
                case effects.ChangeMembership(change):
                    self._change(host, change)
                case _:
                    if isinstance(effect, self.cuts) and self.random.random() < 0.5:
                        faults = self.raft.on_host[host.index].store.disk.faults
                        faults.crash_before = self.random.randrange(OPERATIONS_OF_A_FOUNDING_JOB)
                    if isinstance(effect, effects.WriteConsent):
                        what = "consent" if effect.nodes else "consent taken back"
                        self.raft.told(what, self.raft.on_host[host.index].me.node, *effect.nodes)
                    if isinstance(effect, effects.StoreFirstSnapshot):
                        self.raft.table.began("founding", host.index)
                        self._check_founding(host, effect.meta.configuration)
                    self.raft.carry_out(host, effect)
        if self.raft.on_host[host.index].takes_part:
            self.raft.looked_at(host)
        self._schedule(host)

    # What must hold of a founding, and of a change.

    def _check_founding(self, host: SimulatedHost, configuration: Configuration) -> None:
        cluster_id, node = cluster_id_of(configuration), self.raft.on_host[host.index].me.node
        self.raft.told("found", node, cluster_id)
        self.founded.setdefault(cluster_id, configuration)
        held = self.clusters_held()
        if self.wipes:
            return  # who alone has founded is lost
        demand(all(each in ("", cluster_id) for each in held), f"{node} founds {cluster_id} beside {held}")
        # With a surplus one set may be given up for another, as long as no disk holds what it founded.
        demand(len(self.founded) == 1 or self.has_surplus, f"{node} founds a second cluster")

    def _change(self, host: SimulatedHost, change: ConfigurationChange) -> None:
        server = self.raft.on_host[host.index]
        self.raft.told(
            "change", server.me.node, *(f"{step.verb.value} {step.member}" for step in change.steps)
        )
        before = server.raft.replica.configuration
        self.raft.table.began("taking in", host.index)

        def answered(reply: Reply) -> None:
            self.raft.table.ended("taking in", host.index)
            refusal = Unavailable(reply.refusal.sentence) if reply.refusal is not None else None
            self.tell(host, reports.ChangeEnded(change, refusal))

        request = self.submit(host, ChangeVotes(change), answered)
        if request not in self._waiting:
            return  # refused
        after = changed(before, change)
        if len(after.voters) < len(before.voters):  # a dead one is let go
            gone = [voter for voter in before.voters if voter not in after.voters]
            knows = any(self._knows_to_live(server, voter.node) for voter in gone)
            demand(not knows, f"{change} takes the vote of one that is known to live")
            founders = self.founded[server.raft.replica.stamp.cluster_id].voters
            is_replaced = len(after.voters) >= len(founders)  # for no run lasts until the dead go anyway
            demand(is_replaced, f"{change} takes a vote away, and nobody came in its place")
        else:
            fewer = self._existing(after) < self._existing(before)
            demand(not fewer, f"{change} leaves fewer voters that exist")
        has_learned = all(voter in before.members() for voter in after.voters)
        demand(has_learned, f"{change} gives a vote to who never learned")

    def _knows_to_live(self, leader: SimulatedServer, node: str) -> bool:
        """Whoever runs there now, the same as before or another, who is to take the vote over. A leader that
        has heard of nobody there yet may take it for dead: who comes back then is taken in."""
        if not self.raft.of_node(node).is_up:
            return False
        heard = [each.member.node for each in leader.raft.status().members if each.is_active]
        return node in self.process(leader.host).view or node in heard

    def _existing(self, configuration: Configuration) -> int:
        return sum(self.raft.of_node(voter.node).me == voter for voter in configuration.voters)

    def _check_only_cluster(self) -> None:
        """Of all that ever had a leader, or could have one."""
        leaders = [self.raft.servers[me] for me in self.raft.invariants.leaders.values()]
        ids = list(dict.fromkeys(server.raft.replica.stamp.cluster_id for server in leaders))
        demand(len(ids) < 2, f"two clusters have elected a leader: {ids}")
        held = Counter(self.clusters_held())
        able = [each for each, first in self.founded.items() if 2 * held[each] > len(first.voters)]
        demand(len(able) < 2 or self.wipes > 0, f"two clusters could elect a leader: {able}")

    def _in_force(self) -> list[Configuration]:
        """What is founded and not led yet counts as well."""
        is_led = bool(self.raft.invariants.leaders)
        return [*self.raft.in_force(), *(() if is_led else self.founded.values())]

    # Calls and gossip.

    def _ask(self, host: SimulatedHost, asked: effects.AskStanding) -> None:
        """Answered once, in time or not at all."""
        target, life = self.raft.of_node(asked.node).host, host.life
        process = self.process(host)
        asker, is_over = process.asker, False

        def come_back(standing: ServerStanding | None) -> None:
            nonlocal is_over
            if not is_over and process.asker is asker:
                is_over = True
                self.tell(host, reports.StandingAnswered(asked.ticket, standing))

        def answer() -> None:
            answering = self.process(target)
            alive = list(answering.view.values())
            self._questions += 1
            self._asking[self._questions] = send_back
            self._do(target, answering.founding.answer(self._questions, asked.founders, alive))

        def send_back(standing: ServerStanding) -> None:
            back = partial(come_back, standing)
            for delay_ns in self.network.delays_ns(target.index, host.index)[:1]:
                self.call(self.now_ns + delay_ns, lambda: self.act(host, life, back))

        for delay_ns in self.network.delays_ns(host.index, target.index)[:1]:
            self.call(self.now_ns + delay_ns, lambda: self.act(target, target.life, answer))
        self.later(host, int(effects.ASK_S * SECOND), partial(come_back, None))

    def _gossip(self) -> None:
        self._check_only_cluster()
        there = self.there()
        for host in [server.host for server in there if server.is_up]:
            view = self.process(host).view
            for other in (*there, *self._taken_away):
                if other.host is host:
                    continue
                ways_ns = self.network.exchange_ns(host.index, other.host.index)
                is_there = other.is_up and ways_ns is not None
                if self.random.random() < self.rumours:
                    is_there = not is_there
                if self.random.random() >= NEWS_COMES:
                    continue
                node = other.me.node
                if is_there:
                    view[node] = AliveServer(node, DATACENTER, self._expect(other.host))
                else:
                    view.pop(node, None)
        self.call(self.now_ns + GOSSIP_NS, self._gossip)
