from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from adsum.servers.collector import KeptFromCollector


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def frozen_by(kept: KeptFromCollector, keys: int) -> bool:
    before = gc.get_freeze_count()
    block = [object()]  # as one of the table's, which the collector would look at
    kept.changed(keys, 0)
    return gc.get_freeze_count() > before and block not in gc.get_objects()


def test_a_store_is_kept_from_the_collector_each_time_it_has_grown_by_a_quarter() -> None:
    kept = KeptFromCollector()
    sizes = [9_999, 10_000, 12_499, 12_500, 5_000, 15_624, 15_625]
    assert [frozen_by(kept, keys) for keys in sizes] == [False, True, False, True, False, False, True]


def test_copied_blocks_are_looked_at_while_they_are_few() -> None:
    """Python looks at the young when more were made than freed, and here each copy frees a block."""
    kept = KeptFromCollector()
    young: list[bool] = []
    for copies in (255, 256, 300, 511, 512, 3, 258):
        block = [object()]
        kept.changed(100, copies)
        young.append(any(each is block for each in gc.get_objects(generation=0)))
    assert young == [True, False, True, True, False, False, True]  # another table has 3
