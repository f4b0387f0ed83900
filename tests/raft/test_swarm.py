"""A fixed set of seeds, all of which must pass, and one that must be the same run in every process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from adsum.testing.raft_swarm import SwarmRun, first_failure, run

SEEDS = 160  # some fifteen seconds; `python -m adsum.testing.raft_swarm --seeds 2000` runs more, in parallel
SHARES = 8


@pytest.mark.parametrize("share", range(SHARES))
def test_seeds_pass(share: int) -> None:
    size = SEEDS // SHARES
    failed = first_failure(range(share * size, (share + 1) * size))
    assert failed is None, f"seed {failed.seed} {failed.kinds}: {failed.failure}\n{failed.trace}"


def test_runs_do_something() -> None:
    outcomes = [run(seed) for seed in range(12)]
    assert sum(outcome.operations for outcome in outcomes) > 1_000
    assert sum(outcome.elections for outcome in outcomes) > 24


def test_clusters_of_an_earlier_level_are_raised_whatever_goes_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once all know more, by whoever leads; and no server applies an entry by other rules than the rest."""
    monkeypatch.setattr("adsum.raft.types.NEWEST_APPLY_LEVEL", 1)
    for seed in range(0, 24, 2):
        one = SwarmRun(seed)
        one.through()
        levels = [server.core.level.in_force for server in one.cluster.leaders()]
        assert levels == [2], f"seed {seed}"


def test_a_failure_comes_with_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adsum.testing.raft_swarm.RECOVERY_S", 0)
    failed = first_failure(range(1))
    assert failed is not None
    assert failed.failure == "Violation: not back 0 s after the faults ended"
    assert "send Heartbeat" in failed.trace


def test_b19_one_seed_is_one_run_whatever_the_hash_seed() -> None:
    program = "from adsum.testing.raft_swarm import run; print([run(seed).digest for seed in (1, 5, 9)])"
    digests = [
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert digests[0] == digests[1]
    assert len(digests[0].split(",")) == 3
