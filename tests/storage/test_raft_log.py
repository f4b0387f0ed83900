from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from adsum.dedup import DedupKey
from adsum.raft.batch import LogChange
from adsum.raft.types import HardState, MemberId, Restored, Term
from adsum.storage.failures import StorageFailed
from adsum.storage.files import DiskFull, OsFolder
from adsum.storage.opening import ForeignLog, open_log
from adsum.storage.raft_log import RaftLog
from adsum.storage.recovery import LogVerdict
from adsum.storage.segment import encode_batch
from adsum.storage.segment_files import BALLAST
from adsum.testing.block_disk import BlockDisk, PowerLost
from tests.storage.raft_logs import (
    NODE,
    SEGMENT_BYTES,
    Model,
    entries,
    entry,
    minting,
    new_disk,
    opened,
    salt,
    snapshot,
    state,
)

VOTE = MemberId("another node", "its log")


def test_a_segment_that_is_waited_for_is_filled_with_one_write_and_one_sync() -> None:
    """Each sync takes its time on a slow disk, and a leader whose disk is silent for too long gives way."""
    segment_bytes = 4 << 20
    disk = new_disk()
    log = opened(disk, segment_bytes=segment_bytes).log
    prepared = disk.operations
    log.join("one", 0)  # takes the spare
    beside = disk.operations - prepared
    log.join("one", 1)  # has to make one first
    assert disk.operations - prepared - 2 * beside == 5  # create, write, sync, rename, sync of the folder
    log.prepare_next()
    assert disk.operations - prepared - 2 * beside == 5 + 3 + 2 * segment_bytes // (256 << 10)


def test_a_change_larger_than_a_segment_says_that_the_disk_gets_on() -> None:
    disk = new_disk()
    log = opened(disk).log
    said: list[int] = []
    log.tell_progress(lambda: said.append(log.last_index))
    log.append([LogChange(entries=entries(1, 2, size=400))])
    assert said == []
    log.append([LogChange(entries=entries(3, 30, size=400))])
    assert set(said) >= {16}  # halves, and halves of these


