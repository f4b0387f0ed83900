"""The world of sessions, from seeds; `make soak` runs many."""

from __future__ import annotations

import pytest

from adsum.testing.session_swarm import run_sessions

TWO_OF_THREE_DISKS_STALL = 416484802303


@pytest.mark.parametrize("seed", [1, 2, 3, 5, TWO_OF_THREE_DISKS_STALL])
def test_sessions_end_never_without_cause_and_always_within_the_bound(seed: int) -> None:
    outcome = run_sessions(seed)
    assert outcome.failure == ""
    assert outcome.takeovers > 1
    assert outcome.ends["EXPIRED"] > 0


def test_a_seed_tells_the_same_again() -> None:
    assert run_sessions(6) == run_sessions(6)
