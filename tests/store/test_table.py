"""The table against a dict that is sorted whenever it is asked."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import pytest

from adsum.store.table import BLOCK_KEYS_MAX, FrozenTable, KeyTable, end_of


class Entry(NamedTuple):
    modify: int

    @property
    def bytes_total(self) -> int:
        return self.modify % 7

    @property
    def fence(self) -> int:
        return self.modify % 997


Model = dict[bytes, Entry]


def table_of(*keys: bytes) -> KeyTable[Entry]:
    table: KeyTable[Entry] = KeyTable()
    for revision, key in enumerate(keys, 1):
        table.put(key, Entry(revision))
    return table


def check(table: FrozenTable[Entry], model: Model, bounds: list[bytes]) -> None:
    assert list(table.items(b"", None)) == sorted(model.items())
    assert len(table) == len(model)
    assert table.bytes_total == sum(len(key) + entry.bytes_total for key, entry in model.items())
    for first in bounds:
        for end in (*bounds, None):
            held = {key: entry for key, entry in model.items() if key >= first and (end is None or key < end)}
            assert [key for key, _ in table.items(first, end)] == sorted(held)
            assert table.count(first, end) == len(held)
            assert table.newest(first, end) == max([entry.modify for entry in held.values()], default=0)
        assert table.seek(first) == min([key for key in model if key >= first], default=None)


@pytest.mark.parametrize("seed", range(12))
def test_it_holds_what_a_sorted_dict_holds_and_its_frozen_views_stay(seed: int) -> None:
    random = Random(seed)
    table: KeyTable[Entry] = KeyTable()
    model: Model = {}
    frozen: list[tuple[FrozenTable[Entry], Model]] = []
    names = [b"%s/%d" % (folder, number) for folder in (b"a", b"b", b"b\xff") for number in range(700)]
    for revision in range(1, 4_001):
        key = random.choice(names)
        lot = random.random()
        if lot < 0.7:
            assert table.put(key, Entry(revision)) == model.get(key)
            model[key] = Entry(revision)
        elif lot < 0.98:
            assert table.remove(key) == model.pop(key, None)
        elif lot < 0.99:
            first, end = sorted(random.sample(names, 2))
            gone = [each for block in table.cut(first, end) for each in block.keys]
            assert gone == sorted(each for each in model if first <= each < end)
            for each in gone:
                del model[each]
        else:
            frozen.append((table.freeze(), dict(model)))
        assert table.get(key) == model.get(key)
    bounds = sorted(random.sample(names, 4))
    check(table, model, bounds)
    for block in table.freeze().blocks_as_they_go():
        assert block.fence == max(entry.fence for entry in block.entries)
    for view, then in frozen[-3:]:
        check(view, then, bounds)


def test_a_table_read_back_piece_by_piece_is_the_same() -> None:
    table = table_of(*(b"%05d" % number for number in range(2_000)))
    other: KeyTable[Entry] = KeyTable()
    for keys, entries in table.slices(b"", None):
        other.load(keys, entries)
    assert list(other.items(b"", None)) == list(table.items(b"", None))
    assert other.newest(b"", None) == 2_000
    other.put(b"00000x", Entry(9_000))
    assert other.seek(b"00000a") == b"00000x"
    assert table.get(b"00000x") is None


def test_folders_are_seen_once_each_whatever_lies_below() -> None:
    table = table_of(b"a", b"a/b/1", b"a/b/2", b"a/c", b"a/\xff/1", b"a0", b"b/x")
    assert list(table.folders(b"a/", b"/")) == [b"a/b/", b"a/c", b"a/\xff/"]
    assert list(table.folders(b"", b"/")) == [b"a", b"a/", b"a0", b"b/"]
    assert list(table.folders(b"a", b"/")) == [b"a", b"a/", b"a0"]
    assert list(table.folders(b"", b"\xff")) == [b"a", b"a/b/1", b"a/b/2", b"a/c", b"a/\xff", b"a0", b"b/x"]


def test_a_folder_costs_as_many_steps_as_it_has_results() -> None:
    table = table_of(*(b"%d/%05d" % (folder, number) for folder in range(3) for number in range(5_000)))
    steps: list[bytes] = []
    seek = table.seek
    table.seek = lambda key: (steps.append(key), seek(key))[1]  # type: ignore[method-assign, func-returns-value]
    assert list(table.folders(b"", b"/")) == [b"0/", b"1/", b"2/"]
    assert len(steps) == 4


def test_the_end_of_a_prefix_comes_after_all_that_begin_with_it() -> None:
    assert end_of(b"a/") == b"a0"
    assert end_of(b"a\xff\xff") == b"b"
    assert end_of(b"\xff") is None
    assert end_of(b"") is None


def test_a_full_block_is_split_and_small_neighbours_are_joined() -> None:
    table = table_of(*(b"%05d" % number for number in range(BLOCK_KEYS_MAX + 1)))
    assert len(list(table.slices(b"", None))) == 2
    for number in range(BLOCK_KEYS_MAX - 40):
        table.remove(b"%05d" % number)
    assert len(list(table.slices(b"", None))) == 1


def test_an_empty_table_answers() -> None:
    table = table_of(b"a")
    table.remove(b"a")
    assert table.get(b"a") is None
    assert table.seek(b"") is None
    assert list(table.slices(b"", None)) == []
    assert table.newest(b"", None) == 0
    assert table.cut(b"", None) == []
