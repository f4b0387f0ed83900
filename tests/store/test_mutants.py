"""What goes through everything, or compares transactions with their operations, notices each rule that is
broken."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.store import lock_world, mutants, transaction_world
from tests.store.lock_world import Extent, explored
from tests.store.mutants import Mutation

SEEDS = 3_000
WHOLE, DELAYS, LEADERS = Extent(4), Extent(3, times_later=2), Extent(2, 1, renewals=1, leaders=1)


def locks(extent: Extent) -> Callable[[], int]:
    def look() -> int:
        states = 0
        for world in explored(extent):
            states += 1
            other = lock_world.restored(world.machine)
            assert repr(lock_world.whole_of(other)) == repr(lock_world.whole_of(world.machine))
        return states

    return look


def transactions() -> int:
    """How many were done; of these there are enough of both."""
    return sum(map(transaction_world.check, range(SEEDS)))


CASES: list[tuple[Mutation, Callable[[], int]]] = [
    (mutants.delays_are_lost_at_a_restart, locks(DELAYS)),
    (mutants.an_end_starts_no_delay, locks(DELAYS)),
    (mutants.a_release_starts_a_delay, locks(WHOLE)),
    (mutants.a_leader_of_before_is_believed, locks(LEADERS)),
    (mutants.renewals_do_not_count, locks(LEADERS)),
    (mutants.ended_sessions_keep_their_keys, locks(WHOLE)),
    (mutants.what_is_deleted_forgets_its_lock_index, locks(WHOLE)),
    (mutants.a_grant_does_not_raise_the_fence, locks(WHOLE)),
    (mutants.tokens_are_not_looked_at, locks(WHOLE)),
    (mutants.the_holder_is_not_asked, locks(WHOLE)),
    (mutants.held_keys_are_not_read_back, locks(WHOLE)),
    (mutants.operations_do_not_see_trees_that_went, transactions),
    (mutants.what_is_written_anew_forgets_what_was_deleted_before_it, transactions),
    (mutants.a_transaction_that_fails_does_what_did_not, transactions),
    (mutants.sessions_that_a_transaction_ends_may_lock_in_it, transactions),
    (mutants.what_was_deleted_in_a_transaction_is_read_from_the_table, transactions),
]


def test_a_transaction_is_its_operations_one_by_one() -> None:
    done = transactions()
    print(f"{done} of {SEEDS} transactions were done")
    assert SEEDS // 4 < done < SEEDS * 3 // 4


@pytest.mark.parametrize(("mutation", "look"), CASES, ids=[case[0].__name__ for case in CASES])
def test_it_is_noticed(mutation: Mutation, look: Callable[[], int], monkeypatch: pytest.MonkeyPatch) -> None:
    mutation(monkeypatch)
    with pytest.raises(AssertionError) as found:
        look()
    print(f"{mutation.__name__}: {found.value}")


def test_every_mutant_is_tried() -> None:
    known = [
        name
        for name, mutation in vars(mutants).items()
        if getattr(mutation, "__module__", "") == mutants.__name__ and not name.startswith("_")
    ]
    assert sorted(known) == sorted(case[0].__name__ for case in CASES)
