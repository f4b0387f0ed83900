from __future__ import annotations

from contextlib import suppress

import pytest

from adsum.consensus.carrying import OpenPart, ReceiveTrouble, TakePiece
from adsum.raft.types import Configuration, MemberId, SnapshotMeta, SnapshotRef, Term
from adsum.storage import snapshots as snapshots_module
from adsum.storage.arriving import ArrivingFile
from adsum.storage.failures import StorageFailed
from adsum.storage.snapshots import Piece, SnapshotDamaged, Snapshots, decode_meta, encode_meta
from adsum.testing.block_disk import BlockDisk, PowerLost
from tests.storage.raft_logs import new_disk

A, B, C, D = (MemberId(name, "log") for name in "abcd")
META = SnapshotMeta(9, Term(2), Configuration((A, B), (A, C), (D,), (C,), True), 1234, 3, 1)
BODY = b"state " * 50


def snapshots(disk: BlockDisk) -> Snapshots:
    return Snapshots(disk, piece_bytes=64)


def by_two(disk: BlockDisk) -> Snapshots:
    """What arrives is synced after every second piece."""
    return Snapshots(disk, piece_bytes=64, synced_bytes=128)


def made(disk: BlockDisk, body: bytes = BODY) -> SnapshotRef:
    making = snapshots(disk).make(META)
    for start in range(0, len(body), 50):
        making.write(body[start : start + 50])
    return making.finish()


def pieces_of(disk: BlockDisk, ref: SnapshotRef) -> list[Piece]:
    reading = snapshots(disk).open(ref)
    return [reading.piece(offset) for offset in range(0, reading.length, 64)]


def test_the_meta_travels_inside_and_nothing_of_it_is_lost() -> None:
    disk = new_disk()
    ref = made(disk)
    disk.lose_power()
    reading = snapshots(disk).open(ref)
    assert snapshots(disk).verify(ref) == reading.meta() == META
    assert b"".join(reading.body()) == BODY
    assert decode_meta(encode_meta(META)) == META


def test_a_snapshot_is_there_in_whole_or_not_at_all_wherever_the_power_goes() -> None:
    for point in range(20):
        disk = new_disk(point)
        disk.faults.crash_before = point
        ref = None
        with suppress(PowerLost):
            ref = made(disk)
        disk.lose_power()
        names = [name for name in disk.names() if name.endswith(".snapshot")]
        assert not ref or names
        if names:
            assert snapshots(disk).verify(made(new_disk())) == META


def test_what_is_written_is_synced_before_there_is_much_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the log's syncs would wait behind a hundred megabytes at the end."""
    monkeypatch.setattr(snapshots_module, "SYNCED_BYTES", 1_000)
    disk = new_disk()
    making = snapshots(disk).make(META)
    making.write(b"x" * 800)
    disk.faults.failing_syncs = True
    with pytest.raises(StorageFailed):
        making.write(b"x" * 200)


def test_b5_a_transfer_goes_on_from_what_was_synced() -> None:
    """What came behind that is not counted on, even where only the process was killed."""
    source = new_disk()
    ref = made(source)
    pieces = pieces_of(source, ref)
    came: list[int] = []
    for cut in range(len(pieces)):
        disk = new_disk(cut)
        receiving = by_two(disk).receive(ref)
        assert all(receiving.take(piece) for piece in pieces[:cut])
        disk.kill()
        came.append(by_two(disk).receive(ref).offset)
    assert came == [0, 0, 0, 128, 128, 256]


