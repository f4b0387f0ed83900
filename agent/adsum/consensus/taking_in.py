"""How a leader takes in servers that its cluster does not have yet, without I/O: those that gossip knows and
that say themselves, in a direct call, that they are of no cluster or of this one. And, when nobody comes, how
it lets go of those that left or died (`letting_go`).

    core.tick(now, alive)     -> effects        time has passed; `alive` is whom gossip knows now
    core.report(now, report)  -> effects        what became of an effect
    core.deadline()           -> int | None     when the next tick is wanted, in monotonic nanoseconds

A newcomer begins as learner and votes when it has been one for a while (Consul's autopilot: 10 s) and lacks
little of the log. A server whose disk was wiped or damaged comes back under another log id, as a newcomer;
its former self will never speak again, and leaves in the same change in which the new one gets its vote. So
the number of voters does not move, and no majority is ever counted with one who has forgotten. A former self
that never voted leaves when the newcomer begins to learn, or a server that is wiped again and again would use
up the membership. Who was removed by an operator is not taken in again, unless with another log.

One change a round, and only on the leader, newcomers first. What the core refused waits until all else that
is due was tried: nobody is kept out by another who cannot be promoted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from adsum.consensus import effects, reports
from adsum.consensus.bootstrap import AliveServer, ServerStanding, to_ask
from adsum.consensus.core import ConsensusCore
from adsum.consensus.letting_go import LettingGo
from adsum.effects import LogLine, Severity
from adsum.now import SECOND, Now
from adsum.raft.changer import ChangeVerb, ConfigurationChange, Step
from adsum.raft.types import Configuration, MemberId

INTERVAL_S = 1.0
CHANGE_NS = 10 * SECOND  # for one change to be in force; then it is looked at again

NOTHING: tuple[()] = ()


class TakingInCore:
    def __init__(
        self, core: ConsensusCore, now: Now, left: Callable[[], Collection[str]] = frozenset
    ) -> None:
        """`left`: the nodes of servers that said good-bye, as gossip knows now."""
        self._core = core
        self._left = left
        self._letting_go = LettingGo(
            removes_dead=core.settings.removes_dead, voters_min=core.settings.voters_min
        )
        self._stable_ns = int(core.settings.stable_s * SECOND)
        self._due_ns = 0
        self._learning_since_ns: dict[MemberId, int] = {}
        self._ticket = 0
        self._asked: dict[int, str] = {}  # who has not answered in this round
        self._answers: dict[str, ServerStanding] | None = None  # of this round; None: there is none
        self._changing: ConfigurationChange | None = None
        self._failed: list[ConfigurationChange] = []  # since all that is due was tried
        self._wait(now)

    def deadline(self) -> int | None:
        return None if self._asked else self._due_ns

    def tick(self, now: Now, alive: Sequence[AliveServer]) -> Sequence[effects.TakingInEffect]:
        due_ns = self.deadline()
        if due_ns is None or now.monotonic_ns < due_ns:
            return NOTHING
        if self._changing is not None:  # it took too long
            self._failed.append(self._changing)
            self._changing = None
        if not self._core.is_leader:
            self._learning_since_ns, self._answers, self._failed = {}, None, []
            self._letting_go.forget()
            return self._wait(now)
        if self._answers is None:
            return self._ask(alive)
        answers, self._answers = self._answers, None
        configuration = self._core.raft.replica.configuration
        standings = [answers[node] for node in sorted(answers)]
        due = due_changes(configuration, standings, self._ripe(now, configuration))
        alive_nodes = {server.node for server in alive}
        due += self._letting_go.due(now, self._core.raft.status(), alive_nodes, self._left())
        if not due:
            return self._wait(now)
        change = next((each for each in due if each not in self._failed), None)
        if change is None:
            change, self._failed = due[0], []
        self._changing = change
        self._due_ns = now.monotonic_ns + CHANGE_NS
        return [effects.ChangeMembership(change)]

    def report(self, now: Now, report: reports.TakingInReport) -> Sequence[effects.TakingInEffect]:
        match report:
            case reports.StandingAnswered(ticket, standing):
                self._take(self._asked.pop(ticket), standing)
                return NOTHING
            case reports.ChangeEnded(change, refusal):
                if change is not self._changing:
                    return NOTHING
                self._changing = None
                if refusal is not None:
                    self._failed.append(change)
                self._wait(now)
                return [LogLine(Severity.INFO, _said(change, refusal))]

    # Inside.

    def _ask(self, alive: Sequence[AliveServer]) -> Sequence[effects.TakingInEffect]:
        self._answers = {}
        me, datacenter = self._core.raft.replica.me, self._core.settings.datacenter
        for server in to_ask(me.node, datacenter, alive):
            self._ticket += 1
            self._asked[self._ticket] = server.node
        return [effects.AskStanding(ticket, node) for ticket, node in self._asked.items()]

    def _take(self, node: str, standing: ServerStanding | None) -> None:
        """What may be of this cluster, and is who was asked."""
        if standing is None or self._answers is None or standing.member.node != node:
            return
        is_here = standing.datacenter == self._core.settings.datacenter
        if is_here and standing.cluster_id in ("", self._core.raft.replica.stamp.cluster_id):
            self._answers[node] = standing

    def _ripe(self, now: Now, configuration: Configuration) -> list[MemberId]:
        """Learners that have been that for long enough."""
        now_ns, since = now.monotonic_ns, self._learning_since_ns
        self._learning_since_ns = {each: since.get(each, now_ns) for each in configuration.learners}
        return [
            each for each, begun_ns in self._learning_since_ns.items() if now_ns - begun_ns >= self._stable_ns
        ]

    def _wait(self, now: Now) -> tuple[()]:
        self._due_ns = now.monotonic_ns + min(int(INTERVAL_S * SECOND), self._stable_ns)
        return NOTHING


def due_changes(
    configuration: Configuration, standings: Sequence[ServerStanding], ripe: Sequence[MemberId]
) -> list[ConfigurationChange]:
    """One for each server that needs one, and newcomers first."""
    if configuration.is_joint:
        return []
    learn, vote = ChangeVerb.LEARN, ChangeVerb.VOTE
    here = [each.member for each in standings if each.member not in configuration.removed]
    new = [member for member in here if member not in configuration.members()]
    changes = [_replacing(configuration.learners, Step(learn, member)) for member in new]
    promoted = [member for member in here if member in ripe]
    return changes + [_replacing(configuration.members(), Step(vote, member)) for member in promoted]


def _replacing(members: Sequence[MemberId], step: Step) -> ConfigurationChange:
    """With those of them who are former selves of the server."""
    former = [each for each in members if each.node == step.member.node and each != step.member]
    return ConfigurationChange((step, *(Step(ChangeVerb.LEAVE, each) for each in former)))


def _said(change: ConfigurationChange, refusal: Exception | None) -> str:
    if refusal is not None:
        return f"the membership was not changed: {refusal}"
    steps = ", ".join(f"{step.member.node} to {step.verb.value}" for step in change.steps)
    return f"the membership was changed: {steps}"
