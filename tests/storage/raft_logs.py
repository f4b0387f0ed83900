"""What the tests of the Raft log share: entries, a log on a simulated disk, and what a model says it
holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random

from msgspec import structs

from adsum.dedup import DedupKey
from adsum.raft.batch import LogChange
from adsum.raft.types import (
    Configuration,
    Entry,
    EntryKind,
    HardState,
    MemberId,
    Restored,
    SnapshotMeta,
    SnapshotRef,
    Term,
)
from adsum.storage.files import Folder
from adsum.storage.opening import OpenedLog, open_log
from adsum.storage.raft_log import RaftLog
from adsum.testing.block_disk import BlockDisk

NODE = "5fb06e1c-7d0f-4a5d-8a64-1f5e3b1c0a11"
SEGMENT_BYTES = 8192  # a header and eight sectors: segments change often
ME = MemberId(NODE, "log-1")


def entry(index: int, term: int = 1, data: bytes = b"", *, dedup: DedupKey | None = None) -> Entry:
    return Entry(index, Term(term), EntryKind.COMMAND, 1000 + index, 1, dedup, data or b"entry %d" % index)


def entries(first: int, last: int, term: int = 1, size: int = 0) -> list[Entry]:
    return [entry(index, term, bytes([index % 255 + 1]) * size) for index in range(first, last + 1)]


def state(term: int, commit: int = 0, vote: MemberId | None = None) -> HardState:
    return HardState(Term(term), vote, commit)


def minting() -> Callable[[], str]:
    numbers = count(1)
    return lambda: f"log-{next(numbers)}"


def salt() -> bytes:
    return b"shown by nothing"


def opened(
    folder: Folder,
    *,
    segment_bytes: int = SEGMENT_BYTES,
    minted: str = "log-1",
    mint_salt: Callable[[], bytes] = salt,
) -> OpenedLog:
    return open_log(
        folder, node=NODE, mint_log_id=lambda: minted, mint_salt=mint_salt, segment_bytes=segment_bytes
    )


def new_disk(seed: int = 0) -> BlockDisk:
    return BlockDisk(Random(seed))


def snapshot(log: RaftLog, index: int, term: int = 1, body: bytes = b"the state") -> SnapshotRef:
    meta = SnapshotMeta(index, Term(term), Configuration((ME,)), time_ms=1000 + index, apply_level=1)
    making = log.snapshots.make(meta)
    making.write(body)
    return making.finish()


@dataclass
class Model:
    """What a log must hold: the changes, applied one after the other to plain values."""

    hard_state: HardState = field(default_factory=HardState)
    snapshot_index: int = 0
    kept: list[Entry] = field(default_factory=list)

    def after(self, *changes: LogChange) -> Model:
        model = Model(self.hard_state, self.snapshot_index, list(self.kept))
        for change in changes:
            model._take(change)
        return model

    def parts_of(self, change: LogChange) -> list[Model]:
        """What may be left of a change too large for one write: some of its entries, under its promises."""
        promised = change.hard_state and structs.replace(change.hard_state, commit=self.hard_state.commit)
        parts = (change.entries[:length] for length in range(len(change.entries)))
        return [self.after(structs.replace(change, entries=part, hard_state=promised)) for part in parts]

    def compacted(self, index: int) -> Model:
        return Model(self.hard_state, index, list(self.kept))

    def _take(self, change: LogChange) -> None:
        if change.install is not None:
            self.snapshot_index, self.kept = change.install.index, []
        if change.truncate_from is not None:
            self.kept = [entry for entry in self.kept if entry.index < change.truncate_from]
        self.kept += change.entries
        self.hard_state = change.hard_state or self.hard_state

    def explains(self, restored: Restored, *, but_commit: bool = False) -> bool:
        """Entries before the snapshot may have gone or not; a commit index may have waited for a sync."""
        mine = [entry for entry in self.kept if entry.index > self.snapshot_index]
        found = [entry for entry in restored.entries if entry.index > restored.snapshot.index]
        theirs = restored.hard_state
        if but_commit:
            theirs = structs.replace(theirs, commit=self.hard_state.commit)
        return (
            (self.snapshot_index, mine, self.hard_state) == (restored.snapshot.index, found, theirs)
            and restored.hard_state.commit <= self.hard_state.commit
            and all(entry in self.kept for entry in restored.entries)
        )