def test_a_change_larger_than_a_segment_is_not_encoded_before_a_part_of_it_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who encodes 32 MiB of large values before it says anything is silent for too long on a busy host."""
    encoded: list[int] = []
    said: list[int] = []

    def count(*args: object, **named: object) -> tuple[bytes, int]:
        content, chain = encode_batch(*args, **named)  # type: ignore[arg-type]
        encoded.append(len(content))
        return content, chain

    disk = new_disk()
    log = opened(disk, segment_bytes=1 << 20).log
    log.prepare_next()
    monkeypatch.setattr("adsum.storage.raft_log.encode_batch", count)
    log.tell_progress(lambda: said.append(sum(encoded)))
    log.append([LogChange(entries=entries(1, 64, size=32 << 10))])  # two segments of data
    assert said[0] == 525_312  # a quarter, once
    assert log.last_index == 64


@pytest.mark.parametrize(("first_bytes", "then_bytes"), [(8_192, 32_768), (32_768, 8_192)])
def test_a_segment_keeps_its_length_where_the_next_ones_are_made_with_another(
    first_bytes: int, then_bytes: int
) -> None:
    """Written beyond its end it would be damaged for the next start: on all servers that were upgraded."""
    disk = new_disk()
    log = opened(disk, segment_bytes=first_bytes).log
    log.append([LogChange(entries=entries(1, 1, size=600), hard_state=state(1))])
    log.close()
    log = opened(disk, segment_bytes=then_bytes).log
    for index in range(2, 12):
        log.append([LogChange(entries=entries(index, index, size=600))])
    log.close()
    found = opened(disk, segment_bytes=then_bytes)
    assert (found.verdict, found.findings) == (LogVerdict.CLEAN, ())
    assert found.restored.entries == tuple(entries(1, 11, size=600))


def test_a_new_log_is_empty_and_its_id_is_kept() -> None:
    disk = new_disk()
    first = open_log(disk, node=NODE, mint_log_id=minting(), mint_salt=salt, segment_bytes=SEGMENT_BYTES)
    assert (first.verdict, first.restored, first.log.identity.log) == (LogVerdict.NEW, Restored(), "log-1")
    disk.lose_power()
    again = open_log(
        disk, node=NODE, mint_log_id=lambda: "another", mint_salt=salt, segment_bytes=SEGMENT_BYTES
    )
    assert (again.verdict, again.restored, again.log.identity.log) == (LogVerdict.CLEAN, Restored(), "log-1")


def test_what_was_appended_is_there_after_the_power_was_lost() -> None:
    disk = new_disk()
    key = DedupKey("accepting agent", 7, 11, 3)
    written = [entry(1, data=b"x" * 300, dedup=key), entry(2, data=bytes(2000)), entry(3, term=2)]
    opened(disk).log.append([LogChange(entries=written, hard_state=HardState(Term(2), VOTE, 1))])
    disk.lose_power()
    found = opened(disk)
    assert found.verdict is LogVerdict.CLEAN
    assert found.restored.entries == tuple(written)
    assert found.restored.hard_state == HardState(Term(2), VOTE, 1)
    assert list(found.log.entries(1, 3)) == written


def test_b6_a_vote_is_on_disk_when_append_returns() -> None:
    disk = new_disk()
    opened(disk).log.append([LogChange(hard_state=HardState(Term(5), VOTE, 0))])
    disk.lose_power()
    assert opened(disk).restored.hard_state == HardState(Term(5), VOTE, 0)


def test_one_append_is_one_write_and_one_sync_however_many_changes_gathered() -> None:
    disk = new_disk()
    log = opened(disk, segment_bytes=1 << 16).log
    before = disk.operations
    log.append([LogChange(entries=entries(first, first + 9), hard_state=state(1)) for first in (1, 11, 21)])
    assert disk.operations - before == 2


def test_a_commit_index_alone_costs_nothing_and_rides_with_the_next_batch() -> None:
    disk = new_disk()
    log = opened(disk).log
    log.append([LogChange(entries=entries(1, 3), hard_state=state(1))])
    before = disk.operations
    log.append([LogChange(hard_state=state(1, commit=2))])
    assert disk.operations == before
    log.append([LogChange(entries=entries(4, 4))])
    disk.lose_power()
    assert opened(disk).restored.hard_state == state(1, commit=2)


def test_an_orderly_close_keeps_the_commit_index() -> None:
    disk = new_disk()
    log = opened(disk).log
    log.append([LogChange(entries=entries(1, 3), hard_state=state(1))])
    log.append([LogChange(hard_state=state(1, commit=3))])
    log.close()
    disk.lose_power()
    assert opened(disk).restored.hard_state == state(1, commit=3)


def test_a_truncated_suffix_is_replaced_and_never_comes_back() -> None:
    disk = new_disk()
    log = opened(disk).log
    log.append([LogChange(entries=entries(1, 6))])
    log.append([LogChange(truncate_from=4, entries=entries(4, 5, term=2), hard_state=state(2))])
    disk.lose_power()
    found = opened(disk)
    assert found.restored.entries == (*entries(1, 3), *entries(4, 5, term=2))
    assert list(found.log.entries(2, 5)) == [*entries(2, 3), *entries(4, 5, term=2)]


def test_of_two_entries_with_one_index_in_one_write_the_later_one_stands() -> None:
    disk = new_disk()
    log = opened(disk).log
    replaced = LogChange(truncate_from=2, entries=entries(2, 2, term=3), hard_state=state(3))
    log.append([LogChange(entries=entries(1, 4)), replaced])
    assert list(log.entries(1, 2)) == [*entries(1, 1), *entries(2, 2, term=3)]
    disk.lose_power()
    assert opened(disk).restored.entries == (*entries(1, 1), *entries(2, 2, term=3))


def test_a_change_larger_than_a_segment_is_written_in_parts_and_its_commit_last() -> None:
    disk = new_disk()
    log = opened(disk).log
    many = entries(1, 40, size=700)
    log.append([LogChange(entries=many, hard_state=HardState(Term(1), VOTE, 40))])
    disk.lose_power()
    found = opened(disk)
    assert found.restored == Restored(HardState(Term(1), VOTE, 40), entries=tuple(many))
    assert list(found.log.entries(1, 40)) == many


def test_an_installed_snapshot_replaces_the_whole_log() -> None:
    disk = new_disk()
    log = opened(disk).log
    log.append([LogChange(entries=entries(1, 9))])
    ref = snapshot(log, 500, term=3)
    log.append([LogChange(install=ref, entries=entries(501, 502, term=3), hard_state=state(3, commit=500))])
    disk.lose_power()
    found = opened(disk)
    assert (found.restored.snapshot.index, found.restored.snapshot.term) == (500, 3)
    assert found.restored.entries == tuple(entries(501, 502, term=3))
    assert (found.log.first_index, found.log.last_index) == (501, 502)


def test_compaction_gives_segments_back_and_keeps_what_was_asked_for() -> None:
    disk = new_disk()
    log = opened(disk).log
    for first in range(1, 200, 10):
        log.append(
            [LogChange(entries=entries(first, first + 9, size=100), hard_state=state(1, commit=first))]
        )
        log.prepare_next()
    before = [name for name in disk.names() if name.endswith(".segment")]
    ref = snapshot(log, 180)
    log.compact(ref, 171)
    kept = [name for name in disk.names() if name.endswith(".segment")]
    assert len(kept) < len(before) / 4
    assert 100 < log.first_index <= 171
    disk.lose_power()
    found = opened(disk)
    assert found.verdict is LogVerdict.CLEAN
    assert found.restored.snapshot.index == 180
    assert found.restored.entries == tuple(entries(found.log.first_index, 200, size=100))


def test_a_segment_that_is_used_again_shows_nothing_of_its_former_life() -> None:
    disk = new_disk()
    log = opened(disk).log
    for first in range(1, 400, 10):
        log.append([LogChange(entries=entries(first, first + 9, size=50), hard_state=state(1, commit=first))])
        if first % 50 == 1:
            log.compact(snapshot(log, first), first + 1)
        log.prepare_next()
    assert len(disk.names()) < 12
    disk.lose_power()
    assert opened(disk).restored.entries[-1] == entries(400, 400, size=50)[0]


def test_b21_a_failed_sync_is_never_tried_again() -> None:
    disk = new_disk()
    log = opened(disk).log
    disk.faults.failing_syncs = True
    with pytest.raises(StorageFailed, match="input/output error"):
        log.append([LogChange(entries=entries(1, 1))])
    disk.faults.failing_syncs = False
    with pytest.raises(AssertionError, match="after a failed sync"):
        log.append([LogChange(entries=entries(1, 1))])


def test_b21_a_sync_that_finds_no_room_is_a_failed_sync() -> None:
    """Some file systems look for room as late as that; who took it for `DiskFull` would try again."""
    disk = new_disk()
    log = opened(disk).log
    disk.faults.syncs_find_no_room = True
    with pytest.raises(StorageFailed, match="no room where room was made"):
        log.append([LogChange(entries=entries(1, 1))])
    assert log.has_failed


def test_b21_what_a_failed_sync_left_readable_is_written_again_before_it_is_believed() -> None:
    for seed in range(20):
        disk = new_disk(seed)
        log = opened(disk).log
        log.append([LogChange(entries=entries(1, 2))])
        disk.faults.failing_syncs = True
        with pytest.raises(StorageFailed):
            log.append([LogChange(entries=entries(3, 4, size=600))])
        disk.faults.failing_syncs = False
        disk.kill()
        found = opened(disk)  # the page cache still holds the batch
        assert found.log.last_index == 4
        disk.lose_power()
        assert opened(disk).log.last_index == 4


def test_b21_zeros_that_a_failed_sync_left_readable_are_written_again_before_they_are_believed() -> None:
    for seed in range(20):
        disk = new_disk(seed)
        log = opened(disk).log
        log.append([LogChange(entries=entries(1, 1))])
        disk.faults.crash_before = 1
        with pytest.raises(PowerLost):
            log.append([LogChange(entries=entries(2, 3, size=600))])
        disk.lose_power()
        disk.faults.failing_syncs = True
        with pytest.raises(StorageFailed):
            opened(disk)  # takes the torn batch away
        disk.faults.failing_syncs = False
        disk.kill()
        log = opened(disk).log  # the page cache holds zeros, the disk what was torn
        last = log.last_index
        log.append([LogChange(entries=entries(last + 1, last + 1))])
        disk.lose_power()
        found = opened(disk)
        assert (found.verdict, found.findings) == (LogVerdict.CLEAN, ())
        assert found.log.last_index == last + 1


def test_the_next_segment_is_ready_before_it_is_needed_and_a_full_disk_is_met_there() -> None:
    disk = new_disk()
    log = opened(disk).log
    disk.faults.capacity_bytes = 0
    log.append([LogChange(entries=entries(1, 3, size=1000))])
    log.append([LogChange(entries=entries(4, 6, size=1000))])  # the spare is used up
    assert log.needs_preparing
    log.prepare_next()
    assert log.is_full
    assert list(log.entries(1, 6)) == entries(1, 6, size=1000)
    log.append([LogChange(hard_state=HardState(Term(2), VOTE, 6))])  # there is still room for a vote


def test_on_a_full_disk_nothing_of_a_refused_change_is_written_and_it_may_be_tried_again() -> None:
    disk = new_disk()
    log = opened(disk).log
    disk.faults.capacity_bytes = 0
    log.append([LogChange(entries=entries(1, 3, size=1000))])
    log.append([LogChange(entries=entries(4, 6, size=1000))])
    refused = LogChange(entries=entries(7, 9, size=1000))
    with pytest.raises(DiskFull):
        log.append([refused])
    assert log.last_index == 6
    disk.faults.capacity_bytes = None
    log.append([refused])
    disk.lose_power()
    assert opened(disk).restored.entries == tuple(entries(1, 9, size=1000))


def test_the_ballast_makes_room_for_a_snapshot_and_comes_back_when_there_is_room() -> None:
    disk = new_disk()
    log = opened(disk).log
    log.append([LogChange(entries=entries(1, 3, size=1000))])
    log.append([LogChange(entries=entries(4, 6, size=1000))])
    disk.faults.capacity_bytes = sum(disk.bits(name) // 8 for name in disk.names())
    with pytest.raises(DiskFull):
        snapshot(log, 5)
    assert [name for name in disk.names() if "snapshot" in name] == []
    assert log.spend_ballast()
    assert not log.spend_ballast()
    log.compact(snapshot(log, 5), 6)
    disk.faults.capacity_bytes = None
    log.prepare_next()
    assert BALLAST in disk.names()
    assert not log.is_full


def test_a_log_of_another_node_is_refused_untouched() -> None:
    disk = new_disk()
    opened(disk).log.append([LogChange(entries=entries(1, 1))])
    with pytest.raises(ForeignLog, match="belongs to node"):
        open_log(
            disk, node="someone else", mint_log_id=minting(), mint_salt=salt, segment_bytes=SEGMENT_BYTES
        )
    assert opened(disk).restored.entries == tuple(entries(1, 1))


def test_the_cluster_and_its_epoch_are_remembered() -> None:
    disk = new_disk()
    log = opened(disk).log
    log.append([LogChange(entries=entries(1, 1))])
    log.join("cluster", 0)
    log.join("cluster", 1)
    disk.lose_power()
    identity = opened(disk).log.identity
    assert (identity.cluster, identity.epoch, identity.log) == ("cluster", 1, "log-1")
    with pytest.raises(AssertionError, match="never changes its cluster"):
        log.join("another cluster", 1)


def scripted() -> list[tuple[str, LogChange | int]]:
    """A life in short: elections, appends small and large, a divergence, two compactions, a snapshot."""
    return [
        ("append", LogChange(hard_state=state(1, vote=VOTE))),
        ("append", LogChange(entries=entries(1, 2), hard_state=state(1))),
        ("append", LogChange(entries=entries(3, 8, size=500), hard_state=state(1, commit=2))),
        ("append", LogChange(truncate_from=6, entries=entries(6, 7, term=2), hard_state=state(2, commit=5))),
        ("compact", 5),
        ("append", LogChange(entries=entries(8, 15, term=2, size=900), hard_state=state(2, commit=7))),
        ("append", LogChange(entries=entries(16, 17, term=3), hard_state=state(3, commit=15, vote=VOTE))),
        ("compact", 15),
        ("append", LogChange(entries=[entry(18, 3, bytes(3000))], hard_state=state(3, commit=17))),
        ("install", 60),
        ("append", LogChange(entries=entries(61, 63, term=4), hard_state=state(4, commit=61))),
    ]


class Life:
    """Runs the script and remembers what was acknowledged, and what was on its way."""

    def __init__(self, disk_seed: int) -> None:
        self.disk = new_disk(disk_seed)
        self.acknowledged = Model()
        self.on_its_way: list[Model] = []

    def run(self) -> None:
        log = opened(self.disk).log
        for verb, what in scripted():
            if isinstance(what, LogChange):
                self._append(log, what)
            elif verb == "compact":
                term = next(found.term for found in self.acknowledged.kept if found.index == what)
                ref = snapshot(log, what, term)
                self.on_its_way = [self.acknowledged.compacted(what)]
                log.compact(ref, what - 2)
            else:
                self._append(log, LogChange(install=snapshot(log, what, 4), hard_state=state(4, commit=what)))
            self.acknowledged = self.on_its_way[-1]
            log.prepare_next()
        log.close()

    def _append(self, log: RaftLog, change: LogChange) -> None:
        self.on_its_way = [*self.acknowledged.parts_of(change), self.acknowledged.after(change)]
        log.append([change])

    def explains(self, restored: Restored) -> bool:
        return any(model.explains(restored) for model in (self.acknowledged, *self.on_its_way))


def operations_of_a_life() -> int:
    life = Life(0)
    life.run()
    return life.disk.operations


def test_b17_b18_b22_the_power_is_lost_at_every_write_and_sync_and_nothing_acknowledged_is() -> None:
    for point in range(operations_of_a_life()):
        for seed in range(6):
            life = Life(seed)
            life.disk.faults.crash_before = point
            with pytest.raises(PowerLost):
                life.run()
            life.disk.lose_power()
            found = opened(life.disk, minted="never")
            assert found.verdict is not LogVerdict.CORRUPT, (point, seed, found.findings)
            assert life.explains(found.restored), (point, seed, found.restored)


def test_a_process_killed_at_every_point_leaves_what_the_next_one_may_believe() -> None:
    """And a power loss right after the next start, or at every point of it, takes nothing of that back."""
    for point in range(0, operations_of_a_life(), 3):
        for later in range(0, 14, 2):
            life = Life(point)
            life.disk.faults.crash_before = point
            with pytest.raises(PowerLost):
                life.run()
            life.disk.kill()
            life.disk.faults.crash_before = later
            try:
                believed = opened(life.disk, minted="never").restored
            except PowerLost:
                believed = None
            life.disk.lose_power()
            found = opened(life.disk, minted="never")
            assert found.verdict is not LogVerdict.CORRUPT, (point, later, found.findings)
            assert life.explains(found.restored), (point, later)
            assert believed in (None, found.restored)


def test_the_same_life_on_a_real_disk(tmp_path: Path) -> None:
    life = Life(0)
    life.disk = folder = OsFolder(tmp_path / "raft")  # type: ignore[assignment]
    life.run()
    with pytest.raises(StorageFailed, match="in use by another process"):
        OsFolder(tmp_path / "raft")
    found = opened(folder)
    assert found.verdict is LogVerdict.CLEAN
    assert life.acknowledged.explains(found.restored)
    found.log.close()
    folder.close()


def test_recovery_is_the_same_however_the_power_fails_while_it_repairs() -> None:
    life = Life(3)
    life.disk.faults.crash_before = 60
    with pytest.raises(PowerLost):
        life.run()
    life.disk.lose_power()
    for point in range(12):
        copy = life.disk.copy(Random(point))
        copy.faults.crash_before = point
        try:
            opened(copy, minted="never")
            copy.kill()
        except PowerLost:
            copy.lose_power()
        assert life.explains(opened(copy, minted="never").restored)


class FullWhenRemoving(BlockDisk):
    """As some file systems are, which write a new tree to remove a name."""

    is_full = False

    def remove(self, name: str) -> None:
        if self.is_full:
            raise DiskFull(f"could not remove {name}: no space left")
        super().remove(name)

    def rename(self, old: str, new: str) -> None:
        if self.is_full and old.endswith(".segment"):
            raise DiskFull(f"could not rename {old}: no space left")
        super().rename(old, new)


def test_what_is_written_is_not_written_again_for_want_of_room_to_tidy_up() -> None:
    disk = FullWhenRemoving(Random(0))
    log = opened(disk).log
    for first in (1, 4, 7):
        log.append([LogChange(entries=entries(first, first + 2, size=1000), hard_state=state(1, commit=9))])
        log.prepare_next()
    ref = snapshot(log, 9)
    disk.is_full = True
    log.compact(ref, 10)
    log.append([LogChange(entries=entries(10, 10))])
    disk.is_full = False
    disk.lose_power()
    found = opened(disk)
    assert found.verdict is LogVerdict.CLEAN
    assert found.restored.snapshot.index == 9
    assert [each.index for each in found.restored.entries if each.index > 9] == [10]
    found.log.compact(snapshot(found.log, 10), 11)
    assert found.log.first_index == 10  # what could not go before is gone
