"""The Raft log on disk: appended to by one thread, and trusted only as far as it was synced.

`append` is one write and one sync, however many batches of the core gathered while the last one was on its
way; when it returns, everything in it survives. A commit index that moved alone is not worth a sync: it
rides with the next batch, or goes with `close`.

`opening.open_log` makes one of these from what is on the disk. After `StorageFailed` the object is dead,
and so must be the process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from adsum.buckets import Buckets
from adsum.raft.batch import LogChange
from adsum.raft.types import NO_OFFSET, Entry, HardState, RevisionOffset, SnapshotRef
from adsum.storage.failures import StorageFailed
from adsum.storage.files import DiskFull, File, Folder
from adsum.storage.replay import ReplayedLog, Stretch
from adsum.storage.segment import (
    SEGMENT_HEADER_BYTES,
    BatchPlace,
    LogIdentity,
    Record,
    SegmentHeader,
    Snapshot,
    Truncate,
    data_bytes,
    decode_records,
    encode_batch,
)
from adsum.storage.segment_files import SegmentFiles, segment_name
from adsum.storage.snapshots import Snapshots

SYNC_EDGES_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


@dataclass(slots=True)
class WritePosition:
    """Where the next batch goes."""

    segments: list[int]  # all that there are, in order; the last one is in use
    next_batch: int
    chain: int
    end: int = SEGMENT_HEADER_BYTES
    segment_bytes: int = 0  # of the one in use: it may have been made with another length than the next one


class RaftLog:
    def __init__(
        self,
        folder: Folder,
        files: SegmentFiles,
        identity: LogIdentity,
        standing: ReplayedLog,
        position: WritePosition,
        active: File | None,
        salt: bytes,
        offset: RevisionOffset = NO_OFFSET,
    ) -> None:
        """Without an active segment it begins the one after the last that the position names."""
        self.snapshots = Snapshots(folder)
        self.identity = identity
        self.offset = offset
        self.syncs = Buckets(SYNC_EDGES_S)  # how long each write took, with its sync
        self.folder = folder
        self._files = files
        self._salt = salt
        self._standing = standing
        self._position = position
        self._commit_waiting: HardState | None = None
        self._is_dead = False
        self._active = active if active is not None else self._new_segment()

    # What it is.

    @property
    def hard_state(self) -> HardState:
        """The newest one handed in, also when its commit index still waits for a sync."""
        return self._commit_waiting or self._standing.hard_state

    @property
    def snapshot(self) -> SnapshotRef | None:
        return self._standing.snapshot

    @property
    def first_index(self) -> int:
        return self._standing.before_first + 1

    @property
    def last_index(self) -> int:
        return self._standing.last_index

    @property
    def has_failed(self) -> bool:
        """Nothing is written any more: a write or a sync did not come to its end."""
        return self._is_dead

    # Room.

    @property
    def bytes_on_disk(self) -> int:
        """Of all segments, with the zeros behind what is written."""
        return len(self._position.segments) * self._files.segment_bytes

    @property
    def is_full(self) -> bool:
        """The disk has no room for the next segment: hand leadership over and take no proposals. Reading
        goes on, and the segment in use still has room for votes."""
        return self._files.is_full

    @property
    def needs_preparing(self) -> bool:
        return self._files.needs_spare

    def prepare_next(self) -> None:
        """Call it after an `append` when `needs_preparing`, and now and then while `is_full`; from another
        thread, for it takes a while and disturbs nothing."""
        self._files.prepare_next()

    def spend_ballast(self) -> bool:
        """Room for one snapshot on a full disk, once; False if it was spent before."""
        return self._files.spend_ballast()

    def tell_progress(self, progressed: Callable[[], None]) -> None:
        """Calls it from whichever thread writes, while something large is on its way: the disk is not silent,
        it has much to do."""
        self._files.progressed = progressed

    # How it grows.

    def append(self, changes: Sequence[LogChange]) -> None:
        """Durable when it returns. `DiskFull`: nothing was written, and it may be tried again."""
        newest = [change.hard_state for change in changes if change.hard_state is not None]
        hard_state = newest[-1] if newest else self._commit_waiting
        records = [record for change in changes for record in _records(change)]
        if not records and (hard_state is None or self._moves_only_commit(hard_state)):
            self._commit_waiting = hard_state
            return
        if hard_state is not None:
            records.append(hard_state)
        self._write(records)
        self._commit_waiting = None
        for change in changes:
            if change.install is not None:
                self._tidy(change.install, change.install.index + 1)

    def compact(self, ref: SnapshotRef, first_kept: int) -> None:
        """The snapshot stands for everything before `first_kept` from now on; segments it fills go."""
        assert self.first_index - 1 <= ref.index <= self.last_index, "a snapshot is of what is in the log"
        assert first_kept <= ref.index + 1, "what the snapshot lacks must stay"
        self._write([Snapshot(ref, replaces_log=False)])
        self._tidy(ref, first_kept)

    def join(self, cluster: str, epoch: int, offset: RevisionOffset = NO_OFFSET) -> None:
        """From now on the log says that it belongs to this cluster. With a raised epoch comes an offset of
        revisions."""
        assert self.identity.cluster in ("", cluster), "a log never changes its cluster"
        assert epoch >= self.identity.epoch, "an epoch never falls"
        before = self.identity, self.offset
        self.identity = replace(self.identity, cluster=cluster, epoch=epoch)
        self.offset = max(self.offset, offset)
        try:
            self._begin_segment()
        except DiskFull:
            self.identity, self.offset = before
            raise

    def close(self) -> None:
        """An orderly end: the commit index that waited is written, so the next start need not learn it
        again."""
        if self._commit_waiting is not None and not self._is_dead:
            self._write([self._commit_waiting])
        self._active.close()

    # How it is read.

    def entries(self, first: int, last: int) -> Iterator[Entry]:
        """From the disk and checked again, both included. `Damaged` or `ReadFailed` where that fails."""
        assert self.first_index <= first, "entries before the first one were compacted"
        assert last <= self.last_index, "entries after the last one do not exist"
        for stretch in list(self._standing.stretches):
            low, high = max(first, stretch.first_index), min(last, stretch.last_index)
            if low <= high:
                found = self._read(stretch)
                yield from (found[index] for index in range(low, high + 1))

    # Inside.

    def _tidy(self, ref: SnapshotRef, first_kept: int) -> None:
        """What is written is written: that some file systems need room to remove a file is no reason to write
        it again. What stays goes with the next snapshot."""
        with suppress(DiskFull):
            self._retire_before(first_kept)
            self.snapshots.remove_before(ref)

    def _moves_only_commit(self, hard_state: HardState) -> bool:
        known = self._standing.hard_state
        return (hard_state.term, hard_state.vote) == (known.term, known.vote)

    def _write(self, records: list[Record]) -> None:
        room_bytes = self._files.segment_bytes - SEGMENT_HEADER_BYTES
        if data_bytes(records) > room_bytes:  # before it is encoded for nothing, while the disk seems silent
            self._write_in_parts(records)
            return
        content, chain = self._encoded(records)
        if len(content) > room_bytes:
            self._write_in_parts(records)
            return
        if self._position.end + len(content) > self._position.segment_bytes:
            self._begin_segment()
            content, chain = self._encoded(records)
        self._put(content)
        position = self._position
        self._standing.take(records, position.segments[-1], position.end, len(content))
        position.next_batch, position.chain = position.next_batch + 1, chain
        position.end += len(content)

    def _write_in_parts(self, records: list[Record]) -> None:
        """More than a segment holds. The promises of term and vote go ahead; what is committed, last."""
        assert len(records) > 1, "the core takes no entry larger than a segment"
        half = len(records) // 2
        newest = [record for record in records if type(record) is HardState][-1:]
        promised = [HardState(state.term, state.vote, self._standing.hard_state.commit) for state in newest]
        is_begun = False
        try:
            self._write([*promised, *records[:half]])
            self._files.progressed()
            is_begun = True
            self._write(records[half:])
        except DiskFull as error:
            if not is_begun:
                raise
            self._is_dead = True
            raise StorageFailed(f"the disk was full in the middle of one change: {error}") from error

    def _encoded(self, records: list[Record]) -> tuple[bytes, int]:
        position = self._position
        place = BatchPlace(
            position.segments[-1], position.next_batch, position.end, position.chain, self._salt
        )
        newest = [record for record in records[-1:] if type(record) is HardState]
        hard_state = newest[0] if newest else self._standing.hard_state
        return encode_batch(place, records, term=hard_state.term)

    def _put(self, content: bytes) -> None:
        """The one write and the one sync. Whatever goes wrong here, nobody knows how far it came."""
        assert not self._is_dead, "nothing is written after a failed sync"
        self._is_dead = True
        began_s = time.perf_counter()
        try:
            self._active.write(self._position.end, content)
            self._active.sync()
        except DiskFull as error:  # on a file system that writes elsewhere than where the zeros are
            raise StorageFailed(f"no room where room was made: {error}") from error
        self._is_dead = False
        self.syncs.add(time.perf_counter() - began_s)

    def _begin_segment(self) -> None:
        before, self._active = self._active, self._new_segment()
        before.close()  # else its room on the disk would not come back when it is removed

    def _new_segment(self) -> File:
        assert not self._is_dead, "nothing is written after a failed sync"
        position, standing = self._position, self._standing
        sequence = position.segments[-1] + 1 if position.segments else 1
        header = SegmentHeader(
            self.identity,
            sequence,
            position.next_batch,
            position.chain,
            standing.last_index,
            self._files.segment_bytes,
            standing.hard_state,
            standing.snapshot,
            self._salt,
            self.offset,
        )
        file = self._files.begin(header)
        position.segments.append(sequence)
        position.end, position.segment_bytes = SEGMENT_HEADER_BYTES, self._files.segment_bytes
        return file

    def _retire_before(self, first_kept: int) -> None:
        needed = {stretch.segment for stretch in self._standing.stretches if stretch.last_index >= first_kept}
        oldest_needed = min(needed, default=self._position.segments[-1])
        for sequence in [number for number in self._position.segments if number < oldest_needed]:
            self._files.retire(sequence)
            self._position.segments.remove(sequence)
        self._standing.forget_segments_before(oldest_needed)

    def _read(self, stretch: Stretch) -> dict[int, Entry]:
        file = self.folder.open(segment_name(stretch.segment))
        try:
            content = file.read(stretch.offset, stretch.length)
        finally:
            file.close()
        records = decode_records(content, stretch.segment, self._salt)
        # Where two batches of the core went in one write, the later entry of an index is the one that stands.
        return {record.index: record for record in records if type(record) is Entry}


def _records(change: LogChange) -> Iterator[Record]:
    if change.install is not None:
        yield Snapshot(change.install, replaces_log=True)
    if change.truncate_from is not None:
        yield Truncate(change.truncate_from)
    yield from change.entries
