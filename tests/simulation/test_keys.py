"""Keys through client agents, with servers and agents that are killed, paused and cut off, from seeds."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from adsum.raft.changer import ChangeVerb, Step
from adsum.raft.types import Configuration, MemberId
from adsum.testing.judged_request import OPERATIONS
from adsum.testing.key_nemesis import next_step
from adsum.testing.key_swarm import run

A, B, C = (MemberId(name, "log") for name in "abc")


@pytest.mark.parametrize("seed", range(20))
def test_every_answer_fits_one_order_of_events_and_who_watches_misses_nothing(seed: int) -> None:
    told = run(seed)
    assert told.failure == "", run(seed, is_traced=True).trace
    assert told.simulated_s >= 60
    assert told.answered >= 200
    assert told.changes_seen > 0


def test_a_fault_that_lasts_meets_every_operation() -> None:
    met = run(1, kinds=["wall_jump"]).met
    assert all(met["wall_jump", operation] for operation in OPERATIONS)


def test_a_failure_comes_with_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adsum.testing.key_swarm.FAULTS_S", 1)
    monkeypatch.setattr("adsum.testing.key_swarm.RECOVERY_S", 0)
    failed = run(0, is_traced=True)
    assert "0 s after the faults ended" in failed.failure
    assert "ask 100 KeyWrite" in failed.trace


@pytest.mark.parametrize(
    ("standing", "meant", "step"),
    [
        (Configuration((A, B, C)), ChangeVerb.VOTE, None),
        (Configuration((A, B, C)), ChangeVerb.LEARN, Step(ChangeVerb.LEARN, C)),
        (Configuration((A, B, C)), ChangeVerb.REMOVE, Step(ChangeVerb.REMOVE, C)),
        (Configuration((A, B)), ChangeVerb.REMOVE, None),
        (Configuration((A, B)), ChangeVerb.VOTE, Step(ChangeVerb.LEARN, C)),
        (Configuration((A, B), learners=(C,)), ChangeVerb.LEARN, None),
        (Configuration((A, B), learners=(C,)), ChangeVerb.LEAVE, Step(ChangeVerb.LEAVE, C)),
        (Configuration((A, B), learners=(C,)), ChangeVerb.VOTE, Step(ChangeVerb.VOTE, C)),
    ],
)
def test_the_operator_takes_one_step_after_the_other(
    standing: Configuration, meant: ChangeVerb, step: Step | None
) -> None:
    assert next_step(standing, C, meant) == step


def test_a_seed_is_one_run_in_every_process() -> None:
    program = "from adsum.testing.key_swarm import run; print(run(7).digest)"
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
    assert digests[0].strip().isdecimal()
