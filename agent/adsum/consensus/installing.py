"""Snapshots of the leader's that the log stands on, and the state machine not yet.

To read a large state takes seconds, so that is done beside the log: entries that follow on the snapshot are
stored and acknowledged meanwhile, votes given, heartbeats answered. Only applying waits, and this server
leads nobody. One file is read at a time, so no more than two states are ever in memory: the one that the
state machine stands on, and the one that is being read. If a later snapshot comes meanwhile, what was read
is dropped for it.

A process that ends before the state was read has lost nothing: the log stands on the file, and the next start
reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adsum.consensus.effects import ReadSnapshot
from adsum.consensus.reports import SnapshotRead, SnapshotUnreadable
from adsum.effects import LogLine, Severity
from adsum.raft.types import SnapshotRef

if TYPE_CHECKING:
    from adsum.consensus.core import ConsensusCore


class Installing:
    def __init__(self, core: ConsensusCore) -> None:
        self._core = core
        self._wanted: SnapshotRef | None = None  # the log stands on it
        self._is_reading = False

    def stored(self) -> None:
        """A group that ends with a snapshot is durable."""
        self._wanted = self._core.storing.newest
        self._read_next()

    def read(self, report: SnapshotRead) -> None:
        self._is_reading = False
        core, index = self._core, report.ref.index
        if report.ref == self._wanted and core.raft.restored(index):
            self._wanted = None
            core.machine.restore(report.state)
            core.passed_by_snapshot(index)
            sentence = f"the state was replaced by the leader's snapshot at index {index}"
            core.emit(LogLine(Severity.INFO, sentence))
        self._read_next(besides=report.ref)

    def unreadable(self, report: SnapshotUnreadable) -> None:
        """Of one that a later one overtook, even the file may be gone."""
        self._is_reading = False
        core, index = self._core, report.ref.index
        if core.raft.replica.log.snapshot.index == index:
            core.fail(report.reason, f"the leader's snapshot at index {index} was installed")
        self._read_next(besides=report.ref)

    def _read_next(self, *, besides: SnapshotRef | None = None) -> None:
        if self._wanted not in (None, besides) and not self._is_reading:
            self._is_reading = True
            self._core.emit(ReadSnapshot(self._wanted))
