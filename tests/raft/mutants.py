"""The core with one rule broken, each way known from somebody's bug. The swarm has to notice every one.

They exist in tests only: the shipped core has no switch that makes it unsafe.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec
import pytest
from msgspec import structs

from adsum.address import Address
from adsum.consensus import admission, effects
from adsum.consensus.commands import Token
from adsum.consensus.compaction import Compaction
from adsum.consensus.core import ConsensusCore
from adsum.consensus.effects import RecordSnapshot
from adsum.consensus.installing import Installing
from adsum.consensus.reports import SnapshotRead, SnapshotWritten
from adsum.consensus.requests import HeldRequest, HeldRequests
from adsum.consensus.waiting import Answers, Proposals, WaitingReads
from adsum.now import Now
from adsum.raft import ballot, leader, quorum
from adsum.raft.ballot import Ballot
from adsum.raft.batch import Batch
from adsum.raft.changer import ConfigurationChange, decode_configuration
from adsum.raft.core import RaftCore
from adsum.raft.follower import Follower
from adsum.raft.leader import Leader
from adsum.raft.log import Log
from adsum.raft.messages import Append, AppendReply, Message, SnapshotOffer, VoteReply, VoteRequest
from adsum.raft.progress import Progress
from adsum.raft.replica import Replica
from adsum.raft.types import (
    Configuration,
    Entry,
    EntryKind,
    MemberId,
    Position,
    SnapshotMeta,
    SnapshotRef,
    Term,
)
from adsum.storage import opening, recovery, segment
from adsum.storage.descriptor_reserve import DescriptorReserve
from adsum.storage.failures import StorageFailed
from adsum.storage.files import File, Folder
from adsum.storage.raft_log import RaftLog
from adsum.storage.recovery import LogVerdict, Recovery
from adsum.storage.segment import LogIdentity
from adsum.storage.segment_files import SegmentFiles
from adsum.storage.snapshots import Piece, SnapshotMaking, SnapshotReceiving, Snapshots
from adsum.testing.raft_disk import ServerDisk
from adsum.testing.raft_machine import ClientCall, Registers

Mutation = Callable[[pytest.MonkeyPatch], None]


def votes_leave_before_the_disk(patch: pytest.MonkeyPatch) -> None:
    """B6: a vote that a crash forgets is given twice."""
    patch.setattr(Replica, "send_after_store", _hurried(VoteReply))


def votes_of_others_are_enough(patch: pytest.MonkeyPatch) -> None:
    """B6: who leads a term without its own disk forgets that, and leads it a second time with another log."""

    def count(self: Ballot, replica: Replica, voter: MemberId, *, is_granted: bool) -> quorum.VoteOutcome:
        self.votes.setdefault(voter, is_granted)
        return quorum.tally(replica.configuration, self.votes)

    patch.setattr(Ballot, "count", count)


def acknowledgements_leave_before_the_disk(patch: pytest.MonkeyPatch) -> None:
    """B22: what was acknowledged is lost with the power."""
    patch.setattr(Replica, "send_after_store", _hurried(AppendReply))


def _hurried(kind: type[Message]) -> Callable[[Replica, Message], None]:
    def send(replica: Replica, message: Message) -> None:
        is_hurried = isinstance(message, kind) and message.target != replica.me
        (replica.outgoing_now if is_hurried else replica.outgoing_after_store).append(message)

    return send


def own_disk_is_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    """B18: the leader counts its own entries before they are durable."""

    def acknowledge_own(self: Leader) -> None:
        progress = self.progress.get(self._replica.me)
        if progress is not None and progress.acknowledged(self._log.last_index, self._log.last_index):
            self._advance_commit()

    flush = Leader.flush

    def flush_hastily(self: Leader, *, with_commit_news: bool = True) -> None:
        acknowledge_own(self)
        flush(self, with_commit_news=with_commit_news)

    patch.setattr(Leader, "flush", flush_hastily)


def old_terms_are_committed_by_counting(patch: pytest.MonkeyPatch) -> None:
    """B1, figure 8."""
    patch.setattr(Leader, "_may_commit", lambda _self, _index: True)


def commit_runs_ahead_of_what_was_verified(patch: pytest.MonkeyPatch) -> None:
    """B3: a stale suffix is committed because the leader said so."""

    def take_append(self: Follower, message: Append) -> None:
        take(self, message)
        log = self._replica.log
        log.commit_to(min(message.commit, log.last_index))

    take = Follower.take_append
    patch.setattr(Follower, "take_append", take_append)


def appends_truncate_without_conflict(patch: pytest.MonkeyPatch) -> None:
    """B4: a late duplicate shortens a log that was acknowledged further."""

    def merge(self: Log, prev_index: int, entries: Sequence[Entry]) -> int:
        if entries and prev_index < self.last_index:
            self._truncate(prev_index + 1)
        return original(self, prev_index, entries)

    original = Log.merge
    patch.setattr(Log, "merge", merge)


def anyone_is_up_to_date(patch: pytest.MonkeyPatch) -> None:
    """Leaders without the committed log are elected."""
    patch.setattr(Log, "is_up_to_date", lambda _self, _index, _term: True)


def candidates_need_only_what_their_voter_knows_to_be_committed(patch: pytest.MonkeyPatch) -> None:
    """A voter is the last to hear that what it acknowledged is committed."""

    def is_up_to_date(self: Log, index: int, term: Term) -> bool:
        return (term, index) >= (self.term_at(self.commit), self.commit)

    patch.setattr(Log, "is_up_to_date", is_up_to_date)


def votes_are_given_twice(patch: pytest.MonkeyPatch) -> None:
    """Two leaders in one term."""

    def consents(replica: Replica, request: VoteRequest) -> bool:
        return replica.log.is_up_to_date(request.last_index, request.last_term)

    def enter_term(self: Replica, term: Term, vote: MemberId | None) -> None:
        self.term, self.vote = term, vote

    patch.setattr("adsum.raft.core.consents", consents)
    patch.setattr(Replica, "enter_term", enter_term)


def reads_are_confirmed_by_nobody(patch: pytest.MonkeyPatch) -> None:
    """A leader that was replaced answers from the past."""

    def read(self: Leader, context: int) -> None:
        self.reads.ask(context, self._log.commit if self.has_committed else None)
        self._replica.confirmed_reads += self.reads.confirm(self.reads.round)
        self.reads.next_round()
        self._replica.confirmed_reads += self.reads.confirm(self.reads.round)

    patch.setattr(Leader, "read", read)


def reads_do_not_wait_for_the_terms_first_commit(patch: pytest.MonkeyPatch) -> None:
    """B10: a new leader does not know what is committed."""

    def read(self: Leader, context: int) -> None:
        self.reads.ask(context, self._log.commit)

    patch.setattr(Leader, "read", read)


def reads_join_the_question_that_is_under_way(patch: pytest.MonkeyPatch) -> None:
    """Its heartbeats left before they came: a newer leader may have answered somebody since."""

    def add(self: WaitingReads, token: Token) -> None:
        self._count += 1
        group = self.gathered if self.gathered else next(reversed(self._asked.values()), self.gathered)
        group.append(token)

    patch.setattr(WaitingReads, "add", add)


def heartbeats_commit_what_was_never_matched(patch: pytest.MonkeyPatch) -> None:
    """The commit index of a heartbeat must lie within what this leader knows the follower to hold."""

    def heartbeat(self: Leader) -> None:
        matches = {member: progress.match for member, progress in self.progress.items()}
        for member, progress in self.progress.items():
            if member != self._replica.me:
                progress.match = max(progress.match, self._log.commit)
        original(self)
        for member, progress in self.progress.items():
            progress.match = matches[member]

    original = Leader._heartbeat
    patch.setattr(Leader, "_heartbeat", heartbeat)


def only_the_new_half_is_asked(patch: pytest.MonkeyPatch) -> None:
    """A joint configuration counted as if it were simple."""

    def agreed(configuration: Configuration, values: dict[MemberId, int]) -> int:
        return quorum.majority_agreed(configuration.voters, values)

    def tally(configuration: Configuration, votes: dict[MemberId, bool]) -> quorum.VoteOutcome:
        return original(Configuration(configuration.voters), votes)

    original = quorum.tally
    patch.setattr(leader, "agreed", agreed)
    patch.setattr(leader, "tally", tally)
    patch.setattr(ballot, "tally", tally)


def changes_do_not_wait_for_each_other(patch: pytest.MonkeyPatch) -> None:
    """B2: single-server changes before the term's first commit, and on top of each other."""

    def propose_change(self: Leader, change: ConfigurationChange) -> Position:
        self._configuration_index = self._log.applied
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Leader, "has_committed", True)
            return original(self, change)

    def configuration_waits(_self: Log) -> bool:
        return False

    original = Leader.propose_change
    patch.setattr(Leader, "propose_change", propose_change)
    patch.setattr(Log, "configuration_waits", configuration_waits)


