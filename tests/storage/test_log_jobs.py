"""What consensus asks of the disk, on a log in memory whose disk fails when told."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from adsum.consensus.effects import (
    PrepareSegment,
    ReadSnapshot,
    RecordSnapshot,
    SpendBallast,
    StoreGroup,
    WriteSnapshot,
)
from adsum.consensus.reports import (
    BallastSpent,
    ConsensusReport,
    GroupFoundNoRoom,
    GroupStored,
    SegmentPrepared,
    SnapshotFoundNoRoom,
    SnapshotRead,
    SnapshotRecorded,
    SnapshotUnreadable,
    SnapshotWritten,
    StoringFailed,
)
from adsum.raft.batch import LogChange
from adsum.raft.types import (
    Configuration,
    Entry,
    EntryKind,
    MemberId,
    SnapshotMeta,
    SnapshotRef,
    Term,
    Ticket,
)
from adsum.storage import log_jobs
from adsum.storage.log_jobs import DiskJob, damage_of
from adsum.storage.opening import open_log
from adsum.storage.raft_log import RaftLog
from adsum.testing.block_disk import BlockDisk

META = SnapshotMeta(2, Term(1), Configuration(voters=(MemberId("a", "log"),)))


def opened(disk: BlockDisk) -> RaftLog:
    return open_log(disk, node="a", mint_log_id=lambda: "log", mint_salt=bytes, segment_bytes=16_384).log


def joined(pieces: Iterator[bytes]) -> bytes:
    return b"".join(pieces)


def done(job: DiskJob, log: RaftLog) -> ConsensusReport:
    return log_jobs.done(job, log, joined)


def group(*indexes: int, size: int = 1) -> StoreGroup:
    entries = [Entry(index, Term(1), EntryKind.COMMAND, 0, 1, None, b"x" * size) for index in indexes]
    return StoreGroup(Ticket(indexes[-1]), [LogChange(entries=entries)])


def with_snapshot() -> tuple[BlockDisk, RaftLog, SnapshotRef]:
    disk = BlockDisk(Random(1))
    log = opened(disk)
    done(group(1, 2, 3), log)
    written = done(WriteSnapshot(META, iter([b"the ", b"state"])), log)
    assert isinstance(written, SnapshotWritten)
    return disk, log, written.ref


def test_a_group_is_stored_and_says_whether_the_next_segment_has_to_be_made() -> None:
    log = opened(BlockDisk(Random(1)))
    assert done(group(1, 2), log) == GroupStored(Ticket(2), needs_segment=False)
    assert done(group(3, size=12_000), log) == GroupStored(Ticket(3), needs_segment=True)
    assert done(PrepareSegment(), log) == SegmentPrepared(is_full=False)
    assert not log.needs_preparing


def test_a_snapshot_counts_when_the_log_says_so_and_an_older_one_does_not_take_its_place() -> None:
    _disk, log, ref = with_snapshot()
    assert log.snapshot is None
    job = RecordSnapshot(META, ref, 3)
    assert done(job, log) == SnapshotRecorded(META, ref, 3, is_new=True)
    assert log.snapshot == ref
    assert done(job, log) == SnapshotRecorded(META, ref, 3, is_new=False)


def test_the_state_is_read_beside_the_log_and_only_from_a_sound_file() -> None:
    disk, log, ref = with_snapshot()
    install = StoreGroup(Ticket(9), [LogChange(install=ref)])
    assert done(install, log) == GroupStored(Ticket(9), needs_segment=False)
    assert done(ReadSnapshot(ref), log) == SnapshotRead(ref, b"the state")
    (name,) = [name for name in disk.names() if name.endswith(".snapshot")]
    disk.rot(name, 8)
    damage = f"{name} does not match its hash in the log"
    assert done(ReadSnapshot(ref), log) == SnapshotUnreadable(ref, damage)


def test_what_the_state_machine_cannot_read_is_told_with_what_it_said() -> None:
    _disk, log, ref = with_snapshot()

    def read(_pieces: Iterator[bytes]) -> bytes:
        raise ValueError("no state of ours")

    found = log_jobs.done(ReadSnapshot(ref), log, read)
    assert isinstance(found, SnapshotUnreadable)
    assert found.reason.endswith(".snapshot holds no state that can be read (ValueError: no state of ours)")


def test_a_full_disk_is_no_failure() -> None:
    disk, log, _ref = with_snapshot()
    done(group(4, size=12_000), log)
    disk.faults.capacity_bytes = disk.used_bytes
    assert done(WriteSnapshot(META, iter([b"more"])), log) == SnapshotFoundNoRoom(
        "no snapshot could be made: no space left on the simulated disk"
    )
    assert done(PrepareSegment(), log) == SegmentPrepared(is_full=True)
    full = done(group(5, size=12_000), log)
    assert full == GroupFoundNoRoom(Ticket(5), "no space left on the simulated disk")
    assert done(SpendBallast(), log) == BallastSpent(is_spent=True)
    assert done(SpendBallast(), log) == BallastSpent(is_spent=False)


def test_what_stands_in_line_behind_a_failed_sync_fails_as_well() -> None:
    """It was asked for before anybody could know."""
    disk, log, ref = with_snapshot()
    disk.faults.failing_syncs = True
    assert isinstance(done(group(4), log), StoringFailed)
    assert done(RecordSnapshot(META, ref, 3), log) == StoringFailed("a sync of the log failed before")
    assert done(group(5), log) == StoringFailed("a sync of the log failed before")


def test_a_failure_says_what_was_being_done() -> None:
    disk, log, _ref = with_snapshot()
    disk.faults.failing_syncs = True
    failed = done(WriteSnapshot(META, iter([b"more"])), log)
    assert isinstance(failed, StoringFailed)
    assert failed.during == "a snapshot was written"


def test_a_damaged_file_is_told_from_a_sound_one() -> None:
    disk, log, ref = with_snapshot()
    assert damage_of(log.snapshots, ref) == ""
    (name,) = [name for name in disk.names() if name.endswith(".snapshot")]
    disk.rot(name, 8)
    assert "does not match its hash in the log" in damage_of(log.snapshots, ref)
