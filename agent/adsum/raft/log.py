"""The log in memory, and how much of it is committed, applied, and truly on this server's disk.

All entries since the last compaction are here; the disk is written by batches and read only at start. Four
marks move along the log and never pass each other:

    offset <= applied <= handed out <= min(commit, stable)        commit <= last index

`stable` is the point up to which disk and memory are known to agree. Batches are stored in order, but a write
may end long after the log in memory has moved on, and then its ticket proves less than it did:

    ticket 1 stores  3@1 4@1        a leader of term 1 appended
    ticket 2 stores  3@2            one of term 2 replaced it
    ticket 3 stores  3@1 4@1 5@3    one of term 3 has the first ones after all, and brings them back

When ticket 1 comes back, memory again holds the very entries it stored; but ticket 2, already on its way,
will take them from the disk. So a truncation lowers what each write in flight will prove to the point where
it cut; and the term noted there must still be the log's when the ticket arrives.

Sizes are kept as a running total beside the entries, so that a slice of at most so many bytes is one
bisection and no loop.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from adsum.raft.types import (
    ENTRY_OVERHEAD_BYTES,
    NO_OFFSET,
    NO_TERM,
    Configuration,
    Entry,
    EntryKind,
    RevisionOffset,
    SnapshotMeta,
    Term,
    Ticket,
)

_term_of = attrgetter("term")


@dataclass(slots=True, eq=False)
class _Write:
    """What a ticket will prove when it comes back."""

    ticket: Ticket
    index: int
    term: Term | None  # None where the log in memory no longer knows it


class Log:
    def __init__(
        self,
        snapshot: SnapshotMeta,
        entries: Sequence[Entry] = (),
        *,
        commit: int = 0,
        offset: RevisionOffset = NO_OFFSET,
    ) -> None:
        """As found on disk. Entries may reach back before the snapshot, as compaction left them."""
        self.snapshot = snapshot  # the newest: what a server too far behind is offered
        self.revision_offset = max(offset, RevisionOffset(snapshot.offset, snapshot.index))  # it only rises
        self._offset = snapshot.index  # the entry before the first one kept
        self._offset_term = snapshot.term
        if entries and entries[0].index <= snapshot.index:
            self._offset, self._offset_term = entries[0].index, entries[0].term
            entries = entries[1:]
        self._entries: list[Entry] = []
        self._totals: list[int] = []  # bytes up to and with each entry, since the log began here
        self._total_before = 0  # bytes up to the offset
        self._extend(entries)
        assert self.last_index >= snapshot.index, "the log ends before its own snapshot"
        self.applied = snapshot.index
        self.handed_out = snapshot.index
        self.commit = max(commit, snapshot.index)
        assert self.commit <= self.last_index, "committed entries are missing from the disk"
        self.stable = self.last_index
        # What the next batch has to store.
        self._given = self.last_index
        self._truncate_from: int | None = None
        self._install: SnapshotMeta | None = None
        self._writes: deque[_Write] = deque()

    # What it holds.

    @property
    def first_index(self) -> int:
        return self._offset + 1

    @property
    def last_index(self) -> int:
        return self._offset + len(self._entries)

    @property
    def last(self) -> Entry:
        """Without entries: what stands for the one before the first."""
        if self._entries:
            return self._entries[-1]
        time_ms, level = self.snapshot.time_ms, self.snapshot.apply_level
        return Entry(self._offset, self._offset_term, EntryKind.TERM_BEGIN, time_ms, level, None, b"")

    @property
    def last_term(self) -> Term:
        return self._entries[-1].term if self._entries else self._offset_term

    def term_at(self, index: int) -> Term | None:
        """None where it was compacted, or is not there yet."""
        position = index - self._offset
        if position > 0:
            return self._entries[position - 1].term if position <= len(self._entries) else None
        return self._offset_term if position == 0 else None

    def level_at(self, index: int) -> int:
        """Of an entry that is here, or that the log stands on."""
        position = index - self._offset
        return self._entries[position - 1].apply_level if position > 0 else self.snapshot.apply_level

    def entries(self, first: int, last: int) -> list[Entry]:
        """From `first` to `last`, both included."""
        assert self._offset < first, "entries before the first one were compacted"
        assert last <= self.last_index, "entries after the last one do not exist"
        return self._entries[first - self._offset - 1 : last - self._offset]

    def last_within(self, first: int, last: int, bytes_max: int) -> int:
        """Where a slice from `first` must end to stay below `bytes_max`; one entry always goes."""
        allowed = self._total_to(first - 1) + bytes_max
        end = self._offset + bisect_right(self._totals, allowed)
        return max(first, min(last, end)) if first <= last else last

    def first_within(self, last: int, bytes_max: int) -> int:
        """Where a slice up to `last` must begin to stay within `bytes_max`; `last` + 1 if nothing fits."""
        target = self._total_to(last) - bytes_max
        if self._total_before >= target:
            return self.first_index
        return self.first_index + bisect_left(self._totals, target) + 1

    def bytes_between(self, after: int, last: int) -> int:
        return self._total_to(last) - self._total_to(after)

    def bytes_after(self, index: int) -> int:
        return (self._totals[-1] if self._totals else self._total_before) - self._total_to(index)

    def is_up_to_date(self, last_index: int, last_term: Term) -> bool:
        """Whether a log that ends so holds at least what this one may have helped to commit."""
        return (last_term, last_index) >= (self.last_term, self.last_index)

    def agreement_hint(self, index: int, term: Term) -> tuple[int, Term]:
        """The last place up to `index` that a log with `term` at `index` could agree with.

        Terms never fall along a log: nothing of ours with a higher term can be in the other one below
        there. So both sides skip whole terms, and a long divergence takes as many rounds as it has terms,
        not entries.
        """
        index = min(index, self.last_index)
        if index <= self._offset:
            return index, NO_TERM
        end = bisect_right(self._entries, term, 0, index - self._offset, key=_term_of)
        found = self._offset + end
        return found, self.term_at(found) or NO_TERM

    def configuration_waits(self) -> bool:
        """A committed change of the membership is not applied yet."""
        waiting = self._entries[max(self.applied - self._offset, 0) : self.commit - self._offset]
        return any(entry.kind is EntryKind.CONFIGURATION for entry in waiting)

    def snapshot_point(self, configuration: Configuration, epoch: int) -> SnapshotMeta:
        """What is applied, as a snapshot of it."""
        last = self._entries[self.applied - self._offset - 1]
        offset = self.offset_at(last.index)
        return SnapshotMeta(
            last.index, last.term, configuration, last.time_ms, last.apply_level, epoch, offset
        )

    def offset_at(self, index: int) -> int:
        """Of the revision of the entry there, which the snapshot does not stand for."""
        value, from_index = self.revision_offset
        return value if index >= from_index else self.snapshot.offset

    # How it grows.

    def append(self, entry: Entry) -> None:
        """A leader adds to its own log; it never takes anything away from it."""
        last, totals = self.last, self._totals
        assert entry.index == last.index + 1, "a log has no gaps"
        assert entry.term >= last.term, "terms never fall along a log"
        assert entry.time_ms >= last.time_ms, "cluster time never falls along a log"
        assert entry.apply_level >= last.apply_level, "the apply level never falls along a log"
        totals.append((totals[-1] if totals else self._total_before) + entry.bytes_total)
        self._entries.append(entry)

    def merge(self, prev_index: int, entries: Sequence[Entry]) -> int:
        """Takes in what a leader sent, which follows on an entry both have. What is already here stays: a
        late duplicate must not shorten a log that was acknowledged further. Returns the last index now
        shared."""
        assert self.commit <= prev_index <= self.last_index, "it does not follow on what is here"
        last_shared = prev_index + len(entries)
        for position, entry in enumerate(entries):
            if self.term_at(entry.index) != entry.term:
                if entry.index <= self.last_index:
                    self._truncate(entry.index)
                self._extend(entries[position:] if position else entries)
                break
        return last_shared

    def commit_to(self, index: int) -> bool:
        """False if that was known already."""
        if index <= self.commit:
            return False
        assert index <= self.last_index, "only what is here can be committed here"
        self.commit = index
        return True

    def restore(self, snapshot: SnapshotMeta) -> None:
        """A snapshot replaces everything: what was here may contradict it."""
        assert snapshot.index > self.commit, "a snapshot never takes back what is committed"
        self._lower_proof(self.commit)
        self._entries, self._totals, self._total_before = [], [], 0
        self._offset, self._offset_term = snapshot.index, snapshot.term
        self.snapshot = self._install = snapshot
        self.revision_offset = max(self.revision_offset, RevisionOffset(snapshot.offset, snapshot.index))
        self.commit = self._given = snapshot.index
        self._truncate_from = None

    def compact(self, snapshot: SnapshotMeta, first_kept: int) -> None:
        """The driver made a snapshot file; entries before `first_kept` may go."""
        assert self.snapshot.index <= snapshot.index <= self.applied, "a snapshot is of what was applied"
        assert self.term_at(snapshot.index) == snapshot.term, "a snapshot is of this log"
        assert first_kept <= snapshot.index + 1, "what the snapshot lacks must stay"
        self.snapshot = snapshot
        offset = max(self._offset, first_kept - 1)
        term = self.term_at(offset)
        assert term is not None
        gone = offset - self._offset
        if gone:
            self._total_before = self._totals[gone - 1]
            del self._entries[:gone], self._totals[:gone]
            self._offset, self._offset_term = offset, term

    # What is on disk.

    def take_unstored(self, ticket: Ticket) -> tuple[SnapshotMeta | None, int | None, list[Entry]]:
        """For one batch: the snapshot to install, where to cut what the disk has, the entries to add."""
        install, self._install = self._install, None
        truncate_from, self._truncate_from = self._truncate_from, None
        entries = self._entries[self._given - self._offset :] if self._given < self.last_index else []
        if install is not None or truncate_from is not None or entries:
            self._writes.append(_Write(ticket, self.last_index, self.last_term))
        self._given = self.last_index
        return install, truncate_from, entries

    def has_unstored(self) -> bool:
        return self._given < self.last_index or self._truncate_from is not None or self._install is not None

    def stored(self, ticket: Ticket) -> bool:
        """The writes up to this ticket are durable. True if that proved anything new."""
        before = self.stable
        while self._writes and self._writes[0].ticket <= ticket:
            write = self._writes.popleft()
            if write.index > self.stable:
                assert write.term is None or self.term_at(write.index) in (write.term, None), "another entry"
                self.stable = write.index
        return self.stable > before

    @property
    def is_restoring(self) -> bool:
        """A snapshot was accepted and the state machine does not stand on it yet."""
        return self.handed_out < self._offset

    def restored(self, index: int) -> bool:
        """The state machine stands on the snapshot there. False if that is not the one it is waited for."""
        if not self.is_restoring or index != self._offset:
            return False
        assert self.stable >= index, "the state machine stands on what may yet be lost"
        self.handed_out = self.applied = index
        return True

    # What is applied.

    def next_committed(self, bytes_max: int) -> list[Entry]:
        """Committed entries that are durable here and were not handed out yet."""
        last = min(self.commit, self.stable)
        first = self.handed_out + 1
        if first > last or self.is_restoring:
            return []
        return self.entries(first, self.last_within(first, last, bytes_max))

    def hand_out(self, last: int) -> None:
        assert self.handed_out < last <= min(self.commit, self.stable), "handed out what may yet be lost"
        self.handed_out = last

    def applied_to(self, index: int) -> None:
        assert self.applied <= index <= self.handed_out, "applied what was not handed out, or twice"
        self.applied = index

    # Inside.

    def _total_to(self, index: int) -> int:
        position = index - self._offset
        assert 0 <= position <= len(self._totals), "sizes are known only for entries that are here"
        return self._totals[position - 1] if position else self._total_before

    def _extend(self, entries: Sequence[Entry]) -> None:
        total = self._totals[-1] if self._totals else self._total_before
        expected, term = self.last_index + 1, self.last_term
        for entry in entries:
            assert entry.index == expected, "a log has no gaps"
            assert entry.term >= term, "terms never fall along a log"
            total += ENTRY_OVERHEAD_BYTES + len(entry.data)
            self._totals.append(total)
            expected, term = expected + 1, entry.term
        self._entries.extend(entries)

    def _truncate(self, index: int) -> None:
        assert index > self.commit, "what is committed is never cut"
        keep = index - self._offset - 1
        del self._entries[keep:], self._totals[keep:]
        if index <= self._given:
            self._given = index - 1
            self._truncate_from = min(index, self._truncate_from or index)
        self._lower_proof(index - 1)

    def _lower_proof(self, index: int) -> None:
        """Memory and disk may differ after `index` from now on, whatever a write in flight says."""
        self.stable = min(self.stable, index)
        term = self.term_at(index)
        for write in self._writes:
            if write.index > index:
                write.index, write.term = index, term
