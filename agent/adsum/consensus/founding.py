"""How a server that is of no cluster comes to belong to one, without I/O: it founds one with the others, or
one takes it in.

    core.receive(now, message)                    -> effects    another server said something
    core.report(now, report)                      -> effects    what became of an effect, or was heard
    core.tick(now, alive)                         -> effects    time has passed; `alive` is whom gossip knows
    core.deadline()                               -> int | None when the next tick is wanted
    core.answer(ticket, founders, alive)          -> effects    another server asks who we are

Founding writes the first snapshot (the membership and an empty state) and then the cluster's id, which is the
snapshot's hash: a start between the two finishes it. Being taken in is a message of a leader that is
addressed to this very log, whose id was drawn at random: the leader got it from us, when it asked who we are.

A candidate that addresses this log has founded with us, and before us. It is asked who the founders are, and
we found the same: a vote of ours without the membership would leave it on one disk only. Where the voters
have changed since, the membership is on the disks of others, and the cluster's id is enough.

What must never be: two clusters, founded by two sets of servers that have a server in common, unless all that
they have in common lost their disks in between. So

1. Who founds with a set has asked all others in it, in one round, and each has consented: said that it is
   empty and sees this very set.
2. A consent is on disk before it is given, and binds the server to that set. It neither consents to
   another nor begins a round with another until it has taken the consent back. A server in a round is
   bound likewise, in memory: a round that a crash ends founds nothing.
3. A consent is taken back when each server of its set has said, in a direct call that began after the last
   consent was given, that it is empty and in no round. Then each round that this consent was for has ended,
   and founded nothing. Consents given meanwhile make what was heard worthless.

Let f found with S, and g with T, and let x be in both, and consent to f first. Between the two consents x
took the first one back. When f told it that it is empty and in no round, the round of f that the consent was
for was over: f founded nothing by it. If x is f or g itself, its round stands for its consent.

That the others are not *bound* to the set is not asked for: they could wait for each other for ever. Their
consents harm nobody, as each founding needs that of all. Rule 3 asks twice, and not only those who may be in
a round: one that has told another of its founding, and was wiped, comes back empty; between its last word and
its first the other had the time to answer as if it knew of nothing. If one of the set never answers, no
server can know what it has founded: the operator says that it is gone (`bootstrap.unsettled`).

What the others say in one round of asking is believed only while it is fresh: of a server that was wiped
meanwhile, one may have heard the former self, and founded with it, while we hear the new one.

Nothing is founded before the first attempt to join has ended: until then gossip knows nobody, and a server
that expects one would found at once, beside the cluster it was told to join.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from adsum.consensus import effects, reports
from adsum.consensus.bootstrap import (
    AliveServer,
    KeepWaiting,
    ServerStanding,
    bystanders,
    cluster_id_of,
    counted_on_in,
    decide,
    hindrance,
    seen,
    unsettled,
    with_us,
)
from adsum.consensus.machine import StateMachine
from adsum.consensus.settings import ServerSettings
from adsum.effects import LogLine, Severity
from adsum.now import SECOND, Now
from adsum.raft.messages import FromLeader, Message, MessageStamp
from adsum.raft.types import BOOTSTRAP_INDEX, Configuration, MemberId, Restored, bootstrap

INTERVAL_NS = SECOND // 2
FRESH_NS = SECOND // 2  # a round that took longer, by a slow answer or a pause, is of the past
ROUNDS_TO_TAKE_BACK = 2
QUESTIONS_MAX = 64  # that wait for one write

NOTHING: tuple[()] = ()


@dataclass(slots=True)
class AskingRound:
    """In which others are asked who they are: to found with them, or with whom one of them has founded, or
    whether a consent can be taken back."""

    begun_ns: int
    founders: tuple[str, ...] = ()
    takes_back: bool = False
    asked: dict[int, str] = field(default_factory=dict)  # who has not answered
    answers: dict[str, ServerStanding | None] = field(default_factory=dict)


class FoundingCore:
    """Until there is a cluster nobody else writes the log. Afterwards it says who we are."""

    def __init__(
        self,
        me: MemberId,
        cluster_id: str,
        epoch: int,
        restored: Restored,
        machine: StateMachine,
        settings: ServerSettings,
        *,
        is_in_doubt: bool,
        consent: tuple[str, ...] | None,
    ) -> None:
        """`cluster_id` and `epoch` as the log has them; `is_in_doubt` if the log was damaged. `consent` as
        the disk has it: with which nodes; None if that cannot be read."""
        self.restored = restored  # what consensus begins with
        self._me = me
        self._cluster_id = cluster_id
        self._epoch = epoch
        self._machine = machine
        self._settings = settings
        self._is_in_doubt = is_in_doubt
        self._due_ns = 0  # at once
        self._adopted: MessageStamp | None = None
        self._candidate = ""  # who has founded a cluster with us
        self._is_storing = False
        self._ticket = 0
        self._round: AskingRound | None = None
        self._has_tried_to_join = False
        self._consent = consent
        self._written: tuple[str, ...] = ()  # by this process: what was read may yet be lost with the power
        self._writing: tuple[str, ...] | None = None
        self._unanswered: list[tuple[int, tuple[str, ...], Sequence[AliveServer]]] = []  # until it is written
        self._rounds_taken_back = 0  # one after the other, in which nothing spoke against it
        self._said = ""
        self._present: Callable[[], Configuration] = lambda: self.restored.snapshot.configuration

    @property
    def is_member(self) -> bool:
        return bool(self._cluster_id)

    @property
    def waits_for(self) -> str:
        """Why there is no cluster yet."""
        return self._said

    def follow(self, present: Callable[[], Configuration]) -> None:
        """Consensus runs, and this is its membership."""
        self._present = present

    def standing(self, alive: Sequence[AliveServer]) -> ServerStanding:
        """What is damaged may have held anything, and what is being stored counts already."""
        is_empty = self._has_nothing and not (self._is_in_doubt or self._is_storing or self._adopted)
        settings, present = self._settings, self._present()
        # After a quorum was lost and recovered, the founding is of the past: nobody is to complete it.
        is_told = self.is_member and self._epoch == 0
        voters = dict.fromkeys((*present.voters, *present.voters_outgoing)) if is_told else ()
        return ServerStanding(
            self._me,
            settings.datacenter,
            settings.expect,
            self._cluster_id,
            is_empty,
            tuple(sorted(voters)),
            seen(AliveServer(self._me.node, settings.datacenter, settings.expect), alive),
            is_asking=self._round is not None and not self._round.takes_back,
        )

    def answer(
        self, ticket: int, founders: tuple[str, ...], alive: Sequence[AliveServer]
    ) -> Sequence[effects.FoundingEffect]:
        """To who would found with these nodes; none: to who asks for another reason. A consent is answered
        when it is on disk."""
        standing = self.standing(alive)
        if not founders or not standing.is_empty:
            return [effects.AnswerStanding(ticket, standing)]
        if self._writing is not None and len(self._unanswered) < QUESTIONS_MAX:
            self._unanswered.append((ticket, founders, alive))
            return NOTHING
        if self._writing is not None or self._is_bound_to_others(founders):
            return [effects.AnswerStanding(ticket, replace(standing, is_empty=False))]
        if standing.sees != founders:  # it is no consent
            return [effects.AnswerStanding(ticket, standing)]
        self._rounds_taken_back = 0
        if self._round is not None and self._round.takes_back:
            self._round = None
        if self._written == founders:
            return [effects.AnswerStanding(ticket, standing)]
        self._unanswered.append((ticket, founders, alive))
        return self._write_consent(founders)

    def deadline(self) -> int | None:
        """None while it waits for answers or the disk, and when there is nothing more to do."""
        is_waiting = self._is_storing or self._writing is not None
        is_asking = self._round is not None and bool(self._round.asked)
        return None if self.is_member or is_waiting or is_asking else self._due_ns

    # The verbs.

    def receive(self, now: Now, message: Message) -> Sequence[effects.FoundingEffect]:
        is_for_us = message.target == self._me and bool(message.stamp.cluster_id)
        if not is_for_us or self.is_member or self._is_storing:
            return NOTHING
        if isinstance(message, FromLeader) and (self._has_nothing or self._returns_to(message.source)):
            self._adopted = message.stamp
            self._round = None
        elif self._has_nothing:
            self._candidate = message.source.node
        else:
            return NOTHING
        self._due_ns = now.monotonic_ns
        return NOTHING

    def report(self, now: Now, report: reports.FoundingReport) -> Sequence[effects.FoundingEffect]:
        match report:
            case reports.StandingAnswered(ticket, standing):
                if self._round is not None and ticket in self._round.asked:
                    self._round.answers[self._round.asked.pop(ticket)] = standing
                return NOTHING
            case reports.JoinTried():
                self._has_tried_to_join = True
                return NOTHING
            case reports.ConsentWritten(nodes):
                self._consent = self._written = nodes
                return self._answer_all()
            case reports.FoundingFoundNoRoom(reason) if self._writing is not None:
                return self._do_without_writing(now, reason)
            case reports.StoringFailed(reason):
                sentence = f"{reason}, while this server came into a cluster; this process ends"
                return [effects.ServerBroken(sentence)]
        self._is_storing = False
        match report:
            case reports.FirstSnapshotStored(meta):
                self.restored = Restored(snapshot=meta)
                self._due_ns = now.monotonic_ns
            case reports.FoundingFoundNoRoom(reason):
                self._due_ns = now.monotonic_ns + INTERVAL_NS
                return [_said_no_room(reason)]
            case reports.ClusterIdWritten(cluster_id):
                self._cluster_id = cluster_id
                return [LogLine(Severity.INFO, self._joined(cluster_id))]
        return NOTHING

    def tick(self, now: Now, alive: Sequence[AliveServer]) -> Sequence[effects.FoundingEffect]:
        due_ns = self.deadline()
        if due_ns is None or now.monotonic_ns < due_ns:
            return NOTHING
        if self.restored.snapshot.index == BOOTSTRAP_INDEX:  # founded, and not said of which cluster
            return self._store(effects.WriteClusterId(cluster_id_of(self.restored.snapshot.configuration), 0))
        if self._adopted is not None:
            return self._store(effects.WriteClusterId(self._adopted.cluster_id, self._adopted.epoch))
        if self._round is not None:
            return self._conclude(now, self._round, alive)
        if self._candidate:
            return self._ask(AskingRound(now.monotonic_ns), [self._candidate])
        standing = self.standing(alive)
        reason = hindrance(standing, alive)
        if reason is None and not self._has_tried_to_join:
            reason = "the first attempt to join is still under way"
        if reason is None and self._consent is None:
            reason = (
                "with whom this server agreed to found one cannot be read: it waits to be taken in; where "
                "there is no cluster, stop it and remove the file `consent` beside its log"
            )
        if reason is not None or self._consent is None:
            return self._wait(now, reason or "")
        if self._consent not in ((), standing.sees):
            return self._ask(AskingRound(now.monotonic_ns, takes_back=True), self._consent)
        beside = bystanders(self._me.node, self._settings.datacenter, alive)
        return self._ask(
            AskingRound(now.monotonic_ns, standing.sees), [*standing.sees, *(each.node for each in beside)]
        )

    # Inside.

    @property
    def _has_nothing(self) -> bool:
        return self.restored.snapshot.index == 0 and not self.restored.entries

    def _returns_to(self, leader: MemberId) -> bool:
        """Damage may have cost the log its cluster's name. Log ids are drawn at random, so a leader that is
        in its membership proves that what is left of it is of this cluster."""
        return self._is_in_doubt and leader in self.restored.snapshot.configuration.members()

    def _is_bound_to_others(self, founders: tuple[str, ...]) -> bool:
        in_round = self._round.founders if self._round is not None else ()
        return in_round not in ((), founders) or self._consent not in ((), founders)

    def _write_consent(self, nodes: tuple[str, ...]) -> Sequence[effects.FoundingEffect]:
        self._writing = nodes
        return [effects.WriteConsent(nodes)]

    def _answer_all(self) -> list[effects.FoundingEffect]:
        """Who waited for the write."""
        self._writing = None
        waiting, self._unanswered = self._unanswered, []
        return [effect for each in waiting for effect in self.answer(*each)]

    def _do_without_writing(self, now: Now, reason: str) -> Sequence[effects.FoundingEffect]:
        """No consent is given. One that was to be taken back may stay on the disk, and harms nobody there."""
        if not self._writing:
            self._consent = ()
        self._written, self._writing = (), None
        waiting, self._unanswered = self._unanswered, []
        self._due_ns = now.monotonic_ns + INTERVAL_NS
        refusals = [
            effects.AnswerStanding(ticket, replace(self.standing(alive), is_empty=False))
            for ticket, _founders, alive in waiting
        ]
        return [*refusals, _said_no_room(reason)]

    def _ask(self, round_: AskingRound, nodes: Sequence[str]) -> Sequence[effects.FoundingEffect]:
        self._round = round_
        for node in [each for each in nodes if each != self._me.node]:
            self._ticket += 1
            round_.asked[self._ticket] = node
        return [
            effects.AskStanding(ticket, node, round_.founders if node in round_.founders else ())
            for ticket, node in round_.asked.items()
        ]

    def _conclude(
        self, now: Now, round_: AskingRound, alive: Sequence[AliveServer]
    ) -> Sequence[effects.FoundingEffect]:
        self._round = None
        if round_.takes_back:
            return self._take_back(now, round_.answers)
        self._candidate = ""
        found = with_us(self._me, round_.answers.values())
        cluster_id = counted_on_in(self._me, round_.answers.values())
        if found is None and cluster_id:
            return self._store(effects.WriteClusterId(cluster_id, 0))
        if found is None:
            standing = self.standing(alive)
            decision = decide(standing, alive, round_.answers)
            if isinstance(decision, KeepWaiting):
                return self._wait(now, decision.reason)
            if standing.sees != round_.founders:  # those have consented, and nobody else
                return self._wait(now, "gossip knows of other servers than before the others were asked")
            if now.monotonic_ns - round_.begun_ns > FRESH_NS:
                return self._wait(now, "the answers of the others took too long")
            found = decision
        meta = bootstrap(found.configuration)
        return self._store(effects.StoreFirstSnapshot(meta, self._machine.snapshot()))

    def _take_back(
        self, now: Now, answers: Mapping[str, ServerStanding | None]
    ) -> Sequence[effects.FoundingEffect]:
        reason = unsettled(self._me, self._consent or (), answers)
        if reason is not None:
            self._rounds_taken_back = 0
            return self._wait(now, reason)
        self._rounds_taken_back += 1
        self._due_ns = now.monotonic_ns
        if self._rounds_taken_back < ROUNDS_TO_TAKE_BACK:
            return NOTHING
        self._rounds_taken_back = 0
        return self._write_consent(())

    def _store(
        self, job: effects.StoreFirstSnapshot | effects.WriteClusterId
    ) -> Sequence[effects.FoundingEffect]:
        self._is_storing = True
        return [job]

    def _wait(self, now: Now, reason: str) -> Sequence[effects.FoundingEffect]:
        """Each reason is said once."""
        self._due_ns = now.monotonic_ns + INTERVAL_NS
        before, self._said = self._said, reason
        return [LogLine(Severity.INFO, f"no cluster yet: {reason}")] if reason != before else NOTHING

    def _joined(self, cluster_id: str) -> str:
        if self._adopted is not None:
            return f"this server was taken in by cluster {cluster_id}"
        founders = self.restored.snapshot.configuration.voters
        if not founders:
            return f"this server has a vote in cluster {cluster_id}"
        return f"cluster {cluster_id} was founded by {', '.join(member.node for member in founders)}"


def _said_no_room(reason: str) -> LogLine:
    return LogLine(Severity.ERROR, f"no cluster yet: {reason}; free some space")
