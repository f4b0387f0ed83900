"""Sessions, locks, fences and transactions through client agents, from seeds."""

from __future__ import annotations

import pytest

from adsum.testing.lock_race import run_race
from adsum.testing.lock_requests import OPERATIONS
from adsum.testing.lock_swarm import run


@pytest.mark.parametrize("seed", range(3))
def test_locks_have_one_holder_each_and_tokens_rise(seed: int) -> None:
    told = run(seed)
    assert told.failure == "", run(seed, is_traced=True).trace
    assert told.simulated_s >= 60
    assert told.answered >= 200
    assert told.grants > 0
    assert told.ends > 0


def test_a_fault_that_lasts_meets_every_operation() -> None:
    met = run(2, kinds=["wall_jump"], faults_s=30).met
    assert all(met["wall_jump", operation] for operation in OPERATIONS)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_twelve_pollers_get_no_lock_before_its_delay_is_over(seed: int) -> None:
    assert run_race(seed) == ""


def test_a_seed_tells_the_same_again() -> None:
    assert run(7, faults_s=5).digest == run(7, faults_s=5).digest
