"""Leading: one object per term led, gone when leadership is.

It appends what is proposed, keeps every follower's log moving towards its own, commits what a quorum holds,
and keeps asking whether a quorum still listens. Nothing is sent at the moment of proposing: `flush` runs
once per batch, so everything that was proposed while the disk was busy travels in one message per follower.

Only an entry of this term is committed by counting. An older one that a majority holds may still be replaced
(figure 8 of the paper); it becomes committed when one of ours behind it does.
"""

from __future__ import annotations

from collections.abc import Iterable

from adsum.dedup import DedupKey
from adsum.now import MILLISECOND
from adsum.raft.changer import LEAVE_JOINT, ChangeVerb, ConfigurationChange, changed, encode_configuration
from adsum.raft.errors import (
    ChangeRefused,
    LevelUnsupported,
    RaftRefused,
    TooLarge,
    TooManyReads,
    TooMuchUncommitted,
    Transferring,
)
from adsum.raft.messages import (
    Append,
    AppendRejected,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    Message,
    SnapshotOffer,
    TimeoutNow,
)
from adsum.raft.progress import Progress, ProgressMode
from adsum.raft.quorum import VoteOutcome, agreed, tally
from adsum.raft.reads import ReadRounds
from adsum.raft.replica import Replica
from adsum.raft.types import CLIENT_BYTES_MAX, NOT_JUDGED, Entry, EntryKind, MemberId, Position, StateHash


