"""The swarm of locks, or the race for a lock-delay, must notice every rule that is broken, within a stated
number of seeds.

`python -m tests.simulation.test_lock_mutants` begins at 0 with any faults, as the swarm does, and prints
after how many of at most 300 seeds each dies.
"""

from __future__ import annotations

import sys

import pytest

from adsum.testing.lock_race import run_race
from adsum.testing.lock_swarm import run
from tests.simulation import lock_mutants as mutants
from tests.simulation.lock_mutants import Mutation

SEEDS_MAX = 300
FAULTS_S = 15  # less than in the swarm: they die soon

# What is broken, what happens to it, and the seeds.
CASES: list[tuple[Mutation, str, range]] = [
    (mutants.delays_go_by_the_wall_clock, "wall_jump", range(5)),
    (mutants.expired_sessions_leave_no_delay, "", range(5)),
    (mutants.transactions_wait_for_no_delay, "", range(5)),
    (mutants.grants_raise_no_fence, "", range(5)),
    (mutants.lower_tokens_are_taken, "", range(3, 10)),
    (mutants.tokens_are_kept_over_a_release, "", range(5)),
    (mutants.the_next_holder_has_the_token_of_the_last, "", range(5)),
    (mutants.a_deleted_key_forgets_its_fence, "", range(2, 10)),
    (mutants.anybody_may_release, "", range(3, 10)),
    (mutants.ended_sessions_hold_on, "", range(5)),
    (mutants.sessions_expire_when_one_ttl_has_passed, "", range(10)),
    (mutants.transactions_keep_what_came_before_a_failure, "", range(5)),
    (mutants.operations_do_not_see_those_before_them, "", range(10)),
    (mutants.a_tree_that_is_deleted_still_shows, "", range(5)),
    (mutants.a_tree_is_told_as_it_was_before_the_transaction, "", range(5)),
    (mutants.a_key_that_is_read_may_be_missing, "", range(5)),
    (mutants.a_deletion_in_a_transaction_frees_the_lock_only, "", range(5)),
]
RACES: list[tuple[Mutation, range]] = [
    (mutants.delays_are_not_in_the_snapshot, range(5)),
    (mutants.expired_sessions_leave_no_delay, range(5)),
]


@pytest.mark.parametrize(("mutation", "kinds", "seeds"), CASES, ids=[case[0].__name__ for case in CASES])
def test_the_swarm_notices(
    mutation: Mutation, kinds: str, seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    for seed in seeds:
        if failure := run(seed, kinds=kinds.split(), faults_s=FAULTS_S).failure:
            print(f"{mutation.__name__} dies at seed {seed}, of {seeds}: {failure}")
            return
    pytest.fail(f"it lived through {len(seeds)} seeds")


@pytest.mark.parametrize(("mutation", "seeds"), RACES, ids=[case[0].__name__ for case in RACES])
def test_the_race_notices(mutation: Mutation, seeds: range, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    for seed in seeds:
        if failure := run_race(seed):
            print(f"{mutation.__name__} dies in race {seed}: {failure}")
            return
    pytest.fail(f"it lived through {len(seeds)} races")


def test_every_mutant_is_tried() -> None:
    known = [
        name
        for name, mutation in vars(mutants).items()
        if getattr(mutation, "__module__", "") == mutants.__name__ and not name.startswith("_")
    ]
    tried = {case[0].__name__ for case in CASES} | {case[0].__name__ for case in RACES}
    assert sorted(known) == sorted(tried)


def main() -> int:
    """Each as the swarm would meet it."""
    alive = 0
    for mutation in dict.fromkeys([*[case[0] for case in CASES], *[case[0] for case in RACES]]):
        with pytest.MonkeyPatch.context() as patch:
            mutation(patch)
            found = next((seed for seed in range(SEEDS_MAX) if run(seed).failure), None)
        alive += found is None
        told = f"dies at seed {found}" if found is not None else f"lived through {SEEDS_MAX} seeds"
        print(f"{mutation.__name__} {told}", flush=True)
    print(f"{alive} mutants alive.")
    return int(alive > 0)


if __name__ == "__main__":
    sys.exit(main())
