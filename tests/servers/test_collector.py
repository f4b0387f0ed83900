from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from adsum.servers.collector import KeptFromCollector


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def is_frozen_by(kept: KeptFromCollector, keys: int, made: int) -> bool:
    before = gc.get_freeze_count()
    block = [object()]  # as one of the table's, which the collector would look at
    kept.changed(0, keys, made)
    return gc.get_freeze_count() > before and block not in gc.get_objects()


def is_looked_at_by(kept: KeptFromCollector, applied: int, made: int) -> bool:
    block = [object()]
    kept.changed(applied, 100, made)
    return all(each is not block for each in gc.get_objects(generation=0))


def test_a_large_store_is_kept_from_the_collector_each_time_that_many_blocks_were_made() -> None:
    kept = KeptFromCollector()
    made = [192, 256, 448, 512, 3]  # another table has 3
    assert [is_frozen_by(kept, 10_000, each) for each in made] == [False, True, False, True, True]
    assert is_frozen_by(KeptFromCollector(), 1_000_000, 8_000)
    assert not is_frozen_by(KeptFromCollector(), 9_999, 5_000)


def test_blocks_are_looked_at_while_they_are_few() -> None:
    """Python looks at the young when more were made than freed, and a copy frees a block."""
    kept = KeptFromCollector()
    looked_at = [is_looked_at_by(kept, 0, each) for each in (63, 64, 70, 127, 128, 3, 67)]
    assert looked_at == [False, True, False, False, True, True, True]


def test_the_young_are_looked_at_each_thousand_entries() -> None:
    """Each change puts an old one out of the history, so that Python's count of the young stays as it is."""
    kept = KeptFromCollector()
    looked_at = [is_looked_at_by(kept, applied, 0) for applied in (999, 1_000, 1_999, 2_000)]
    assert looked_at == [False, True, False, True]
