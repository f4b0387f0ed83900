"""What consensus asks of the disk, done: each is one job for a thread, and the same on a simulated disk.

`store` and `record` change the log, and are done one after the other; `write_snapshot` and `damage_of` may go
on beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from adsum.raft.batch import LogChange
from adsum.raft.types import SnapshotMeta, SnapshotRef
from adsum.storage.failures import StorageFailed
from adsum.storage.raft_log import RaftLog
from adsum.storage.snapshots import SnapshotDamaged, Snapshots

ReadState = Callable[[Iterator[bytes]], Any]


def store(raft_log: RaftLog, changes: Sequence[LogChange], read: ReadState) -> Any:
    """With a snapshot it is done when the state machine can stand on it, too: then it is the state."""
    raft_log.append(changes)
    ref = changes[-1].install
    return read_state(raft_log.snapshots, ref, read) if ref is not None else None


def record(raft_log: RaftLog, ref: SnapshotRef, first_kept: int) -> bool:
    """False if the log stands on a later one."""
    newest = raft_log.snapshot
    if newest is not None and newest.index >= ref.index:
        return False
    raft_log.compact(ref, first_kept)
    return True


def write_snapshot(snapshots: Snapshots, meta: SnapshotMeta, pieces: Iterator[bytes]) -> SnapshotRef:
    making = snapshots.make(meta)
    for piece in pieces:
        making.write(piece)
    return making.finish()


def damage_of(snapshots: Snapshots, ref: SnapshotRef) -> str:
    """Empty if the file is sound."""
    try:
        snapshots.verify(ref)
    except (SnapshotDamaged, StorageFailed) as error:
        return str(error)
    return ""


def read_state(snapshots: Snapshots, ref: SnapshotRef, read: ReadState) -> Any:
    reading = snapshots.open(ref)
    try:
        return read(reading.body())
    finally:
        reading.close()
