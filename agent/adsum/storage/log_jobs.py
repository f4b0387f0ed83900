"""What consensus asks of the disk, done: each effect is one job, and what becomes of it is the report.

The server runs the jobs in threads, the simulation on a disk that fails; this is all that both do with the
log. `StoreGroup` and `RecordSnapshot` change the log and are done one after the other, by one thread; the
rest may go on beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from adsum.consensus import effects, reports
from adsum.raft.batch import LogChange
from adsum.raft.types import SnapshotRef
from adsum.storage.consent import write_consent
from adsum.storage.failures import StorageFailed
from adsum.storage.files import DiskFull, ReadFailed
from adsum.storage.raft_log import RaftLog
from adsum.storage.snapshots import SnapshotDamaged, Snapshots, snapshot_name

FoundingJob = effects.StoreFirstSnapshot | effects.WriteClusterId | effects.WriteConsent
ReadState = Callable[[Iterator[bytes]], Any]
DiskJob = (
    effects.StoreGroup
    | effects.RecordSnapshot
    | effects.WriteSnapshot
    | effects.ReadSnapshot
    | effects.PrepareSegment
    | effects.SpendBallast
)


class StateUnreadable(Exception):
    """The state machine cannot read what a snapshot's file holds, whatever it raised itself."""


def done(job: DiskJob, raft_log: RaftLog, read: ReadState) -> reports.ConsensusReport:
    """`read` is the state machine's."""
    try:
        return _done(job, raft_log, read)
    except (StorageFailed, ReadFailed) as error:
        return reports.StoringFailed(str(error), _during(job))


def _done(job: DiskJob, raft_log: RaftLog, read: ReadState) -> reports.ConsensusReport:
    if raft_log.has_failed and isinstance(job, effects.StoreGroup | effects.RecordSnapshot):
        return reports.StoringFailed("a sync of the log failed before")  # asked for before anybody could know
    match job:
        case effects.StoreGroup():
            return _store(job, raft_log)
        case effects.RecordSnapshot():
            return _record(job, raft_log)
        case effects.WriteSnapshot():
            return _write_snapshot(job, raft_log.snapshots)
        case effects.ReadSnapshot(ref):
            return _read_snapshot(ref, raft_log.snapshots, read)
        case effects.SpendBallast():
            with suppress(DiskFull):  # some file systems need room to remove a file
                return reports.BallastSpent(raft_log.spend_ballast())
            return reports.BallastSpent(is_spent=False)
    raft_log.prepare_next()
    return reports.SegmentPrepared(raft_log.is_full)


def _store(job: effects.StoreGroup, raft_log: RaftLog) -> reports.ConsensusReport:
    try:
        raft_log.append(job.changes)
    except DiskFull as error:
        return reports.GroupFoundNoRoom(job.ticket, str(error))
    return reports.GroupStored(job.ticket, raft_log.needs_preparing)


def _record(job: effects.RecordSnapshot, raft_log: RaftLog) -> reports.ConsensusReport:
    newest = raft_log.snapshot
    if newest is not None and newest.index >= job.meta.index:
        return reports.SnapshotRecorded(job.meta, job.ref, job.first_kept, is_new=False)
    try:
        raft_log.compact(job.ref, job.first_kept)
    except DiskFull as error:
        sentence = f"a snapshot was made, and the log has no room to say so: {error}"
        return reports.SnapshotFoundNoRoom(sentence)
    return reports.SnapshotRecorded(job.meta, job.ref, job.first_kept, is_new=True)


def _write_snapshot(job: effects.WriteSnapshot, snapshots: Snapshots) -> reports.ConsensusReport:
    try:
        making = snapshots.make(job.meta)
        for piece in job.pieces:
            making.write(piece)
        return reports.SnapshotWritten(job.meta, making.finish())
    except DiskFull as error:
        return reports.SnapshotFoundNoRoom(f"no snapshot could be made: {error}")


def _read_snapshot(ref: SnapshotRef, snapshots: Snapshots, read: ReadState) -> reports.ConsensusReport:
    if damage := damage_of(snapshots, ref):
        return reports.SnapshotUnreadable(ref, damage)
    try:
        return reports.SnapshotRead(ref, read_state(snapshots, ref, read))
    except (StateUnreadable, StorageFailed) as error:
        return reports.SnapshotUnreadable(ref, str(error))


def _during(job: DiskJob) -> str:
    match job:
        case effects.WriteSnapshot():
            return "a snapshot was written"
        case effects.PrepareSegment() | effects.SpendBallast():
            return "the next segment was made ready"
    return ""


def founding_done(job: FoundingJob, raft_log: RaftLog) -> reports.FoundingReport:
    """Of a log that is of no cluster yet."""
    try:
        return _founding_done(job, raft_log)
    except DiskFull as error:
        return reports.FoundingFoundNoRoom(str(error))
    except StorageFailed as error:
        return reports.StoringFailed(str(error))


def _founding_done(job: FoundingJob, raft_log: RaftLog) -> reports.FoundingReport:
    match job:
        case effects.WriteConsent(nodes):
            write_consent(raft_log.folder, nodes)
            return reports.ConsentWritten(nodes)
        case effects.WriteClusterId(cluster_id, epoch):
            raft_log.join(cluster_id, epoch)
            with suppress(DiskFull):  # a member asks nobody whether it may found
                write_consent(raft_log.folder, ())
            return reports.ClusterIdWritten(cluster_id)
    making = raft_log.snapshots.make(job.meta)
    for piece in job.pieces:
        making.write(piece)
    raft_log.append([LogChange(install=making.finish())])
    return reports.FirstSnapshotStored(job.meta)


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
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise StateUnreadable(f"{snapshot_name(ref)} holds no state that can be read ({why})") from error
    finally:
        reading.close()
