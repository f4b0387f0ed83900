"""The world of sessions, from seeds."""

from __future__ import annotations

import pytest

from adsum.testing.session_swarm import run_sessions


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_sessions_end_never_without_cause_and_always_within_the_bound(seed: int) -> None:
    world, ends = run_sessions(seed)
    assert world.takeovers > 1
    assert ends["EXPIRED"] > 0


def test_a_seed_tells_the_same_again() -> None:
    assert run_sessions(5)[0].digest == run_sessions(5)[0].digest
