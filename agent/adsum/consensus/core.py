"""One server of consensus around the core of raft, without I/O and without a clock: the disk's groups, the
state machine, who waits for an answer, snapshots, room, and time after a pause.

    core.receive(now, message) -> effects        another server said something
    core.command(now, request) -> effects        somebody here wants something; what is refused raises
    core.report(now, report)   -> effects        what became of an effect, and what the world says by itself
    core.tick(now)             -> effects        time has passed
    core.deadline()            -> int | None     when the next tick is wanted, in monotonic nanoseconds

What comes in between two ticks gathers; a tick takes the batches of all of it, so that a hundred proposals
are one group on the disk and one message to each follower. After anything came in of which something may
come the deadline is now. Whoever calls does so once a round of its loop.

What a leader sends leaves before it is stored here, so its disk and the network work side by side. The duties
towards the core of raft are those listed in `adsum.raft.batch`. At most so many entries are applied in one
tick; when there are more, the deadline is now.

A disk that fails ends the process: `ServerBroken` is the last effect that counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from adsum.consensus import commands, reports
from adsum.consensus.compaction import Compaction
from adsum.consensus.comparing import Comparing
from adsum.consensus.counters import ConsensusCounters
from adsum.consensus.effects import (
    AnswerRequests,
    AppliedTo,
    BringSnapshot,
    ConsensusEffect,
    HandedOver,
    SendMessage,
    ServerBroken,
    Turned,
)
from adsum.consensus.errors import DiskIsFull, OutcomeUnknown, StateDiffers, Stopping
from adsum.consensus.installing import Installing
from adsum.consensus.machine import StateMachine
from adsum.consensus.pace import Pace
from adsum.consensus.proposing import Proposing
from adsum.consensus.raising_level import RaisingLevel
from adsum.consensus.requests import HeldRequest, HeldRequests
from adsum.consensus.room import LogRoom
from adsum.consensus.settings import ServerSettings
from adsum.consensus.storing import Storing
from adsum.consensus.waiting import Answers, WaitingReads
from adsum.effects import LogLine, Severity
from adsum.now import MILLISECOND, SECOND, Now
from adsum.raft.batch import Batch, Soft
from adsum.raft.core import RaftCore
from adsum.raft.errors import NotLeader, RaftRefused
from adsum.raft.messages import Message, SnapshotOffer
from adsum.raft.types import Entry, EntryKind, MemberId, Role, SnapshotRef

APPLY_ENTRIES_MAX = 256  # in one tick; some milliseconds at most
COMMIT_NEWS_DELAY_NS = 3 * MILLISECOND  # a little longer than a round of proposals when they come without end

NOTHING: tuple[()] = ()
_kind_of = attrgetter("kind")


class LeadershipProof(NamedTuple):
    """The token of our own read after a pause."""

    pauses: int  # until then


class ConsensusCore:
    def __init__(
        self,
        raft: RaftCore,
        machine: StateMachine,
        settings: ServerSettings,
        *,
        newest: SnapshotRef | None,
        now: Now,
    ) -> None:
        """`newest` is the snapshot that the log on disk stands on, and the state machine with it."""
        now_ns = now.monotonic_ns
        self.raft = raft  # to look at
        self.machine = machine
        self.settings = settings
        self.counters = ConsensusCounters()
        self.storing = Storing(newest)
        self.pace = Pace(int(settings.tick_s * SECOND), now_ns)
        self.compaction = Compaction(self, now_ns)
        self.installing = Installing(self)
        self.room = LogRoom(self, now_ns)
        self.requests = HeldRequests(self)
        self.comparing = Comparing(self)
        self.level = RaisingLevel(self)
        self.soft = Soft(Role.FOLLOWER, None, raft.replica.term)
        self.proposing = Proposing(self)
        self.propose = self.proposing.propose
        self._proposals = self.proposing.waiting
        self.reads = WaitingReads()
        self.answers: Answers = []  # that leave with the next effects
        self._unapplied: deque[Entry] = deque()  # the core's window of what is being applied
        self._effects: list[ConsensusEffect] = []
        self._last_leader: MemberId | None = None
        self._now_ns = now_ns
        self._is_due = True
        self._news_ns: int | None = None  # when followers hear of a commit that no entries carried
        self._stop_ns: int | None = None  # how long leadership is being handed over
        self.is_stopping = False  # and takes nothing new
        self._failure = ""
        self._is_broken = False
        configuration = raft.replica.configuration
        if set(configuration.voters) == {raft.replica.me} and not configuration.voters_outgoing:
            raft.campaign()  # there is nobody else to wait for

    # To look at.

    @property
    def is_leader(self) -> bool:
        return self.raft.is_leader

    @property
    def leader(self) -> MemberId | None:
        return self.raft.replica.leader

    @property
    def applied(self) -> int:
        return self.raft.replica.log.applied

    @property
    def proposals_waiting(self) -> int:
        """For their entry to be applied here."""
        return len(self._proposals)

    @property
    def holds_reads(self) -> bool:
        """Nothing comes of a read before the question that is under way has its answer."""
        return self.reads.hold(self.raft, self._now_ns)

    def is_time_trusted(self, now: Now) -> bool:
        """For whoever would expire something by that time, perhaps the first after a pause (see `pace`)."""
        self._note(now)
        return self.pace.is_time_trusted

    def deadline(self) -> int | None:
        """None when nothing will come of it any more."""
        if self._is_broken:
            return None
        if self._is_due:
            return self._now_ns
        due_ns = min(self.pace.due_ns, self.compaction.due_ns, self.room.due_ns)
        for more_ns in (self._news_ns, self.requests.due_ns, self.compaction.let_go_ns, self.reads.late_ns):
            if more_ns is not None and more_ns < due_ns:
                due_ns = more_ns
        return due_ns

    # The verbs.

    def receive(self, now: Now, message: Message) -> Sequence[ConsensusEffect]:
        was_due = self._is_due
        self._note(now)
        self.raft.step(message)
        self._is_due = was_due or self._wants_turn
        return NOTHING

    def command(self, now: Now, request: commands.ConsensusCommand) -> Sequence[ConsensusEffect]:
        was_due, holds_reads = self._is_due, self.holds_reads
        self._note(now)
        match request:
            case commands.SubmitProposal(data, token, dedup):
                self.requests.begin(data, token, dedup, now.monotonic_ns)
            case commands.Propose(data, token, dedup, term, urgency):
                self.propose(data, token, dedup, term, urgency)
            case commands.SubmitRead(token):
                self.requests.begin(None, token, None, now.monotonic_ns)
                self._is_due = was_due or not holds_reads or self.requests.has_reads_to_send
            case commands.GiveUp(token):
                self.requests.give_up(token)
            case commands.ProposeChange(change, token):
                self.check_open()
                self._proposals.add(self.raft.propose_conf(change), token, self.answers)
            case commands.ProposeLevel(level, token):
                self.check_open()
                self._proposals.add(self.raft.propose_level(level), token, self.answers)
            case commands.ConfirmRead(token):
                self.confirm_read(token)
            case commands.TransferTo(target):
                self.raft.transfer(target)
            case commands.StopServing():
                self._stop()
        return self._taken() if self.answers or self._effects else NOTHING

    def report(self, now: Now, report: reports.ConsensusReport) -> Sequence[ConsensusEffect]:
        was_due = self._is_due
        self._note(now)
        match report:
            case reports.GroupStored():
                self._group_stored(report)
                wanted = self._taken()
                self._is_due = was_due or self._wants_turn
                return wanted
            case reports.GroupFoundNoRoom():
                self._group_found_no_room(report)
            case reports.DiskProgressed():
                self.raft.disk_progressed()
            case reports.StoringFailed(reason, during):
                self.fail(reason, during)
            case reports.SegmentPrepared(is_full):
                self.room.prepared(is_full=is_full)
            case reports.BallastSpent(is_spent):
                self.room.spent(is_spent=is_spent)
            case reports.SnapshotWritten():
                self.compaction.written(report)
                if not self.compaction.is_making:  # it was given up
                    self.room.snapshot_ended()
            case reports.SnapshotRecorded():
                self.compaction.recorded(report, self._now_ns)
                self.room.snapshot_ended()
            case reports.SnapshotFoundNoRoom(sentence):
                self.compaction.found_no_room(sentence, self._now_ns)
                self.room.snapshot_ended()
            case reports.SnapshotRead():
                self.installing.read(report)
            case reports.SnapshotUnreadable():
                self.installing.unreadable(report)
            case reports.SnapshotVerified():
                self.compaction.verified(report)
            case reports.SnapshotArrived(offer, ref):
                self.storing.note_snapshot(offer.snapshot, ref)
                self.raft.step(offer)
            case reports.BringingEnded(member, is_ok):
                self.raft.report_snapshot(member, is_ok=is_ok)
            case reports.LeaderAnswered(ticket, outcome):
                self.requests.answered(ticket, outcome, self._now_ns)
            case reports.NodeUnreachable(node):
                self._lost(node)
        return self._taken()

    def tick(self, now: Now) -> Sequence[ConsensusEffect]:
        self._note(now)
        now_ns, self._is_due = now.monotonic_ns, False
        if self._is_broken:
            return NOTHING
        if now_ns >= self.pace.due_ns:
            self._pass_tick(now)
        if now_ns >= self.compaction.due_ns:
            self.compaction.look(now_ns)
        if self.compaction.let_go_ns is not None and now_ns >= self.compaction.let_go_ns:
            self.compaction.let_go(now_ns)
        if now_ns >= self.room.due_ns:
            self.room.look(now_ns)
        self.requests.look(now_ns)
        tells_commits = self._news_ns is not None and now_ns >= self._news_ns
        if tells_commits:
            self._news_ns = None
        if self._failure:
            self._break()
        else:
            self._take_turn(tells_commits=tells_commits)
        return self._taken()

    def end(self) -> Sequence[ConsensusEffect]:
        """The process ends: whoever waits is told so."""
        self.proposing.turn_away(Stopping("this server stopped before it was answered"))
        self._proposals.end(OutcomeUnknown("this server stopped before it was answered"), self.answers)
        self.reads.end(Stopping("this server stopped before it was answered"), self.answers)
        self.requests.end(self.answers)
        return self._taken()

    # For the parts.

    def emit(self, effect: ConsensusEffect) -> None:
        self._effects.append(effect)

    def hand_over(self) -> MemberId | None:
        """To the voter that has most of the log, of those that were heard lately and can lead, if we do."""
        heir = self._heir() if self.is_leader else None
        if heir is None:
            return None
        try:
            self.raft.transfer(heir)
        except RaftRefused:  # a change of the membership took its vote meanwhile
            return None
        return heir

    def confirm_read(self, token: commands.Token) -> None:
        if not self.is_leader:
            raise NotLeader(f"the leader is {self.leader}")
        self.reads.add(token)

    def passed_by_snapshot(self, index: int) -> None:
        """The state machine stands on it now, without the entries before it."""
        self._unapplied.clear()
        self._proposals.passed(index, self.answers)
        self.counters.snapshots_installed += 1
        self.comparing.restored(index)
        self.requests.applied(index, self.answers)
        self.emit(AppliedTo(index))

    def stop_applying(self, why: str) -> None:
        """For good. Others can tell what became of what is in the log."""
        self.raft.stop_applying()
        self._unapplied.clear()
        self._proposals.end(OutcomeUnknown(why), self.answers)
        self.requests.stop_reading(StateDiffers(why), self.answers)
        self.reads.end(StateDiffers(why), self.answers)

    def fail(self, reason: str, during: str = "") -> None:
        """The process must end, for the first reason that there is."""
        sentence = f"{reason}, while {during}; this process ends"
        if not during:
            sentence = (
                f"{reason}. Nobody knows what the disk holds now, so this process ends; the next start reads "
                "what is truly there"
            )
        self._failure = self._failure or sentence

    # Commands.

    def _stop(self) -> None:
        self.is_stopping = True
        self._stop_ns = self._now_ns + int(self.settings.election_timeout_s * 2 * SECOND)
        self.hand_over()

    def check_open(self) -> None:
        if self.is_stopping:
            raise Stopping("this server is stopping")
        if not self.storing.has_room:
            self.counters.refused_full += 1
            raise DiskIsFull("the disk of this server has no room for more log; free some space there")

    # Reports.

    def _group_stored(self, report: reports.GroupStored) -> None:
        group = self.storing.stored(report.ticket)
        self._promise(group)
        if group[-1].install_snapshot is not None:
            self.installing.stored()
        if report.needs_segment and not self.storing.is_log_full:
            self.room.prepare()

    def _group_found_no_room(self, report: reports.GroupFoundNoRoom) -> None:
        self.storing.found_no_room(report.ticket)
        sentence = f"the log cannot grow: {report.reason}. Writes are refused until there is room"
        self.emit(LogLine(Severity.ERROR, sentence))

    def _lost(self, node: str) -> None:
        for member in self.raft.replica.configuration.members():
            if member.node == node:
                self.raft.report_unreachable(member)

    # Time.

    def _pass_tick(self, now: Now) -> None:
        self.pace.take(now.monotonic_ns)
        self.raft.tick(now)
        self.level.look()
        self.comparing.look()
        if self.pace.must_prove:
            self._prove_leadership()
        if self._stop_ns is not None:
            self.hand_over()

    def _prove_leadership(self) -> None:
        self.pace.is_proving = True
        try:
            self.confirm_read(LeadershipProof(self.pace.pauses))
        except RaftRefused as error:
            self.pace.proven(error, self.pace.pauses, is_leader=self.is_leader)

    # One turn: everything that came in becomes batches, and what is committed is applied.

    @property
    def _wants_turn(self) -> bool:
        """Something would come of one: of three servers the disk of one, and what the second follower says,
        is no news for a leader that has committed."""
        return bool(
            self.raft.wants_ready
            or self.storing.has_waiting
            or self._effects
            or self.answers
            or (self._news_ns is None and self.raft.owes_commit_news)
        )

    def _take_turn(self, *, tells_commits: bool) -> None:
        self.reads.take_turn(self.raft, self._now_ns, self.answers)
        self.requests.send_reads(self._now_ns, self.answers)
        if self.proposing.queue.count:
            self.proposing.admit()
        self._take_batches(tells_commits=tells_commits)
        if not self.raft.is_asking:  # the only voter is a quorum, and has answered
            self.reads.late_ns = None
        while (batch := self.storing.next_without_sync()) is not None:
            self._promise([batch])
            self._take_batches(tells_commits=tells_commits)
        group = self.storing.next_group()
        if group is not None:
            self.emit(group)
        self._apply()
        if not self.raft.owes_commit_news:  # entries brought it
            self._news_ns = None
        elif self._news_ns is None:
            self._news_ns = self._now_ns + COMMIT_NEWS_DELAY_NS
        if self._stop_ns is not None:
            self._look_whether_handed_over()
        self._is_due |= self.reads.lets_join

    def _take_batches(self, *, tells_commits: bool) -> None:
        while (batch := self.raft.ready(with_commit_news=tells_commits)) is not None:
            self.counters.batches += 1
            for message in batch.send_now:
                if type(message) is SnapshotOffer:
                    self._offer(message)
                else:
                    self._effects.append(SendMessage(message))
            self._unapplied.extend(batch.committed)
            # Once a change is applied, who leaves with it is sent nothing any more: it hears of it before.
            tells_commits |= EntryKind.CONFIGURATION in map(_kind_of, batch.committed)
            for read in batch.reads:
                self.reads.confirmed(read)
            if batch.soft is not None:
                self._turn(batch.soft)
            if batch.entries and self.is_leader:
                self.counters.entries_led += len(batch.entries)
            self.storing.add(batch)

    def _promise(self, group: Sequence[Batch]) -> None:
        """Everything in these batches is durable now."""
        for batch in group:
            self._effects += [SendMessage(message) for message in batch.send_after_store]
        self.raft.stored(group[-1].ticket)

    def _turn(self, soft: Soft) -> None:
        before, self.soft = self.soft, soft
        if soft.role is not Role.LEADER:
            self.reads.lost(self.answers)
            self.proposing.turn_away(NotLeader(f"the leader is {soft.leader}"))
        self.counters.turns[soft.role] += soft.role is not before.role
        if soft.leader not in (None, self._last_leader):
            self.counters.leader_changes += self._last_leader is not None
            self._last_leader = soft.leader
        if soft.level_missing and not before.level_missing:
            sentence = (
                f"the log goes on at apply level {soft.level_missing}, which this version does not know: "
                "nothing more is applied here until it is upgraded"
            )
            self.emit(LogLine(Severity.ERROR, sentence))
        if soft.refuses_appends and not before.refuses_appends:
            sentence = (
                "as much is stored here as may be of a log that this version cannot apply: nothing more is "
                f"taken until it is upgraded to one that knows apply level {soft.level_missing}"
            )
            self.emit(LogLine(Severity.ERROR, sentence))
        if soft.leader is not None and soft.leader != before.leader:
            self.requests.leader_turned(soft.leader.node, self._now_ns)
        self.emit(Turned(soft.role, soft.leader, soft.term, self.raft.turn))

    def _offer(self, offer: SnapshotOffer) -> None:
        ref = self.storing.ref_of(offer.snapshot)
        if ref is not None:
            self.emit(BringSnapshot(offer, ref))
        else:
            self.raft.report_snapshot(offer.target, is_ok=False)

    def _apply(self) -> None:
        count, answers = min(len(self._unapplied), APPLY_ENTRIES_MAX), self.answers
        if not count:
            self.reads.applied(self.applied, answers)
            return
        take, apply, applied = self._unapplied.popleft, self.machine.apply, self._proposals.applied
        entries = rest = [take() for _ in range(count)]
        # A hash ends no turn: whoever waits would be parted into two crowds, and stay so.
        while rest and rest[-1].index >= self.comparing.next_index:
            place = self.comparing.next_index - rest[0].index + 1
            for entry in rest[:place]:
                applied(entry, apply(entry), answers)
            self.comparing.reached()
            rest = rest[place:]
        for entry in rest:
            applied(entry, apply(entry), answers)
        entry = entries[-1]
        is_change = any(kind is not EntryKind.COMMAND for kind in set(map(_kind_of, entries)))
        self.raft.applied(entry.index)
        self.counters.entries_applied += count
        self.reads.applied(entry.index, answers)
        self.requests.applied(entry.index, answers)
        self.emit(AppliedTo(entry.index))
        self.compaction.look_at_size(self._now_ns)
        has_more = self._unapplied or self.raft.has_more_to_apply
        self._is_due = bool(is_change or has_more or self.proposing.queue.count)

    def _look_whether_handed_over(self) -> None:
        assert self._stop_ns is not None, "leadership is being handed over"
        if not self.is_leader or self._now_ns >= self._stop_ns or self._heir() is None:
            self._stop_ns = None
            self.emit(HandedOver())

    # Inside.

    def _note(self, now: Now) -> None:
        """Every verb begins with it."""
        self._is_due = True
        if now.monotonic_ns == self._now_ns:  # as in the thousand proposals of one round
            return
        self._now_ns = now.monotonic_ns
        stood_ns = self.pace.stood_still_ns(now.monotonic_ns)
        if stood_ns and not self._is_broken:
            self.raft.stood_still(stood_ns)
            self.emit(LogLine(Severity.WARN, f"this process stood still for {stood_ns / SECOND:.1f} s"))

    def _taken(self) -> list[ConsensusEffect]:
        if self.answers:
            answers, self.answers = self.answers, []
            told: Answers = []
            for answer in answers:
                token, outcome = answer
                if type(token) is HeldRequest:
                    self.requests.concluded(token, outcome, self._now_ns, told)
                elif type(token) is LeadershipProof:
                    self.pace.proven(outcome, token.pauses, is_leader=self.is_leader)
                else:
                    told.append(answer)
            if told:
                self._effects.append(AnswerRequests(told))
        effects, self._effects = self._effects, []
        return effects

    def _heir(self) -> MemberId | None:
        status = self.raft.status()
        others = [
            (member.match, member.member)
            for member in status.members
            if member.is_active
            and member.can_lead
            and member.member in status.configuration.voters
            and member.member != self.raft.replica.me
        ]
        return status.transferee or (max(others)[1] if others else None)

    def _break(self) -> None:
        """The others are told first, as far as that goes: the best of them need not wait to notice."""
        self.raft.store_failed()
        while (batch := self.raft.ready()) is not None:
            for message in batch.send_now:
                if type(message) is not SnapshotOffer:
                    self.emit(SendMessage(message))
        self._is_broken = True
        self.emit(ServerBroken(self._failure))