def test_b5_a_transfer_cut_off_by_a_power_loss_ends_with_the_file_that_was_meant() -> None:
    source = new_disk()
    ref = made(source, BODY * 4)  # of several sectors, any of which may be lost
    pieces = pieces_of(source, ref)
    resumed = 0
    for seed in range(3 * len(pieces)):
        disk = new_disk(seed)
        receiving = by_two(disk).receive(ref)
        assert all(receiving.take(piece) for piece in pieces[: seed % len(pieces)])
        disk.lose_power()
        again = by_two(disk).receive(ref)
        resumed += again.offset > 0
        assert all(again.take(piece) for piece in pieces[again.offset // 64 :])
        assert again.finish() == META
        disk.lose_power()
        assert snapshots(disk).verify(ref) == META
    assert resumed > 20


def test_what_could_not_be_synced_for_want_of_room_is_not_counted_on() -> None:
    """The system has let go of it, and would say the next time that it is synced."""
    source, disk = new_disk(), new_disk()
    ref = made(source)
    arriving = ArrivingFile(by_two(disk))
    first, second, *_ = [TakePiece(offset, crc, content) for offset, content, crc in pieces_of(source, ref)]
    assert arriving.done(OpenPart(ref)) == 0
    assert arriving.done(first) == 64
    disk.faults.syncs_find_no_room = True
    assert arriving.done(second) is ReceiveTrouble.FULL
    disk.faults.syncs_find_no_room = False
    assert arriving.done(OpenPart(ref)) == 0


def test_damaged_repeated_and_early_pieces_change_nothing() -> None:
    source, disk = new_disk(), new_disk()
    ref = made(source)
    first, second, *_ = pieces_of(source, ref)
    receiving = snapshots(disk).receive(ref)
    assert not receiving.take(first._replace(content=b"x" + first.content[1:]))
    assert not receiving.take(second)
    assert receiving.take(first)
    assert not receiving.take(first)
    assert receiving.offset == 64


def test_more_than_was_announced_is_refused() -> None:
    source, disk = new_disk(), new_disk()
    ref = made(source)
    short = SnapshotRef(ref.index, ref.term, 10, ref.sha256)
    assert not snapshots(disk).receive(short).take(pieces_of(source, ref)[0])


def test_a_snapshot_that_arrives_with_another_hash_begins_again() -> None:
    source, disk = new_disk(), new_disk()
    ref = made(source)
    wrong = SnapshotRef(ref.index, ref.term, ref.size_bytes, bytes(32))
    receiving = snapshots(disk).receive(wrong)
    assert all(receiving.take(piece) for piece in pieces_of(source, ref))
    with pytest.raises(SnapshotDamaged, match="does not match its hash"):
        receiving.finish()
    assert snapshots(disk).receive(wrong).offset == 0


def test_b5_a_newer_snapshot_takes_the_place_of_one_half_received() -> None:
    source, disk = new_disk(), new_disk()
    old = made(source)
    pieces = pieces_of(source, old)
    snapshots(disk).receive(old).take(pieces[0])
    newer = SnapshotRef(20, Term(3), 100, bytes(32))
    assert snapshots(disk).receive(newer).offset == 0
    assert [name for name in disk.names() if name.endswith(".receiving")] == [
        name for name in disk.names() if name.startswith(f"{20:016x}")
    ]


def test_a_snapshot_of_the_same_index_in_other_bytes_does_not_take_the_place_of_ours() -> None:
    source, disk = new_disk(), new_disk()
    theirs, ours = made(source, b"the same state, written in another order"), made(disk)
    receiving = snapshots(disk).receive(theirs)
    assert all(receiving.take(piece) for piece in pieces_of(source, theirs))
    assert receiving.finish() == META
    assert snapshots(disk).verify(ours) == snapshots(disk).verify(theirs) == META
    snapshots(disk).clean_up(ours)
    with pytest.raises(SnapshotDamaged, match="missing"):
        snapshots(disk).verify(theirs)


def test_what_no_record_names_is_gone_after_a_start_but_a_later_one_may_wait_for_its_batch() -> None:
    disk = new_disk()
    for index in (6, 7, 8):
        snapshots(disk).make(SnapshotMeta(index, Term(2), Configuration((A,)))).finish()
    ref = made(disk)
    snapshots(disk).make(META)  # never finished
    snapshots(disk).remove_before(SnapshotRef(8, Term(2), 0, b""))
    assert [name[:16] for name in disk.names()] == [f"{index:016x}" for index in (7, 8, 9, 9)]
    snapshots(disk).remove_before(SnapshotRef(5, Term(1), 0, b""))
    assert snapshots(disk).verify(ref) == META
    snapshots(disk).clean_up(None)
    assert disk.names() == []
