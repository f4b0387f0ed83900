"""The newest changes of a keyspace: those that are kept are told as a plain list of them would be."""

from __future__ import annotations

from itertools import chain
from random import Random

import pytest

from adsum.kv import KeyRecord
from adsum.store.history import HANDFUL, HANDFUL_BYTES, Change, History, HistoryBounds


def change(revision: int, key: bytes = b"key", value: bytes = b"") -> Change:
    record = KeyRecord(value, revision, revision, 0, 0)
    return (revision, key, record, record, "agent", 0)


def with_changes(count: int, changes_max: int = 100_000) -> History:
    history = History(HistoryBounds(changes_max, 1 << 30))
    for revision in range(1, count + 1):
        history.add(change(revision))
    return history


@pytest.mark.parametrize("seed", range(6))
def test_it_tells_what_a_list_of_all_changes_would(seed: int) -> None:
    random = Random(seed)
    history, expected = History(HistoryBounds(random.choice((1, 700, 5_000)), 1 << 20)), list[Change]()
    for revision in range(1, 301):
        for _of_one in range(random.choice((1, 1, 1, 40))):
            added = change(revision, b"%d" % random.randrange(9), bytes(random.choice((0, 10, 20_000))))
            history.add(added)
            expected.append(added)
        put_out = list(history.put_out())
        assert put_out == expected[: len(put_out)]
        del expected[: len(put_out)]
        assert len(history) == len(expected)
        assert history.floor == (put_out[-1][0] if put_out else history.floor)
        since = random.randrange(history.floor, revision + 1)
        assert history.after(since) == [each for each in expected if each[0] > since]
        key = b"%d" % random.randrange(9)
        assert history.of(key, 3) == [each for each in expected if each[1] == key][-3:]
        assert list(chain(*history.frozen())) == expected


def test_a_frozen_view_stays_as_it_was() -> None:
    history = with_changes(1_000, changes_max=1_000)
    view = history.frozen()
    for revision in range(1_001, 1_601):
        history.add(change(revision))
        list(history.put_out())
    assert [each[0] for each in chain(*view)] == list(range(1, 1_001))
    assert [each[0] for each in chain(*history.frozen())] == list(range(601, 1_601))


def test_a_view_of_many_changes_is_a_list_of_few() -> None:
    """Python's collector looks through a young list: one of all changes held the loop for 25 ms."""
    assert len(with_changes(10_000).frozen()) == 10_000 // HANDFUL + 1


def test_large_changes_make_small_handfuls_so_that_little_more_is_kept_than_the_bound() -> None:
    history = History(HistoryBounds(100_000, 1 << 20))
    for revision in range(1, 101):
        history.add(change(revision, value=bytes(100_000)))
        list(history.put_out())
    kept = sum(len(each[2].value) for each in chain(*history.frozen()) if each[2] is not None)
    in_handfuls = sum(len(each) for each in history.clear(100))
    assert kept <= 1 << 20
    assert in_handfuls * 100_000 <= (1 << 20) + HANDFUL_BYTES + 100_000


def test_nothing_is_left_of_it_once_it_is_cleared() -> None:
    history = with_changes(1_000)
    assert sum(len(each) for each in history.clear(2_000)) == 1_000
    assert (len(history), history.bytes_total, history.after(2_000)) == (0, 0, [])
    history.add(change(2_001))
    assert [each[0] for each in history.after(2_000)] == [2_001]
