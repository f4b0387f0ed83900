"""Torn or corrupt: what a power loss leaves is taken away in silence, what was acknowledged never is."""

from __future__ import annotations

from random import Random

import pytest

from adsum.raft.batch import LogChange
from adsum.raft.types import HardState, MemberId, Term
from adsum.storage.files import SECTOR_BYTES
from adsum.storage.opening import DOUBT, OpenedLog, vouch
from adsum.storage.raft_log import RaftLog
from adsum.storage.recovery import LogVerdict
from adsum.storage.segment import SEGMENT_HEADER_BYTES
from adsum.storage.segment_files import SPARE, segment_name
from adsum.testing.block_disk import BlockDisk, PowerLost
from tests.storage.raft_logs import Model, entries, entry, new_disk, opened, snapshot, state

VOTE = MemberId("another node", "its log")


def small_log() -> tuple[BlockDisk, Model]:
    """Two segments, a snapshot, a divergence; entries of zeros, whose sectors look as if never written."""
    disk, model = new_disk(), Model()
    log = opened(disk).log
    for change in (
        LogChange(entries=entries(1, 5), hard_state=state(1, vote=VOTE)),
        LogChange(truncate_from=4, entries=entries(4, 6, term=2, size=400), hard_state=state(2, commit=3)),
        LogChange(entries=[entry(7, 2, bytes(1500))], hard_state=state(2, commit=6)),
    ):
        log.append([change])
        model = model.after(change)
    log.compact(snapshot(log, 3), 2)
    change = LogChange(entries=[entry(8, 2, bytes(1200))], hard_state=HardState(Term(3), VOTE, 6))
    log.append([change])
    log.close()
    return disk, model.compacted(3).after(change)


def names_of(disk: BlockDisk) -> list[str]:
    return [name for name in disk.names() if name.endswith((".segment", ".snapshot"))]


def is_true_or_said(found: OpenedLog, model: Model) -> bool:
    """Everything is there, or it is said that something is not and nobody here may vote."""
    if found.verdict is not LogVerdict.CORRUPT:
        return model.explains(found.restored)
    is_stranger = found.log.identity.log == "log-2"
    return is_stranger and found.restored.hard_state.vote is None and bool(found.doubt)


def test_every_flipped_bit_is_recovered_or_reported_and_never_forgets_in_silence() -> None:
    disk, model = small_log()
    reported = total = 0
    for name in names_of(disk):
        for bit in list(disk.used_bits(name))[:: 1 if name.endswith("snapshot") else 7]:
            copy = disk.copy(Random(bit))
            copy.rot(name, bit)
            found = opened(copy, minted="log-2")
            assert is_true_or_said(found, model), (name, bit, found)
            reported += found.verdict is LogVerdict.CORRUPT
            total += 1
    assert reported > total / 2  # the rest hit padding, where nothing is