def changes_count_from_when_they_are_in_the_log(patch: pytest.MonkeyPatch) -> None:
    """B2 as it was published: on every server, and also before the term's first commit."""

    def propose_change(self: Leader, change: ConfigurationChange) -> Position:
        position = propose(self, change)
        _adopt_latest(self._replica)
        self._list_members()
        return position

    def take_append(self: Follower, message: Append) -> None:
        take(self, message)
        _adopt_latest(self._replica)

    take = Follower.take_append
    changes_do_not_wait_for_each_other(patch)
    propose = Leader.propose_change
    patch.setattr(Leader, "propose_change", propose_change)
    patch.setattr(Follower, "take_append", take_append)


def _adopt_latest(replica: Replica) -> None:
    log = replica.log
    for entry in log.entries(log.first_index, log.last_index):
        if entry.kind is EntryKind.CONFIGURATION:
            replica.configuration = decode_configuration(entry.data)


def old_snapshots_are_installed(patch: pytest.MonkeyPatch) -> None:
    """B5: a replayed offer takes the log back."""

    def take_offer(self: Follower, message: SnapshotOffer) -> None:
        self._replica.log.restore(message.snapshot)
        self._replica.configuration = message.snapshot.configuration
        self._acknowledge(message.source, message.snapshot.index)

    patch.setattr(Follower, "take_offer", take_offer)


