"""How a server that is of no cluster comes to belong to one, without I/O: it founds one with the others, or
one takes it in.

    core.receive(now, message)          -> effects      another server said something
    core.report(now, report)            -> effects      what became of an effect
    core.tick(now, alive)               -> effects      time has passed; `alive` is whom gossip knows now
    core.deadline()                     -> int | None   when the next tick is wanted, in monotonic nanoseconds
    core.answer(now, founders, alive)   -> standing     another server asks who we are

Founding writes the first snapshot (the membership and an empty state) and then the cluster's id, which is the
snapshot's hash: a start between the two finishes it. Being taken in is a message of a leader that is
addressed to this very log, whose id was drawn at random: the leader got it from us, when it asked who we are.

A candidate that addresses this log has founded with us, and before us. It is asked who the founders are, and
we found the same: a vote of ours without the membership would leave it on one disk only. Where the voters
have changed since, the membership is on the disks of others, and the cluster's id is enough.

What the others say in one round of asking is believed only while it is fresh: of a server that was wiped
meanwhile, one may have heard the former self, and founded with it, while we hear the new one. And who says
that it is empty is bound for twice as long to the servers it said it to: it founds with no others, nor lets
others found with it, until the one who asked has founded or given up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from adsum.consensus import effects, reports
from adsum.consensus.bootstrap import (
    AliveServer,
    KeepWaiting,
    ServerStanding,
    cluster_id_of,
    counted_on_in,
    decide,
    hindrance,
    seen,
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
BOUND_NS = 2 * FRESH_NS

NOTHING: tuple[()] = ()


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
    ) -> None:
        """`cluster_id` and `epoch` as the log has them; `is_in_doubt` if the log was damaged."""
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
        self._asked: dict[int, str] = {}  # who has not answered in this round
        self._answers: dict[str, ServerStanding | None] | None = None  # of this round; None: there is none
        self._asked_ns = 0
        self._bound_to: tuple[str, ...] = ()  # the nodes that may found with this server, until then
        self._bound_until_ns = 0
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
        is_empty = self._has_nothing and not self._is_in_doubt and not self._is_storing
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
            seen(self._me.node, settings.datacenter, alive),
        )

    def answer(self, now: Now, founders: tuple[str, ...], alive: Sequence[AliveServer]) -> ServerStanding:
        """To who would found with these nodes; none: to who asks for another reason."""
        standing = self.standing(alive)
        if not founders or not standing.is_empty:
            return standing
        if self._is_bound_to_others(now, founders):
            return replace(standing, is_empty=False)
        if standing.sees == founders:  # else it is no consent
            self._bind(now, founders)
        return standing

    def deadline(self) -> int | None:
        """None while it waits for answers or the disk, and when there is nothing more to do."""
        return None if self.is_member or self._is_storing or self._asked else self._due_ns

    # The verbs.

    def receive(self, now: Now, message: Message) -> Sequence[effects.FoundingEffect]:
        is_for_us = message.target == self._me and bool(message.stamp.cluster_id)
        if not is_for_us or self.is_member or self._is_storing:
            return NOTHING
        if isinstance(message, FromLeader) and (self._has_nothing or self._returns_to(message.source)):
            self._adopted = message.stamp
            self._asked, self._answers = {}, None
        elif self._has_nothing:
            self._candidate = message.source.node
        else:
            return NOTHING
        self._due_ns = now.monotonic_ns
        return NOTHING

    def report(self, now: Now, report: reports.FoundingReport) -> Sequence[effects.FoundingEffect]:
        match report:
            case reports.StandingAnswered(ticket, standing):
                node = self._asked.pop(ticket, None)
                if node is not None and self._answers is not None:
                    self._answers[node] = standing
                return NOTHING
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
                return [LogLine(Severity.ERROR, f"no cluster yet: {reason}; free some space")]
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
        if self._answers is not None:
            return self._conclude(now, alive)
        if self._candidate:
            return self._ask(now, [self._candidate], ())
        standing = self.standing(alive)
        reason = hindrance(standing, alive)
        if reason is None and self._is_bound_to_others(now, standing.sees):
            reason = f"this server may be about to found one with {', '.join(self._bound_to)}"
        if reason is not None:
            return self._wait(now, reason)
        self._bind(now, standing.sees)
        return self._ask(now, [node for node in standing.sees if node != self._me.node], standing.sees)

    # Inside.

    @property
    def _has_nothing(self) -> bool:
        return self.restored.snapshot.index == 0 and not self.restored.entries

    def _returns_to(self, leader: MemberId) -> bool:
        """Damage may have cost the log its cluster's name. Log ids are drawn at random, so a leader that is
        in its membership proves that what is left of it is of this cluster."""
        return self._is_in_doubt and leader in self.restored.snapshot.configuration.members()

    def _is_bound_to_others(self, now: Now, founders: tuple[str, ...]) -> bool:
        return now.monotonic_ns < self._bound_until_ns and founders != self._bound_to

    def _bind(self, now: Now, founders: tuple[str, ...]) -> None:
        self._bound_to, self._bound_until_ns = founders, now.monotonic_ns + BOUND_NS

    def _ask(
        self, now: Now, nodes: Sequence[str], founders: tuple[str, ...]
    ) -> Sequence[effects.FoundingEffect]:
        self._answers, self._asked_ns = {}, now.monotonic_ns
        for node in nodes:
            self._ticket += 1
            self._asked[self._ticket] = node
        return [effects.AskStanding(ticket, node, founders) for ticket, node in self._asked.items()]

    def _conclude(self, now: Now, alive: Sequence[AliveServer]) -> Sequence[effects.FoundingEffect]:
        answers, self._answers, self._candidate = self._answers or {}, None, ""
        found = with_us(self._me, answers.values())
        cluster_id = counted_on_in(self._me, answers.values())
        if found is None and cluster_id:
            return self._store(effects.WriteClusterId(cluster_id, 0))
        if found is None:
            decision = decide(self.standing(alive), alive, answers)
            if isinstance(decision, KeepWaiting):
                return self._wait(now, decision.reason)
            if now.monotonic_ns - self._asked_ns > FRESH_NS:
                return self._wait(now, "the answers of the others took too long")
            found = decision
        meta = bootstrap(found.configuration)
        return self._store(effects.StoreFirstSnapshot(meta, self._machine.snapshot()))

    def _store(
        self, job: effects.StoreFirstSnapshot | effects.WriteClusterId
    ) -> Sequence[effects.FoundingEffect]:
        self._is_storing = True
        return [job]

    def _wait(self, now: Now, reason: str) -> Sequence[effects.FoundingEffect]:
        """Each reason is said once."""
        self._answers = None
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
