"""Where a server of a story keeps its log. A write is in doubt until it is synced, and a crash forgets it."""

from __future__ import annotations

from adsum.raft.batch import Batch
from adsum.raft.types import Entry, HardState, Restored, SnapshotMeta


class MemoryStore:
    def __init__(self, restored: Restored | None = None) -> None:
        self.durable = restored or Restored()
        self._doubtful: list[Batch] = []
        self._snapshots: dict[SnapshotMeta, bytes] = {self.durable.snapshot: b""}

    def write(self, batch: Batch) -> None:
        self._doubtful.append(batch)

    def sync(self) -> None:
        self._keep(len(self._doubtful))

    def load(self) -> Restored:
        return self.durable

    def save_snapshot(self, snapshot: SnapshotMeta, data: bytes) -> None:
        self._snapshots[snapshot] = data

    def snapshot_data(self, snapshot: SnapshotMeta) -> bytes:
        return self._snapshots[snapshot]

    def compact(self, snapshot: SnapshotMeta, first_kept: int) -> None:
        kept = tuple(entry for entry in self.durable.entries if entry.index >= first_kept)
        self.durable = Restored(self.durable.hard_state, snapshot, kept)

    def _keep(self, count: int) -> None:
        if count:
            hard_state, snapshot = self.durable.hard_state, self.durable.snapshot
            entries = list(self.durable.entries)
            for batch in self._doubtful[:count]:
                hard_state = batch.hard_state or hard_state
                snapshot = batch.install_snapshot or snapshot
                entries = _changed(entries, batch)
            self.durable = Restored(hard_state, snapshot, tuple(entries))
        self._doubtful.clear()


def with_snapshot(snapshot: SnapshotMeta) -> MemoryStore:
    """A founder's disk."""
    return MemoryStore(Restored(HardState(), snapshot, ()))


def _changed(entries: list[Entry], batch: Batch) -> list[Entry]:
    if batch.install_snapshot is not None:
        entries = []
    if batch.truncate_from is not None:
        entries = [entry for entry in entries if entry.index < batch.truncate_from]
    return [*entries, *batch.entries]
