"""The sums by which servers compare their tables."""

from __future__ import annotations

import pytest

from adsum.kv import KeyRecord, RecordExtras
from adsum.store.machine import StoreMachine
from adsum.store.table_sum import SUM_MASK, TableSum
from tests.store.stores import Store
from tests.store.test_snapshot import used


def record(value: bytes, modify: int = 2) -> KeyRecord:
    return KeyRecord(value, 1, modify, 3, 4)


def sum_of(**records: KeyRecord) -> int | None:
    total: TableSum[KeyRecord] = TableSum()
    total.load([key.encode() for key in records], list(records.values()))
    return total.value


@pytest.mark.parametrize("seed", range(4))
def test_kept_by_what_changes_it_is_that_of_what_is_there(seed: int) -> None:
    space = used(seed).space
    for table, kept in ((space.table, space.table_sum), (space.tombstones, space.tombstones_sum)):
        again: TableSum[KeyRecord] = TableSum()
        for keys, entries in table.slices(b"", None):
            again.load(keys, entries)  # type: ignore[arg-type]
        assert len(table) > 10
        assert kept.value == again.value


def test_order_and_blocks_do_not_matter() -> None:
    one: TableSum[KeyRecord] = TableSum()
    one.load([b"a"], [record(b"1")])
    one.load([b"b", b"c"], [record(b"2"), record(b"3")])
    assert one.value == sum_of(c=record(b"3"), a=record(b"1"), b=record(b"2"))


def test_what_came_and_went_leaves_nothing() -> None:
    total: TableSum[KeyRecord] = TableSum()
    total.gathered += [(b"a", None, record(b"1")), (b"a", record(b"1"), record(b"2"))]
    assert total.value not in (0, None)
    total.gathered += [(b"a", record(b"2"), None)]
    assert total.value == 0


def test_each_part_of_an_entry_counts() -> None:
    entries = [
        record(b"1"),
        record(b"2"),
        record(b"1", modify=3),
        KeyRecord(b"1", 1, 2, 3, 4, flags=1),
        KeyRecord(b"1", 1, 2, 3, 4, lease="s"),
        KeyRecord(b"1", 1, 2, 3, 4, extras=RecordExtras(fence=1)),
    ]
    sums = [sum_of(a=entry) for entry in entries]
    assert len(set(sums)) == len(entries)
    assert sum_of(b=entries[0]) not in sums
    assert all(each is not None and 0 <= each <= SUM_MASK for each in sums)


def test_while_a_large_tree_is_let_go_of_there_is_no_hash_and_then_the_right_one() -> None:
    store = Store()
    for number in range(9_000):
        store.put(b"tree/%d" % number, b"1")
    store.put(b"key", b"1")
    assert store.delete_tree(b"tree/").count == 9_000
    assert store.machine.hash() is None
    assert store.machine.let_go(8)
    assert store.machine.hash() is None
    while store.machine.let_go(8):
        pass
    other = StoreMachine()
    other.restore(other.read(store.machine.snapshot()))
    assert store.space.table_sum.value == other.keyspaces[0].table_sum.value
    assert store.machine.hash() == other.hash()
    assert other.hash() is not None