def late_answers_bring_another_snapshot(patch: pytest.MonkeyPatch) -> None:
    """What a slow disk says of the time before one arrived takes the leader back to what it has let go."""
    patch.setattr(Progress, "is_installing", False)


def commit_news_is_believed_without_the_entry(patch: pytest.MonkeyPatch) -> None:
    """The commit index in an answer to a vote request, whatever the term of our entry there."""

    def learn(self: RaftCore, reply: VoteReply) -> None:
        log = self.replica.log
        log.commit_to(min(reply.commit_index, log.last_index))

    patch.setattr(RaftCore, "_learn_commit", learn)


def states_depend_on_the_server(patch: pytest.MonkeyPatch) -> None:
    """B19: apply depends on where it runs."""

    def perform(self: Registers, call: ClientCall) -> str:
        answer = original(self, call)
        if self.index == 25:
            self.digest ^= id(self) & 0xFF or 1
        return answer

    original = Registers._perform
    patch.setattr(Registers, "_perform", perform)


def votes_are_stored_without_the_candidate(patch: pytest.MonkeyPatch) -> None:
    """B6: the term survives a crash, and who was chosen in it does not."""

    def ready(self: RaftCore, *, with_commit_news: bool = True) -> Batch | None:
        batch = original(self, with_commit_news=with_commit_news)
        if batch is None or batch.hard_state is None:
            return batch
        return structs.replace(batch, hard_state=structs.replace(batch.hard_state, vote=None))

    original = RaftCore.ready
    patch.setattr(RaftCore, "ready", ready)


def changes_count_from_when_the_leader_has_thought_of_them(patch: pytest.MonkeyPatch) -> None:
    """B2: a shrunken membership decides that it has shrunk."""

    def propose_change(self: Leader, change: ConfigurationChange) -> Position:
        position = original(self, change)
        (entry,) = self._log.entries(position.index, position.index)
        self._replica.configuration = decode_configuration(entry.data)
        return position

    original = Leader.propose_change
    patch.setattr(Leader, "propose_change", propose_change)


def retries_happen_twice(patch: pytest.MonkeyPatch) -> None:
    """The dedup key is in the log, and nobody looks at it."""
    patch.setattr(Registers, "_is_answered", lambda _registers, _client, _sequence: False)


# Of the server around it.


def proposals_are_answered_before_they_are_applied(patch: pytest.MonkeyPatch) -> None:
    """As soon as they are stored here."""

    def promise(self: ConsensusCore, group: Sequence[Batch]) -> None:
        for entry in [entry for batch in group for entry in batch.entries]:
            self._proposals.applied(entry, b"yes", self.answers)
        original(self, group)

    original = ConsensusCore._promise
    patch.setattr(ConsensusCore, "_promise", promise)


def proposals_are_answered_for_whatever_took_their_place(patch: pytest.MonkeyPatch) -> None:
    """The index was applied, with another leader's entry."""

    def applied(self: Proposals, entry: Entry, result: bytes, answers: Answers) -> None:
        waiting = self.by_index.pop(entry.index, None)
        if waiting is not None:
            answers.append((waiting[1], b"yes" if waiting[0] != entry.term else result))

    patch.setattr(Proposals, "applied", applied)


def groups_are_promised_when_they_are_given_to_the_disk(patch: pytest.MonkeyPatch) -> None:
    """The order of effects is right, and nobody waited for what they ask."""

    def take_turn(self: ConsensusCore, *, tells_commits: bool) -> None:
        original(self, tells_commits=tells_commits)
        if self.storing._under_way and self.storing._under_way[-1].install_snapshot is None:
            self._promise(self.storing._under_way)

    original = ConsensusCore._take_turn
    patch.setattr(ConsensusCore, "_take_turn", take_turn)