def test_every_lost_or_unreadable_sector_is_recovered_or_reported() -> None:
    disk, model = small_log()
    for name in names_of(disk):
        for sector in sorted({bit // 8 // SECTOR_BYTES for bit in disk.used_bits(name)}):
            copy = disk.copy(Random(sector))
            copy.make_unreadable(name, sector)
            assert is_true_or_said(opened(copy, minted="log-2"), model), (name, sector)


def test_a_flipped_bit_in_the_last_batch_is_not_taken_for_a_torn_write() -> None:
    disk = new_disk()
    opened(disk).log.append([LogChange(entries=entries(1, 3), hard_state=state(1))])
    disk.rot(segment_name(1), (SEGMENT_HEADER_BYTES + 90) * 8)
    found = opened(disk, minted="log-2")
    assert found.verdict is LogVerdict.CORRUPT
    assert "no sector of it is missing" in found.findings[0]


def test_a_batch_that_lacks_a_sector_is_torn_and_taken_away() -> None:
    disk = new_disk()
    log = opened(disk, segment_bytes=1 << 16).log
    log.append([LogChange(entries=entries(1, 3), hard_state=state(1))])
    disk.faults.crash_before = 1  # written, not synced
    with pytest.raises(PowerLost):
        log.append([LogChange(entries=entries(4, 40, size=300))])
    disk.lose_power()
    found = opened(disk, segment_bytes=1 << 16)
    assert found.verdict is LogVerdict.TORN
    assert "never finished" in found.findings[0]
    assert found.restored.entries == tuple(entries(1, 3))
    found.log.append([LogChange(entries=entries(4, 4, term=2), hard_state=state(2))])
    disk.lose_power()
    again = opened(disk, segment_bytes=1 << 16)
    assert again.verdict is LogVerdict.CLEAN  # of the torn batch, which was larger, nothing is left behind it
    assert again.restored.entries[3:] == tuple(entries(4, 4, term=2))


def test_what_lies_behind_a_torn_batch_was_not_torn() -> None:
    """A part of an acknowledged batch that went astray leaves a hole, and itself behind the hole."""
    disk = new_disk()
    log = opened(disk, segment_bytes=1 << 16).log
    log.append([LogChange(entries=entries(1, 9, size=300), hard_state=state(1))])
    file = disk.open(segment_name(1))
    astray = file.read(SEGMENT_HEADER_BYTES + SECTOR_BYTES, SECTOR_BYTES)
    file.write(SEGMENT_HEADER_BYTES + SECTOR_BYTES, bytes(SECTOR_BYTES))
    file.sync()
    disk.sync()
    hole = disk.copy(Random(0))
    file.write(SEGMENT_HEADER_BYTES + 40 * SECTOR_BYTES, astray)
    file.sync()
    assert opened(hole, segment_bytes=1 << 16).verdict is LogVerdict.TORN
    assert opened(disk, segment_bytes=1 << 16, minted="log-2").verdict is LogVerdict.CORRUPT


def test_a_spare_that_is_not_zeros_is_not_used() -> None:
    disk = new_disk()
    log = opened(disk).log
    file = disk.open(SPARE)
    file.write(8000, b"astray")
    file.sync()
    log.append([LogChange(entries=entries(1, 3, size=1000), hard_state=state(1))])
    found = opened(disk)
    found.log.append([LogChange(entries=entries(4, 6, size=1000), hard_state=state(1))])
    disk.lose_power()
    assert opened(disk).verdict is LogVerdict.CLEAN


def test_a_spare_that_cannot_be_read_costs_nothing() -> None:
    disk, model = small_log()
    opened(disk)
    disk.make_unreadable(SPARE, 3)
    found = opened(disk)
    assert found.verdict is LogVerdict.CLEAN
    assert model.explains(found.restored)
    assert not found.log.needs_preparing


def test_entries_of_another_history_are_not_put_behind_a_snapshot_found_after_the_damage() -> None:
    disk = new_disk()
    log = opened(disk, segment_bytes=1 << 16).log
    log.append([LogChange(entries=entries(1, 6), hard_state=state(1, commit=2))])
    log.append([LogChange(truncate_from=3, entries=entries(3, 7, term=2), hard_state=state(2, commit=2))])
    log.append([LogChange(hard_state=state(2, commit=5, vote=VOTE))])
    log.append([LogChange(hard_state=state(3, commit=5))])
    log.compact(snapshot(log, 4, term=2), 5)
    log.join("cluster", 0)  # the next segment's header names the snapshot
    disk.rot(segment_name(1), (SEGMENT_HEADER_BYTES + SECTOR_BYTES) * 8)
    found = opened(disk, segment_bytes=1 << 16, minted="log-2")
    assert found.verdict is LogVerdict.CORRUPT
    assert (found.restored.snapshot.index, found.restored.snapshot.term) == (4, 2)
    assert found.restored.entries == ()


def test_a_torn_batch_with_sectors_that_are_zeros_by_nature_is_still_told_from_rot() -> None:
    verdicts = set()
    for seed in range(40):
        disk = new_disk(seed)
        log = opened(disk, segment_bytes=1 << 16).log
        log.append([LogChange(entries=entries(1, 1))])
        disk.faults.crash_before = 1
        with pytest.raises(PowerLost):
            log.append([LogChange(entries=[entry(2, data=bytes(4000)), entry(3, data=b"x" * 900)])])
        disk.lose_power()
        found = opened(disk, segment_bytes=1 << 16, minted="log-2")
        assert found.log.last_index in (1, 3)
        verdicts.add(found.verdict)
    assert verdicts == {LogVerdict.TORN, LogVerdict.CLEAN}


def test_damage_with_a_later_batch_is_corruption_whatever_it_looks_like() -> None:
    disk = new_disk()
    log = opened(disk, segment_bytes=1 << 16).log
    for index in (1, 2, 3):
        log.append([LogChange(entries=entries(index, index), hard_state=state(1, commit=index - 1))])
    file = disk.open(segment_name(1))
    file.write(SEGMENT_HEADER_BYTES + SECTOR_BYTES, bytes(SECTOR_BYTES))  # as if the second never came
    file.sync()
    found = opened(disk, segment_bytes=1 << 16, minted="log-2")
    assert found.verdict is LogVerdict.CORRUPT
    assert "batch 3 was written" in found.findings[0]
    assert found.restored.entries == tuple(entries(1, 1))


def test_what_is_known_to_be_committed_may_not_be_missing() -> None:
    disk = new_disk()
    log = opened(disk, segment_bytes=1 << 16).log
    log.append([LogChange(entries=entries(1, 3), hard_state=state(1, commit=3))])
    log.append([LogChange(truncate_from=4, hard_state=state(2, commit=3))])
    log.join("cluster", 0)  # its new segment's header repeats the commit index
    whole = disk.copy(Random(0))
    assert opened(whole, segment_bytes=1 << 16).verdict is LogVerdict.CLEAN
    disk.remove(segment_name(1))
    disk.sync()
    found = opened(disk, segment_bytes=1 << 16, minted="log-2")
    assert found.verdict is LogVerdict.CORRUPT
    assert found.log.last_index == 0


def test_a_missing_segment_in_the_middle_is_corruption() -> None:
    disk = new_disk()
    log = opened(disk).log
    for first in (1, 4, 7):
        log.append([LogChange(entries=entries(first, first + 2, size=1000), hard_state=state(1))])
    disk.remove(segment_name(2))
    disk.sync()
    found = opened(disk, minted="log-2")
    assert found.verdict is LogVerdict.CORRUPT
    assert found.restored.entries == tuple(entries(1, 3, size=1000))


def test_a_write_that_went_to_the_wrong_place_is_corruption_and_not_a_torn_batch() -> None:
    """Nothing of it lies where it belongs, just as if the power had gone before; but it lies elsewhere."""
    places = (
        (segment_name(1), SEGMENT_HEADER_BYTES),
        (segment_name(1), SEGMENT_HEADER_BYTES + 8 * SECTOR_BYTES),
        ("spare", 2048),
    )
    for place in places:
        disk = new_disk()
        log = opened(disk, segment_bytes=1 << 16).log
        log.append([LogChange(entries=entries(1, 3), hard_state=state(1))])
        disk.faults.misdirected_to = place
        log.append([LogChange(entries=entries(4, 6), hard_state=state(1))])
        found = opened(disk, segment_bytes=1 << 16, minted="log-2")
        assert found.verdict is LogVerdict.CORRUPT, place


@pytest.mark.parametrize(
    "sector", [2, 8, 9, 11, 12, 13], ids=["before all", "first", "last", "in the last", "its end", "promise"]
)
def test_the_header_of_a_segment_that_went_astray_is_no_torn_batch(sector: int) -> None:
    """It is mostly zeros, as what was never written; but the batches that it took away were synced before
    it."""
    disk = new_disk()
    log = opened(disk).log
    log.append([LogChange(entries=entries(1, 1), hard_state=state(1))])
    log.append([LogChange(entries=entries(2, 2, size=1500))])
    log.append([LogChange(hard_state=state(3, vote=VOTE))])
    disk.faults.misdirected_to = (segment_name(1), sector * SECTOR_BYTES)
    disk.faults.crash_before, disk.faults.spares_power = 1, True  # before the spare becomes a segment
    with pytest.raises(PowerLost):
        log.join("cluster", 0)
    disk.kill()
    found = opened(disk, minted="log-2")
    assert found.verdict is LogVerdict.CORRUPT, found
    assert found.restored.hard_state == state(3)


def never_begun() -> BlockDisk:
    """The process ended between the header's write and the rename: it lies in the spare."""
    disk = new_disk()
    log = opened(disk).log
    log.append([LogChange(entries=entries(1, 1), hard_state=state(1))])
    disk.faults.crash_before, disk.faults.spares_power = 1, True
    with pytest.raises(PowerLost):
        log.join("cluster", 0)
    disk.kill()
    return disk


def test_the_header_of_a_segment_that_was_never_begun_takes_nothing_away() -> None:
    found = opened(never_begun())
    assert (found.verdict, found.log.last_index) == (LogVerdict.CLEAN, 1)


def test_the_header_of_a_segment_that_was_never_begun_tells_what_was_there() -> None:
    disk = never_begun()
    file = disk.open(segment_name(1))
    file.write(SEGMENT_HEADER_BYTES, bytes(SECTOR_BYTES))
    file.sync()
    found = opened(disk, minted="log-2")
    assert found.verdict is LogVerdict.CORRUPT
    assert "the segment after it begins with batch 2, so it was whole once" in found.findings[0]


def beginning_its_third_segment() -> tuple[BlockDisk, RaftLog]:
    """The first one waits to be used again."""
    disk = new_disk()
    log = opened(disk).log
    log.append([LogChange(entries=entries(1, 3), hard_state=state(1, commit=3))])
    log.join("cluster", 0)
    log.prepare_next()
    log.compact(snapshot(log, 3), 4)
    log.join("cluster", 1)
    return disk, log


def test_zeros_that_went_astray_over_the_end_of_the_log_are_the_same_as_nothing_written() -> None:
    """What no log can know, none promises; and the simulated disk spares it these zeros."""
    disk, log = beginning_its_third_segment()
    log.append([LogChange(entries=entries(4, 4))])
    disk.faults.misdirected_to = (segment_name(3), SEGMENT_HEADER_BYTES)
    log.prepare_next()
    disk.kill()
    shorter, _ = beginning_its_third_segment()
    for name in (segment_name(2), segment_name(3)):
        assert disk.open(name).read(0, 1 << 16) == shorter.open(name).read(0, 1 << 16)
    found = opened(disk)
    assert (found.verdict, found.log.last_index) == (LogVerdict.CLEAN, 3)


def test_after_corruption_the_server_is_a_stranger_with_a_head_start() -> None:
    disk, _ = small_log()
    disk.rot(segment_name(1), (SEGMENT_HEADER_BYTES + 3 * SECTOR_BYTES) * 8)
    found = opened(disk, minted="log-2")
    assert found.verdict is LogVerdict.CORRUPT
    assert found.log.identity.log == "log-2"
    assert found.restored.hard_state.term == 3  # seen behind the damage: terms never fall
    assert found.restored.hard_state.vote is None
    assert [name for name in disk.names() if name.endswith(".damaged")]
    found.log.append([LogChange(entries=entries(found.log.last_index + 1, 9, term=4), hard_state=state(4))])
    disk.lose_power()
    again = opened(disk, minted="never")
    assert (again.verdict, again.log.identity.log) == (LogVerdict.CLEAN, "log-2")
    assert again.doubt == found.findings
    vouch(disk)
    disk.lose_power()
    assert opened(disk, minted="never").doubt == ()


def test_b21_a_repair_interrupted_anywhere_ends_in_a_stranger_and_never_in_the_old_voter() -> None:
    disk, _ = small_log()
    disk.rot(segment_name(1), (SEGMENT_HEADER_BYTES + 3 * SECTOR_BYTES) * 8)
    for point in range(45):
        copy = disk.copy(Random(point))
        copy.faults.crash_before = point
        try:
            opened(copy, minted="log-2")
            copy.kill()
        except PowerLost:
            copy.lose_power()
        found = opened(copy, minted="log-3")
        assert found.log.identity.log in ("log-2", "log-3"), point
        assert found.doubt
        copy.lose_power()
        assert opened(copy, minted="never").log.identity.log == found.log.identity.log


@pytest.mark.parametrize("has_power", [True, False], ids=["killed", "without power"])
def test_a_repair_interrupted_anywhere_and_again_keeps_its_cluster_and_every_set_aside_file(
    *, has_power: bool
) -> None:
    disk = new_disk()
    log = opened(disk, segment_bytes=1 << 16).log
    log.join("cluster", 3)
    log.append([LogChange(entries=[entry(1, data=b"acknowledged")], hard_state=state(1, commit=1))])
    disk.rot(segment_name(2), (SEGMENT_HEADER_BYTES + 60) * 8)
    first_repair, second_repair = 40, 45
    for first in range(first_repair):
        for second in range(0, second_repair, 5):
            copy = disk.copy(Random(first * 100 + second))
            for minted, point in (("log-2", first), ("log-3", second)):
                copy.faults.crash_before = point
                try:
                    opened(copy, segment_bytes=1 << 16, minted=minted)
                    copy.kill()
                except PowerLost:
                    if has_power:
                        copy.kill()
                    else:
                        copy.lose_power()
            found = opened(copy, segment_bytes=1 << 16, minted="log-4")
            identity = found.log.identity
            assert (identity.cluster, identity.epoch) == ("cluster", 3), (first, second)
            assert identity.log != "log-1"
            assert found.doubt, (first, second)
            assert len(set(found.doubt)) == len(found.doubt), "each finding is said once"
            kept = [copy.open(name) for name in copy.names() if name.endswith(".damaged")]
            assert any(b"acknowledged" in file.read(0, file.length()) for file in kept), (first, second)


def damaged_before_the_record_of_its_snapshot(*, epoch: int = 0) -> BlockDisk:
    disk = new_disk()
    log = opened(disk, segment_bytes=1 << 16).log
    log.join("cluster", epoch)
    log.append([LogChange(entries=entries(1, 50), hard_state=state(1, commit=50))])
    log.compact(snapshot(log, 40, body=b"acknowledged"), 41)
    log.append([LogChange(entries=entries(51, 60), hard_state=state(1, commit=60))])
    log.close()
    disk.rot(segment_name(2), (SEGMENT_HEADER_BYTES + 3 * SECTOR_BYTES) * 8)
    return disk


def test_a_snapshot_whose_record_lies_behind_the_damage_is_a_head_start_and_no_repair_removes_it() -> None:
    """The file is whole, and with one server there is no other copy of what it holds."""
    disk = damaged_before_the_record_of_its_snapshot()
    for point in range(60):
        copy = disk.copy(Random(point))
        copy.faults.crash_before = point
        try:
            opened(copy, segment_bytes=1 << 16, minted="log-2")
            copy.kill()
        except PowerLost:
            copy.lose_power()
        found = opened(copy, segment_bytes=1 << 16, minted="log-3")
        assert found.restored.snapshot.index == found.log.last_index == 40, point
        assert found.log.snapshot is not None
        assert b"".join(found.log.snapshots.open(found.log.snapshot).body()) == b"acknowledged"


def test_a_snapshot_that_no_log_names_must_be_whole_and_of_this_epoch() -> None:
    """An earlier one may be of what was lost when the quorum was recovered."""
    rotten = damaged_before_the_record_of_its_snapshot()
    [name] = [name for name in rotten.names() if name.endswith(".snapshot")]
    rotten.rot(name, 8 * (rotten.open(name).length() - 1))
    earlier = damaged_before_the_record_of_its_snapshot(epoch=1)  # the snapshot itself is of epoch 0
    for disk in (rotten, earlier):
        found = opened(disk, segment_bytes=1 << 16, minted="log-2")
        assert (found.verdict, found.restored.snapshot.index) == (LogVerdict.CORRUPT, 0)


def test_the_spare_that_proves_the_damage_is_there_until_the_damage_is_on_record() -> None:
    """The next start would find nothing but a log that ends sooner."""
    disk = new_disk()
    log = opened(disk, segment_bytes=1 << 16).log
    log.append([LogChange(entries=entries(1, 1), hard_state=state(1, commit=1))])
    disk.faults.misdirected_to = (SPARE, SEGMENT_HEADER_BYTES)
    log.append([LogChange(entries=entries(2, 2))])
    disk.lose_power()
    for point in range(30):
        copy = disk.copy(Random(point))
        copy.faults.crash_before = point
        try:
            opened(copy, segment_bytes=1 << 16, minted="log-2")
            copy.kill()
        except PowerLost:
            copy.lose_power()
        found = opened(copy, segment_bytes=1 << 16, minted="log-3")
        assert found.log.identity.log in ("log-2", "log-3"), point


def test_an_unreadable_doubt_is_still_a_doubt() -> None:
    disk, _ = small_log()
    file = disk.create(DOUBT)
    file.write(0, b"\xff\xff\xff")
    file.sync()
    disk.sync()
    found = opened(disk, minted="log-2")
    assert found.verdict is LogVerdict.CORRUPT
    assert found.log.identity.log == "log-2"
    disk.make_unreadable(DOUBT, 0)
    assert opened(disk, minted="log-3").log.identity.log == "log-3"


def test_a_damaged_snapshot_is_a_lost_state_unless_the_log_still_has_everything() -> None:
    disk, _ = small_log()
    name = next(name for name in disk.names() if name.endswith(".snapshot"))
    disk.rot(name, 200)
    found = opened(disk, minted="log-2")
    assert found.verdict is LogVerdict.CORRUPT
    assert "does not match its hash" in found.findings[-1]
    assert found.restored.snapshot.index == 0


def test_b18_all_voters_losing_power_in_mid_batch_start_again_unaided() -> None:
    """A leader and its followers write the same batch when the lights go out: none of them is in doubt,
    and what one of them had acknowledged is there on that one."""
    for seed in range(60):
        random = Random(seed)
        disks = [new_disk(seed * 10 + voter) for voter in range(3)]
        logs = [opened(disk, segment_bytes=1 << 16).log for disk in disks]
        for log in logs:
            log.append([LogChange(entries=entries(1, 5, size=random.randrange(900)), hard_state=state(1))])
        acknowledged = []
        for disk, log in zip(disks, logs, strict=True):
            disk.faults.crash_before = random.randrange(3)
            try:
                log.append([LogChange(entries=entries(6, 20, size=200), hard_state=state(1, commit=5))])
                acknowledged.append(disk)
            except PowerLost:
                pass
            disk.lose_power()
        found = {id(disk): opened(disk, segment_bytes=1 << 16, minted="never") for disk in disks}
        assert all(one.verdict is not LogVerdict.CORRUPT for one in found.values())
        assert all(one.log.last_index in (5, 20) for one in found.values())
        assert all(found[id(disk)].log.last_index == 20 for disk in acknowledged)


def test_damage_to_the_oldest_header_forgets_neither_cluster_nor_epoch() -> None:
    disk = new_disk()
    log = opened(disk, segment_bytes=1 << 16).log
    log.append([LogChange(entries=entries(1, 2), hard_state=state(1, commit=2))])
    log.join("cluster", 0)
    log.append([LogChange(entries=entries(3, 4))])
    log.join("cluster", 5)
    disk.rot(segment_name(1), 200)
    found = opened(disk, segment_bytes=1 << 16, minted="log-2")
    assert found.verdict is LogVerdict.CORRUPT
    assert (found.log.identity.cluster, found.log.identity.epoch) == ("cluster", 5)
