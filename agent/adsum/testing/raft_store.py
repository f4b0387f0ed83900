"""Where a simulated server keeps its log: a small door, so that the shipped log can stand behind it too.

A write is in doubt until it is synced. When the power goes, some first part of the writes in doubt
survives, as a log that is read up to its first torn batch would give it back: never the third write without
the second.
"""

from __future__ import annotations

from random import Random
from typing import Protocol

from adsum.raft.batch import Batch
from adsum.raft.types import Entry, HardState, Restored, SnapshotMeta


class LogStore(Protocol):
    def write(self, batch: Batch) -> None:
        """In the order of tickets; in doubt until `sync`."""

    def sync(self) -> None:
        """Everything written is durable."""

    def load(self) -> Restored:
        """What a start finds."""

    def save_snapshot(self, snapshot: SnapshotMeta, data: bytes) -> None:
        """A file of its own, durable at once; no start finds it before a write or `compact` names it."""

    def snapshot_data(self, snapshot: SnapshotMeta) -> bytes: ...

    def compact(self, snapshot: SnapshotMeta, first_kept: int) -> None:
        """Durable at once."""

    def lose_power(self, random: Random) -> None: ...


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

    def lose_power(self, random: Random) -> None:
        self._keep(random.randint(0, len(self._doubtful)))

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