def retries_go_under_a_new_key(patch: pytest.MonkeyPatch) -> None:
    """The state machine cannot know them again."""

    def concluded(
        self: HeldRequests,
        request: HeldRequest,
        outcome: bytes | int | Exception,
        now_ns: int,
        answers: Answers,
    ) -> None:
        original(self, request, outcome, now_ns, answers)
        if request.dedup is not None and not request.is_over:
            request.dedup = msgspec.structs.replace(request.dedup, client=request.dedup.client + " again")

    original = HeldRequests.concluded
    patch.setattr(HeldRequests, "concluded", concluded)


def the_log_in_memory_is_bounded_by_its_entries_only(patch: pytest.MonkeyPatch) -> None:
    """RD3: a few large values are as many bytes as one likes."""

    def make(self: Compaction) -> None:
        log = self._core.raft.replica.log
        if log.applied - log.snapshot.index >= self._core.settings.snapshot_entries:
            original(self)

    original = Compaction.make
    patch.setattr(Compaction, "make", make)


def snapshots_leave_as_many_entries_however_large_they_are(patch: pytest.MonkeyPatch) -> None:
    """RD3: the log has its snapshot, and lets go of nothing."""

    def first_kept(self: Compaction, index: int) -> int:
        return max(self._core.raft.replica.log.first_index, index + 1 - self._core.settings.entries_kept)

    patch.setattr(Compaction, "_first_kept", first_kept)


def compaction_does_not_wait_for_a_snapshot_under_way(patch: pytest.MonkeyPatch) -> None:
    """RD6: when it has arrived, what follows on it is gone, and so for ever."""
    patch.setattr(RaftCore, "awaited_index", None)


def only_whom_gossip_knows_is_heard(patch: pytest.MonkeyPatch) -> None:
    """RD4: gossip decides over quorum."""

    def is_heard(host: str, places: Sequence[Address], *, is_said: bool, **_more: bool) -> bool:
        return is_said and host in [place.host for place in places]

    patch.setattr(admission, "is_heard", is_heard)


def servers_are_dialled_only_where_gossip_says(patch: pytest.MonkeyPatch) -> None:
    """RD4: nobody remembers where a member was found."""
    patch.setattr(admission, "places_of", lambda said, _found: [said] if said is not None else [])


def only_ticks_notice_that_the_process_stood_still(patch: pytest.MonkeyPatch) -> None:
    """RD10: whatever wakes before the tick goes by a time that is not true any more."""

    def note(self: ConsensusCore, now: Now) -> None:
        self._now_ns, self._is_due = now.monotonic_ns, True

    def tick(self: ConsensusCore, now: Now) -> Sequence[effects.ConsensusEffect]:
        stood_ns = self.pace.stood_still_ns(now.monotonic_ns)
        if stood_ns:
            self.raft.stood_still(stood_ns)
        return original(self, now)

    original = ConsensusCore.tick
    patch.setattr(ConsensusCore, "_note", note)
    patch.setattr(ConsensusCore, "tick", tick)


# Of the log on disk.


def the_log_has_no_descriptors_of_its_own(patch: pytest.MonkeyPatch) -> None:
    """RD9: clients that hold all of them end the process."""
    patch.setattr(DescriptorReserve, "opened", lambda _reserve, open_: open_())


def batches_are_not_synced(patch: pytest.MonkeyPatch) -> None:
    """B22: acknowledged as soon as it is written."""

    def put(self: RaftLog, content: bytes) -> None:
        self._active.write(self._position.end, content)

    patch.setattr(RaftLog, "_put", put)


def failed_syncs_are_passed_over(patch: pytest.MonkeyPatch) -> None:
    """B21: asked again, the kernel says yes."""

    def put(self: RaftLog, content: bytes) -> None:
        try:
            original(self, content)
        except StorageFailed:
            self._is_dead = False

    original = RaftLog._put
    patch.setattr(RaftLog, "_put", put)


def values_can_pass_for_batches(patch: pytest.MonkeyPatch) -> None:
    """RD1: anybody can compute the checksum, and a torn batch seems to have been whole once."""
    patch.setattr(segment, "seed_of", lambda sequence, _salt: zlib.crc32(sequence.to_bytes(8, "little")))


