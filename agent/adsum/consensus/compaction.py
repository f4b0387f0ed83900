"""Snapshots of the state machine, and the log that goes for them.

The copy is taken between two entries and costs little; it is encoded and written elsewhere, and only the
record that makes it count goes the way of the log's own groups. Snapshots are made when enough was applied,
when the log in memory has become large, when the newest one is of an epoch before the last recovery of the
quorum, for nobody would take that one, and when the file of the newest one turns out to be damaged while it
is sent to somebody.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adsum.consensus.effects import RecordSnapshot, WriteSnapshot
from adsum.consensus.reports import SnapshotRecorded, SnapshotVerified, SnapshotWritten
from adsum.effects import LogLine, Severity
from adsum.now import MILLISECOND, SECOND
from adsum.raft.types import SnapshotRef

if TYPE_CHECKING:
    from adsum.consensus.core import ConsensusCore

LOOK_INTERVAL_NS = SECOND
# After a snapshot, in times of what it took: until then a long log is no reason for another.
REST = 9
# Of what a snapshot stands for: a hundred thousand a second, and of each step no write takes notice.
LET_GO_ENTRIES = 512
LET_GO_INTERVAL_NS = 5 * MILLISECOND


class Compaction:
    def __init__(self, core: ConsensusCore, now_ns: int) -> None:
        self.is_making = False
        self._has_failed = False  # since the last look, which tries again
        self._core = core
        self._damaged: SnapshotRef | None = None
        self._first_to_keep = 0  # of what the newest snapshot stands for
        self.let_go_ns: int | None = None  # when the next of that go; None: it is all gone
        self._regular_ns = now_ns  # when enough entries are reason enough again
        self._now_ns = now_ns  # when somebody looked last
        self._begun_ns = now_ns  # the one that is being made, or was last
        self._rested_ns = now_ns  # when a long log is reason enough again
        self.due_ns = now_ns + self._interval_ns(LOOK_INTERVAL_NS)

    def look(self, now_ns: int) -> None:
        """Whenever it is due."""
        self._now_ns = now_ns
        self.due_ns = now_ns + self._interval_ns(LOOK_INTERVAL_NS)
        self._has_failed = False
        if self.is_making:
            return
        is_time = now_ns >= self._regular_ns
        if self._is_needed(is_time=is_time):
            self.make()
        if is_time:
            self._regular_ns = now_ns + self._interval_ns()

    def look_at_size(self, now_ns: int) -> None:
        """In every turn: with large values a second is worth more than the log may have."""
        self._now_ns = now_ns
        if not self.is_making and not self._has_failed and self._is_log_large():
            self.make()

    def make(self) -> None:
        """Unless one is being made, or there is nothing newer than the last one."""
        if self.is_making or self._core.comparing.difference:
            return
        meta = self._core.raft.snapshot_point()
        if meta is not None:
            self.is_making, self._begun_ns = True, self._now_ns
            self._core.emit(WriteSnapshot(meta, self._core.machine.snapshot()))

    def written(self, report: SnapshotWritten) -> None:
        """Given up when the leader's snapshot came in between: it is of later, and while it is installed the
        log on disk still has what it stands for."""
        meta, log = report.meta, self._core.raft.replica.log
        is_overtaken = log.is_restoring or log.snapshot.index >= meta.index
        if is_overtaken or self._core.comparing.difference:
            self.is_making = False
            return
        self._core.emit(RecordSnapshot(meta, report.ref, self._first_kept(meta.index)))

    def recorded(self, report: SnapshotRecorded, now_ns: int) -> None:
        """Unless the leader's snapshot came in between, which is of later."""
        self.is_making = False
        self._rested_ns = now_ns + REST * (now_ns - self._begun_ns)
        core, log, meta = self._core, self._core.raft.replica.log, report.meta
        if report.is_new:
            core.storing.newest = report.ref
        if report.is_new and not log.is_restoring and log.snapshot.index < meta.index:
            core.counters.snapshots_made += 1
            core.storing.note_snapshot(meta, report.ref)
            core.raft.compacted(meta, log.first_index)
            self._first_to_keep, self.let_go_ns = report.first_kept, now_ns

    def let_go(self, now_ns: int) -> None:
        """Of some entries that a snapshot stands for, whenever it is due; to free a hundred thousand at once
        would hold the loop. A member that is being brought a snapshot only since then needs what follows on
        it: that is left to the next one."""
        first_to_keep, log = self._first_to_keep, self._core.raft.replica.log
        if not log.is_restoring:
            first_to_keep = min(first_to_keep, self._first_kept(log.snapshot.index))
            first_kept = min(first_to_keep, log.first_index + LET_GO_ENTRIES)
            if first_kept > log.first_index:
                self._core.raft.compacted(log.snapshot, first_kept)
        is_over = log.is_restoring or log.first_index >= first_to_keep
        self.let_go_ns = None if is_over else now_ns + LET_GO_INTERVAL_NS

    def found_no_room(self, sentence: str, now_ns: int) -> None:
        self.is_making = False
        self._has_failed = True
        # Each try fills the disk to the brim.
        self._rested_ns = self._regular_ns = now_ns + max(
            REST * (now_ns - self._begun_ns), self._interval_ns()
        )
        self._core.counters.snapshots_failed += 1
        self._core.emit(LogLine(Severity.ERROR, sentence))

    # Files that turn out to be damaged.

    def doubts(self, ref: SnapshotRef) -> bool:
        """Whether it is worth reading again when it could not be brought to somebody."""
        return ref != self._damaged and ref == self._core.storing.newest

    def verified(self, report: SnapshotVerified) -> None:
        """A damaged file is sent to nobody any more, and the next look makes another. If there is nothing to
        make it of, this server stands on what it could not read again, and ends as its next start would."""
        core, index = self._core, report.ref.index
        if not report.damage or not self.doubts(report.ref):
            return
        self._damaged = report.ref
        core.counters.snapshots_damaged += 1
        core.storing.forget_snapshot(report.ref)
        if core.raft.snapshot_point() is None and not core.raft.replica.log.is_restoring:
            core.fail(
                f"the snapshot at index {index} is damaged on this disk ({report.damage}), and nothing was "
                "applied since that another could be made of"
            )
            return
        sentence = (
            f"the snapshot at index {index} is damaged on this disk and is sent to nobody any more; another "
            f"is made now. Look after the disk: {report.damage}"
        )
        core.emit(LogLine(Severity.ERROR, sentence))

    # Inside.

    def _is_needed(self, *, is_time: bool) -> bool:
        core, settings = self._core, self._core.settings
        log = core.raft.replica.log
        if log.is_restoring:
            return False
        if self._damaged is not None and self._damaged == core.storing.newest:
            return True
        if log.snapshot.epoch != core.raft.replica.stamp.epoch:
            return True
        newer = log.applied - log.snapshot.index
        if is_time and newer >= settings.snapshot_entries:
            return True
        return self._is_log_large()

    def _is_log_large(self) -> bool:
        log, settings = self._core.raft.replica.log, self._core.settings
        if log.is_restoring:
            return False
        long = max(settings.snapshot_entries_at_once, settings.snapshot_entries)
        if log.applied - log.snapshot.index >= long and self._now_ns >= self._rested_ns:
            return True
        return log.bytes_between(log.snapshot.index, log.applied) > settings.snapshot_log_bytes

    def _first_kept(self, index: int) -> int:
        """What a snapshot at `index` leaves in the log."""
        settings, raft = self._core.settings, self._core.raft
        log, awaited = raft.replica.log, raft.awaited_index
        within = log.first_within(index, settings.entries_kept_bytes)
        first_kept = max(index + 1 - settings.entries_kept, within)
        if awaited is not None:
            within = log.first_within(index, settings.entries_awaited_bytes)
            first_kept = min(first_kept, max(awaited + 1, within))
        return max(log.first_index, first_kept)

    def _interval_ns(self, most_ns: int | None = None) -> int:
        interval_ns = int(self._core.settings.snapshot_interval_s * SECOND)
        return interval_ns if most_ns is None else min(most_ns, interval_ns)