class Leader:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._log = replica.log
        self.reads = ReadRounds()
        self.transferee: MemberId | None = None
        self._ticks_to_heartbeat = 0  # the first leaves with the first batch
        self._ticks_to_check = replica.settings.election_ticks
        self._ticks_to_transfer = 0
        # Until everything here is applied, some change of the membership may be among it.
        self._configuration_index = self._log.last_index
        self._time_ahead_ms = self._log.last.time_ms - self._monotonic_ms
        self.progress: dict[MemberId, Progress] = {}
        replica.judged = NOT_JUDGED  # it is this leader's turn
        self._list_members()
        self._append(EntryKind.TERM_BEGIN, b"")
        self._heartbeat()

    @property
    def has_committed(self) -> bool:
        """Only then does it know what is committed."""
        return self._log.term_at(self._log.commit) == self._replica.term

    # Time.

    def tick(self) -> bool:
        """False when a quorum has been silent for an election timeout: whoever could replace us may have."""
        self._ticks_to_check -= 1
        self._ticks_to_heartbeat -= 1
        self._ticks_to_transfer -= 1
        if self._ticks_to_transfer <= 0:
            self.transferee = None
        if self._ticks_to_check <= 0:
            self._ticks_to_check = self._replica.settings.election_ticks
            if not self._hears_quorum():
                return False
        if self._ticks_to_heartbeat <= 0:
            self._heartbeat()
        self._leave_joint_if_due()
        return True

    def flush(self, *, with_commit_news: bool = True) -> None:
        """Everything that may be sent now; what is only news of a commit can ride with the next entries."""
        if self.reads.wants_round:
            self._begin_round(self._quickest_voters())
        for member, progress in self.progress.items():
            if member != self._replica.me:
                self._replicate(member, progress, with_commit_news=with_commit_news)

    @property
    def wants_flush(self) -> bool:
        """There may be something to send that is more than news of a commit."""
        if self.reads.wants_round:
            return True
        last_index, me = self._log.last_index, self._replica.me
        return any(
            member != me
            and (progress.must_send_append or (progress.next <= last_index and progress.can_send))
            for member, progress in self.progress.items()
        )

    @property
    def owes_commit_news(self) -> bool:
        """Somebody was not told yet how far all is committed, and can be."""
        commit, me = self._log.commit, self._replica.me
        return any(
            member != me and progress.commit_sent < commit and progress.can_send
            for member, progress in self.progress.items()
        )

    @property
    def awaited_index(self) -> int | None:
        awaited = [
            each.awaited_index for each in self.progress.values() if each.awaited_index and each.is_active
        ]
        return min(awaited, default=None)

    def stood_still(self, duration_ns: int) -> None:
        """The process did, and cluster time with it."""
        self._time_ahead_ms -= duration_ns // MILLISECOND

    # Proposals.

    def propose(self, data: bytes, dedup: DedupKey | None) -> Position:
        settings = self._replica.settings
        if self.transferee is not None:
            raise Transferring(f"leadership goes to {self.transferee}")
        if dedup is not None or len(data) > settings.entry_bytes_max:
            check_proposal(data, dedup, settings.entry_bytes_max)
        uncommitted_bytes = self._log.bytes_after(self._log.commit)
        if uncommitted_bytes and uncommitted_bytes + len(data) > settings.uncommitted_bytes_max:
            raise TooMuchUncommitted(f"{uncommitted_bytes} bytes are not committed yet")
        return self._append(EntryKind.COMMAND, data, dedup)

    def propose_change(self, change: ConfigurationChange) -> Position:
        if self.transferee is not None:
            raise Transferring(f"leadership goes to {self.transferee}")
        if not self.has_committed:
            raise ChangeRefused("nothing of this term is committed yet")
        if self._log.applied < self._configuration_index:
            raise ChangeRefused("the previous change is not applied yet")
        configuration = changed(self._replica.configuration, change)
        for step in change.steps:
            if step.verb is ChangeVerb.VOTE:
                self._check_may_vote(step.member)
        position = self._append(EntryKind.CONFIGURATION, encode_configuration(configuration))
        self._configuration_index = position.index
        return position

    def propose_level(self, level: int) -> Position:
        """From this entry on the log is written at the new level: nobody may be left who cannot apply it."""
        if self.transferee is not None:
            raise Transferring(f"leadership goes to {self.transferee}")
        if level <= self._log.last.apply_level:
            raise LevelUnsupported(f"level {self._log.last.apply_level} is in force; it only rises")
        if self._log.applied < self._configuration_index:
            raise LevelUnsupported("a change of the membership is not applied yet")
        for member, progress in self.progress.items():
            if progress.apply_level_max < level:
                raise LevelUnsupported(f"{member} applies up to level {progress.apply_level_max}")
        return self._append(EntryKind.APPLY_LEVEL, b"", level=level)

    def read(self, context: int) -> None:
        if len(self.reads) >= self._replica.settings.reads_pending_max:
            raise TooManyReads(f"{len(self.reads)} reads wait for a quorum")
        self.reads.ask(context, self._log.commit if self.has_committed else None)

    def ask_everybody(self) -> None:
        """Those who were asked about the reads keep silent."""
        if self.reads.is_under_way:
            self._begin_round(self.progress)

    # Leadership given away.

    def transfer(self, target: MemberId) -> None:
        """Proposals rest until the target has everything and takes over, or an election timeout passes."""
        progress = self.progress.get(target)
        if progress is None or target == self._replica.me or not self._replica.configuration.is_voter(target):
            raise RaftRefused(f"{target} is no other voter")
        if not progress.can_lead:
            raise RaftRefused(f"{target} still reads its state, or knows a lower apply level")
        if target == self.transferee:
            return
        self.transferee = target
        self._ticks_to_transfer = self._replica.settings.election_ticks
        progress.owes_append = True
        self._hand_over_if_ready(target, progress)

    def give_way(self) -> None:
        """We cannot go on: the best of the others should not have to wait until it notices."""
        self.flush()  # they learn what is committed, our removal perhaps
        candidates = [
            (progress.match, member)
            for member, progress in self.progress.items()
            if member != self._replica.me
            and progress.is_active
            and progress.can_lead
            and member in self._replica.configuration.voters
        ]
        if candidates:
            best_match = max(match for match, _member in candidates)
            self._hand_over(next(member for match, member in candidates if match == best_match))

    # What others say.

    def take(self, message: Message) -> None:
        progress = self.progress.get(message.source)
        if progress is None or message.source == self._replica.me:
            self._replica.counts.strangers += 1
            return
        match message:
            case AppendReply():
                self._take_reply(progress, message)
            case AppendRejected():
                self._take_rejection(progress, message)
            case HeartbeatReply():
                self._take_heartbeat_reply(progress, message)

    def acknowledge_own(self) -> None:
        """Our disk counts like any other, when it is done."""
        progress = self.progress.get(self._replica.me)
        if progress is not None and progress.acknowledged(self._log.stable, self._log.last_index):
            self._advance_commit()

    def configuration_changed(self) -> None:
        """A change was applied: other members, other quorums."""
        self._list_members()
        if self.transferee is not None and not self._replica.configuration.is_voter(self.transferee):
            self.transferee = None
        self._advance_commit()
        self._confirm_reads()
        self._leave_joint_if_due()

    def unreachable(self, member: MemberId) -> None:
        """A message was lost on the way: what was sent after it is in vain, too."""
        progress = self.progress.get(member)
        if progress is not None and progress.mode is ProgressMode.REPLICATE:
            progress.to_probe(progress.match + 1)

    def snapshot_ended(self, member: MemberId, *, is_ok: bool) -> None:
        """The driver brought it, or gave up. Then one probe, when the follower is next heard."""
        progress = self.progress.get(member)
        if progress is None or progress.mode is not ProgressMode.SNAPSHOT:
            return
        progress.to_probe(progress.snapshot_index + 1 if is_ok else progress.match + 1)
        progress.is_waiting = True

    # Inside.

    @property
    def _monotonic_ms(self) -> int:
        return self._replica.now.monotonic_ns // MILLISECOND

    def _list_members(self) -> None:
        replica, known = self._replica, self.progress
        self.progress = {}
        for member in replica.configuration.members():
            progress = known.get(member) or Progress(replica.settings, self._log.last_index + 1)
            if known and member not in known:
                progress.heard()  # it gets a full round before its silence counts
            self.progress[member] = progress
        own = self.progress.get(replica.me)
        if own is not None:
            own.heard()
            own.apply_level_max = replica.settings.apply_level_max
            own.acked_round = self.reads.round
            own.acknowledged(self._log.stable, self._log.last_index)

    def _append(
        self, kind: EntryKind, data: bytes, dedup: DedupKey | None = None, level: int | None = None
    ) -> Position:
        last, term = self._log.last, self._replica.term
        time_ms = max(last.time_ms, self._monotonic_ms + self._time_ahead_ms)
        entry = Entry(last.index + 1, term, kind, time_ms, level or last.apply_level, dedup, data)
        self._log.append(entry)
        return Position(entry.index, term)

    def _advance_commit(self) -> None:
        matches = {member: progress.match for member, progress in self.progress.items()}
        index = agreed(self._replica.configuration, matches)
        if index <= self._log.commit or not self._may_commit(index):
            return
        is_first = not self.has_committed
        self._log.commit_to(index)
        if is_first:
            self.reads.begin(index)

    def _may_commit(self, index: int) -> bool:
        return self._log.term_at(index) == self._replica.term

    def _hears_quorum(self) -> bool:
        heard = {member: progress.windows_silent == 0 for member, progress in self.progress.items()}
        for member, progress in self.progress.items():
            if member != self._replica.me:
                progress.windows_silent += 1
        return tally(self._replica.configuration, heard) is VoteOutcome.WON

    def _leave_joint_if_due(self) -> None:
        is_due = self._replica.configuration.auto_leave and self._log.applied >= self._configuration_index
        if is_due and self.transferee is None and self.has_committed:
            self.propose_change(LEAVE_JOINT)

    def _check_may_vote(self, member: MemberId) -> None:
        if member in self._replica.configuration.voters:
            return
        progress = self.progress.get(member)
        if progress is None:
            raise ChangeRefused(
                f"{member} becomes a learner with this change: give it the vote with a later one"
            )
        trailing = self._log.last_index - progress.match
        if trailing > self._replica.settings.promotion_trailing_max:
            raise ChangeRefused(f"{member} lacks {trailing} entries: it would vote without knowing them")
        if not progress.is_active:
            raise ChangeRefused(f"{member} has not been heard lately")

    def _take_reply(self, progress: Progress, message: AppendReply) -> None:
        progress.heard()
        if message.index > self._log.last_index:
            self._replica.counts.malformed += 1
            return
        is_news = progress.acknowledged(message.index, self._log.last_index)
        if not is_news and not (progress.mode is ProgressMode.PROBE and message.index == progress.match):
            return
        # A follower in SNAPSHOT may turn out to hold what the log here follows on, by whatever way. One that
        # a snapshot has arrived at may first acknowledge what came before: its disk has yet to get there.
        if (progress.mode is ProgressMode.PROBE and not progress.is_installing) or (
            progress.mode is ProgressMode.SNAPSHOT and progress.match + 1 >= self._log.first_index
        ):
            progress.to_replicate()
        self._advance_commit()
        if message.source == self.transferee:
            self._hand_over_if_ready(message.source, progress)

    def _take_rejection(self, progress: Progress, message: AppendRejected) -> None:
        progress.heard()
        if message.hint_index > message.rejected_index:
            self._replica.counts.malformed += 1
            return
        hint_index = message.hint_index
        if message.hint_term:
            hint_index, _term = self._log.agreement_hint(hint_index, message.hint_term)
        if (
            progress.mode is ProgressMode.PROBE
            and 0 < message.rejected_index == progress.match == progress.next - 1
        ):
            self._replica.counts.forgotten += 1
        progress.rejected(message.rejected_index, hint_index)

    def _take_heartbeat_reply(self, progress: Progress, message: HeartbeatReply) -> None:
        if message.round > self.reads.round:
            self._replica.counts.malformed += 1
            return
        progress.heard()
        progress.apply_level_max, progress.can_lead = message.apply_level_max, message.can_lead
        progress.has_stopped = message.has_stopped
        if message.hash_index:
            progress.state_hash = StateHash(message.hash_index, message.state_hash)
        progress.acked_round = max(progress.acked_round, message.round)
        progress.allow_probe()
        if progress.match < self._log.last_index or progress.mode is ProgressMode.PROBE:
            progress.owes_append = True
        self._confirm_reads()

    def _confirm_reads(self) -> None:
        if len(self.reads):
            rounds = {member: progress.acked_round for member, progress in self.progress.items()}
            self._replica.confirmed_reads += self.reads.confirm(agreed(self._replica.configuration, rounds))

    # Messages.

    def _heartbeat(self) -> None:
        self._ticks_to_heartbeat = self._replica.settings.heartbeat_ticks
        self._begin_round(self.progress)

    def _quickest_voters(self) -> Iterable[MemberId]:
        """A majority: this server, and who answered last. While the voters change it is everybody."""
        me, configuration, progress = self._replica.me, self._replica.configuration, self.progress
        if configuration.voters_outgoing:
            return progress
        voters = sorted(configuration.voters, key=lambda each: (each != me, -progress[each].acked_round))
        return voters[: len(voters) // 2 + 1]

    def _begin_round(self, asked: Iterable[MemberId]) -> None:
        replica, number = self._replica, self.reads.next_round()
        for member in asked:
            progress = self.progress[member]
            if member == replica.me:
                progress.acked_round = number
                continue
            commit = min(progress.match, self._log.commit)
            told = (commit, number, *replica.judged)
            replica.send_now(Heartbeat(replica.stamp, replica.me, member, replica.term, *told))
        self._confirm_reads()  # of one voter that is a quorum

    def _replicate(self, member: MemberId, progress: Progress, *, with_commit_news: bool) -> None:
        log = self._log
        while progress.can_send and progress.next <= log.last_index:
            if not self._send_append(member, progress, with_entries=True):
                return
        has_news = with_commit_news and progress.commit_sent < log.commit and progress.can_send
        if has_news or progress.must_send_append:
            self._send_append(member, progress, with_entries=False)

    def _send_append(self, member: MemberId, progress: Progress, *, with_entries: bool) -> bool:
        """False if the follower needs a snapshot instead."""
        replica, log = self._replica, self._log
        first, last = progress.next, progress.next - 1
        prev_term = log.term_at(first - 1)
        if prev_term is None:
            self._offer_snapshot(member, progress)
            return False
        entries: tuple[Entry, ...] = ()
        if with_entries:
            last = log.last_within(first, log.last_index, replica.settings.append_bytes_max)
            entries = tuple(log.entries(first, last))
        progress.sent(last, log.bytes_between(first - 1, last), log.commit)
        replica.send_now(
            Append(replica.stamp, replica.me, member, replica.term, log.commit, first - 1, prev_term, entries)
        )
        return True

    def _offer_snapshot(self, member: MemberId, progress: Progress) -> None:
        """Not to one who may be dead, or would not apply it: a file is much to send in vain."""
        replica, log = self._replica, self._log
        is_unable = 0 < progress.apply_level_max < log.snapshot.apply_level
        if not progress.is_active or progress.has_stopped or is_unable:
            return
        progress.to_snapshot(log.snapshot.index)
        replica.counts.snapshots_offered += 1
        replica.send_now(
            SnapshotOffer(replica.stamp, replica.me, member, replica.term, log.commit, log.snapshot)
        )

    def _hand_over_if_ready(self, member: MemberId, progress: Progress) -> None:
        if progress.match == self._log.last_index:
            self._hand_over(member)

    def _hand_over(self, member: MemberId) -> None:
        replica = self._replica
        replica.send_now(TimeoutNow(replica.stamp, replica.me, member, replica.term))


def check_proposal(data: bytes, dedup: DedupKey | None, bytes_max: int) -> None:
    """What no leader could take, or nobody read back."""
    if len(data) > bytes_max:
        raise TooLarge(f"{len(data)} bytes; at most {bytes_max}")
    if dedup is not None:
        length = len(dedup.client.encode())
        assert 0 < length <= CLIENT_BYTES_MAX, "without a name, or with a longer one, it cannot be read back"
