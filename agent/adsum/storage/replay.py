"""What the records of a log come to, one after the other: the same at start as it was while they were
written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from adsum.raft.types import Entry, HardState, SnapshotRef
from adsum.storage.segment import Record, SegmentHeader, Snapshot, Truncate


class Stretch(NamedTuple):
    """Entries that lie in one batch. A later truncation shortens it without touching the disk."""

    first_index: int
    last_index: int
    segment: int
    offset: int
    length: int


@dataclass(slots=True)
class ReplayedLog:
    """The log without its entries: what a segment's header repeats, and where to find the rest."""

    hard_state: HardState = field(default_factory=HardState)
    snapshot: SnapshotRef | None = None
    before_first: int = 0  # the entry before the first one kept
    last_index: int = 0
    stretches: list[Stretch] = field(default_factory=list)

    @classmethod
    def after(cls, header: SegmentHeader) -> ReplayedLog:
        return cls(header.hard_state, header.snapshot, header.last_index, header.last_index)

    @property
    def is_whole(self) -> bool:
        """Nothing is missing between the snapshot and the end, nor anything known to be committed."""
        start = self.snapshot.index if self.snapshot else 0
        return self.before_first <= start <= self.last_index and self.hard_state.commit <= self.last_index

    def take(self, records: Sequence[Record], segment: int, offset: int, length: int) -> None:
        """The records of one batch, which lies there."""
        start = 0
        others = [position for position, record in enumerate(records) if type(record) is not Entry]
        for position in (*others, len(records)):
            self._add(records[start:position], segment, offset, length)
            if position < len(records):
                self._take_other(records[position])
            start = position + 1

    def cut(self, from_index: int) -> None:
        assert from_index > self.hard_state.commit, "what is committed is never cut"
        self.last_index = min(self.last_index, from_index - 1)
        self.before_first = min(self.before_first, self.last_index)
        while self.stretches and self.stretches[-1].first_index >= from_index:
            self.stretches.pop()
        if self.stretches and self.stretches[-1].last_index >= from_index:
            self.stretches[-1] = self.stretches[-1]._replace(last_index=from_index - 1)

    def replaced_by(self, ref: SnapshotRef) -> None:
        self.stretches.clear()
        self.before_first = self.last_index = ref.index

    def forget_segments_before(self, segment: int) -> None:
        """They are gone, and with them the oldest entries."""
        self.stretches[:] = [stretch for stretch in self.stretches if stretch.segment >= segment]
        self.before_first = self.stretches[0].first_index - 1 if self.stretches else self.last_index

    def _add(self, entries: Sequence[Record], segment: int, offset: int, length: int) -> None:
        if not entries:
            return
        first, last = entries[0], entries[-1]
        assert isinstance(first, Entry)
        assert isinstance(last, Entry)
        assert first.index == self.last_index + 1, "a log has no gaps"
        assert last.index == self.last_index + len(entries), "a log has no gaps"
        self.stretches.append(Stretch(first.index, last.index, segment, offset, length))
        self.last_index = last.index

    def _take_other(self, record: Record) -> None:
        match record:
            case HardState():
                self.hard_state = record
            case Truncate(from_index):
                self.cut(from_index)
            case Snapshot(ref, replaces_log):
                self.snapshot = ref
                if replaces_log:
                    self.replaced_by(ref)
