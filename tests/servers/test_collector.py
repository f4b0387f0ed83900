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
    kept.grown(keys)
    return gc.get_freeze_count() > before and block not in gc.get_objects()


def test_a_store_is_kept_from_the_collector_each_time_it_has_grown_by_a_quarter() -> None:
    kept = KeptFromCollector()
    sizes = [9_999, 10_000, 12_499, 12_500, 5_000, 15_624, 15_625]
    assert [frozen_by(kept, keys) for keys in sizes] == [False, True, False, True, False, False, True]