def own_snapshots_are_recorded_while_the_leaders_is_installed(patch: pytest.MonkeyPatch) -> None:
    """RD5: the log on disk lets go of what it still stands on."""

    def written(self: Compaction, report: SnapshotWritten) -> None:
        log = self._core.raft.replica.log
        first_kept = max(log.first_index, report.meta.index + 1 - self._core.settings.entries_kept)
        self._core.emit(RecordSnapshot(report.meta, report.ref, first_kept))

    patch.setattr(Compaction, "written", written)


def entries_are_applied_before_the_state_was_read(patch: pytest.MonkeyPatch) -> None:
    """As soon as the log stands on the snapshot, to the state machine that stood there before."""

    def stored(self: Installing) -> None:
        original(self)
        index = self._core.storing.newest.index if self._core.storing.newest is not None else 0
        self._core.raft.restored(index)

    original = Installing.stored
    patch.setattr(Installing, "stored", stored)


def overtaken_states_count(patch: pytest.MonkeyPatch) -> None:
    """What was read of one snapshot is taken for the state of a later one."""

    def restored(self: Log, index: int) -> bool:
        return original(self, self._offset if self.stable >= self._offset else index)

    def read(self: Installing, report: SnapshotRead) -> None:
        if self._wanted is not None:
            report = replace(report, ref=self._wanted)
        take(self, report)

    original, take = Log.restored, Installing.read
    patch.setattr(Log, "restored", restored)
    patch.setattr(Installing, "read", read)


def rot_is_taken_for_a_torn_batch(patch: pytest.MonkeyPatch) -> None:
    """What was acknowledged is taken away in silence, and the server votes on."""
    patch.setattr(recovery, "_later_batch", lambda _content, _start, _recovery: None)
    patch.setattr(recovery, "_lacks_sectors", lambda _content, _recovery: True)


def headers_that_went_astray_prove_nothing(patch: pytest.MonkeyPatch) -> None:
    """The zeros in them pass for what was never written."""
    patch.setattr(recovery, "_begun_after", lambda _content, _recovery: None)


def a_server_that_forgot_keeps_its_name(patch: pytest.MonkeyPatch) -> None:
    """Its old votes and acknowledgements go on counting."""
    patch.setattr(ServerDisk, "_mint_log_id", lambda store: store._me.log)


def old_segments_are_used_again_as_they_are(patch: pytest.MonkeyPatch) -> None:
    """What a former life of the file left lies behind the last batch."""

    def fill(self: SegmentFiles, file: File, name: str) -> None:
        if file.length() != self.segment_bytes:
            original(self, file, name)

    original = SegmentFiles._fill
    patch.setattr(SegmentFiles, "_fill", fill)


def zeros_behind_the_log_are_believed_as_they_read(patch: pytest.MonkeyPatch) -> None:
    """What is left of a torn batch comes back behind a later one, where the sync that took it away failed."""

    def go_on(folder: Folder, files: SegmentFiles, found: Recovery, identity: LogIdentity) -> RaftLog:
        last = found.segments[-1]
        if found.verdict is LogVerdict.CLEAN:
            found.segments[-1] = replace(last, length_bytes=found.end)
        log = original(folder, files, found, identity)
        log._position.segment_bytes = last.length_bytes
        return log

    original = opening._go_on
    patch.setattr(opening, "_go_on", go_on)


def snapshots_get_their_name_before_their_bytes_are_safe(patch: pytest.MonkeyPatch) -> None:
    """B17: the log stands on a file that a power loss leaves empty."""

    def finish(self: SnapshotMaking) -> SnapshotRef:
        assert self._file is not None
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(type(self._file), "sync", lambda _file: None)
            return original(self)

    original = SnapshotMaking.finish
    patch.setattr(SnapshotMaking, "finish", finish)


def segments_go_before_the_log_says_so(patch: pytest.MonkeyPatch) -> None:
    """B17: a crash between the two leaves a log that begins after its own snapshot."""

    def compact(self: RaftLog, ref: SnapshotRef, first_kept: int) -> None:
        self._retire_before(first_kept)
        original(self, ref, first_kept)

    original = RaftLog.compact
    patch.setattr(RaftLog, "compact", compact)


def damaged_pieces_are_taken(patch: pytest.MonkeyPatch) -> None:
    """A snapshot is installed as it arrived."""

    def finish(self: SnapshotReceiving) -> SnapshotMeta:
        self._file.close()
        self._folder.rename(self._partial, self._name)
        self._folder.sync()
        return Snapshots(self._folder).verify(self._ref)

    patch.setattr(Piece, "is_whole", True)
    patch.setattr(SnapshotReceiving, "finish", finish)
    patch.setattr(Snapshots, "verify", lambda snapshots, ref: snapshots.open(ref).meta())
