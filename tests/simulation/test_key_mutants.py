"""The swarm of keys must notice every rule that is broken, within a stated number of seeds.

Each mutant meets the faults that it cannot stand; `pytest -rP` prints at which seed it ends.
`python -m tests.simulation.test_key_mutants` begins at 0 with any faults, as the swarm does, and prints after
how many of at most 300 seeds each ends.
"""

from __future__ import annotations

import sys

import pytest

from adsum.testing.key_swarm import KeySwarmOutcome, run
from tests.simulation import key_mutants as mutants
from tests.simulation.key_mutants import Mutation

SEEDS_MAX = 300

# What is broken, what happens to it, and the seeds.
CASES: list[tuple[Mutation, str, range]] = [
    (mutants.writes_do_not_compare, "", range(5)),
    (mutants.repeats_are_run_again, "crash_leader", range(5)),
    (mutants.answers_are_not_in_the_snapshot, "leave_behind crash_leader", range(20)),
    (mutants.forgotten_answers_raise_no_floor, "crash_leader split_leader", range(2, 80, 4)),
    (mutants.deletions_leave_no_trace, "", range(5)),
    (mutants.deleted_trees_leave_no_trace, "", range(5)),
    (mutants.indexes_of_what_is_absent_may_fall, "", range(5)),
    (mutants.prefixes_wake_nobody, "", range(5)),
    (mutants.reads_are_confirmed_by_nobody, "split_leader", range(20)),
    (mutants.retries_go_under_another_name, "crash_leader", range(5)),
    (mutants.later_attempts_look_like_the_first, "crash_leader split_leader", range(2, 80, 4)),
    (mutants.retries_know_what_is_known_by_now, "crash_leader split_leader", range(2, 80, 4)),
    (mutants.what_may_have_been_done_is_refused, "split_leader crash_leader", range(1, 60, 3)),
    (mutants.broken_lines_count_as_not_sent, "split_leader crash_leader", range(1, 60, 3)),
    (mutants.who_hangs_up_takes_those_with_him_who_joined, "", range(5)),
    (mutants.only_the_first_of_those_who_joined_is_answered, "", range(5)),
    (mutants.all_reads_may_be_old, "split_leader", range(20)),
]


@pytest.mark.parametrize(("mutation", "kinds", "seeds"), CASES, ids=[case[0].__name__ for case in CASES])
def test_the_swarm_notices(
    mutation: Mutation, kinds: str, seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    found = first_found(seeds, kinds)
    assert found is not None, f"it lived through {len(seeds)} seeds"
    print(f"{mutation.__name__} dies at seed {found.seed}, of {seeds}: {found.failure}")


def test_every_mutant_is_tried() -> None:
    known = [
        name
        for name, mutation in vars(mutants).items()
        if getattr(mutation, "__module__", "") == mutants.__name__ and not name.startswith("_")
    ]
    assert sorted(known) == sorted(case[0].__name__ for case in CASES)


def first_found(seeds: range, kinds: str = "") -> KeySwarmOutcome | None:
    return next((outcome for seed in seeds if (outcome := run(seed, kinds=kinds.split())).failure), None)


def main() -> int:
    """Each as the swarm would meet it."""
    alive = 0
    for mutation, _kinds, _seeds in CASES:
        with pytest.MonkeyPatch.context() as patch:
            mutation(patch)
            found = first_found(range(SEEDS_MAX))
        alive += found is None
        told = f"dies at seed {found.seed}: {found.failure}" if found else f"lived through {SEEDS_MAX} seeds"
        print(f"{mutation.__name__} {told[:200]}", flush=True)
    print(f"{len(CASES)} mutants, {alive} alive.")
    return int(alive > 0)


if __name__ == "__main__":
    sys.exit(main())
