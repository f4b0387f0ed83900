"""The world of sessions must notice every rule that is broken, within a stated number of seeds. The search
begins close to where it is known to end."""

from __future__ import annotations

import pytest

from adsum.testing.session_swarm import run_sessions
from tests.simulation import session_mutants as mutants
from tests.simulation.session_mutants import Mutation

# What is broken, what happens to it, the first seed and how many of them.
CASES: list[tuple[Mutation, str, int, int]] = [
    (mutants.sessions_end_when_one_ttl_has_passed, "", 0, 10),
    (mutants.renewals_are_acknowledged_without_a_proof, "split_leader pause", 18, 40),
    (mutants.renewals_do_not_wait_for_an_end_that_is_under_way, "slow_disk stall_disk", 0, 20),
    (mutants.notes_are_not_taken_back, "", 0, 20),
    (mutants.a_new_leader_does_not_read_the_notes, "", 0, 30),
    (mutants.a_new_leader_forgets_to_begin_ttls_anew, "crash_leader", 0, 10),
    (mutants.renewals_move_no_deadline, "", 0, 10),
    (mutants.nobody_else_is_asked_whether_a_node_failed, "", 16, 60),
    (mutants.verdicts_on_an_earlier_life_count, "", 5, 30),
    (mutants.evidence_from_before_the_session_counts, "", 2, 20),
    (mutants.only_what_moves_is_looked_at, "crash_leader", 0, 20),
    (mutants.pauses_move_no_deadline, "suspend pause", 190, 40),
]


def _name(it: object) -> str:
    return getattr(it, "__name__", "")


@pytest.mark.parametrize(("broken", "faults", "first", "seeds"), CASES, ids=_name)
def test_every_broken_rule_is_noticed(
    broken: Mutation, faults: str, first: int, seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    for seed in range(first, first + seeds):
        failure = run_sessions(seed, faults.split()).failure
        if failure:
            print(f"seed {seed}: {failure}")
            return
    pytest.fail(f"{seeds} seeds noticed nothing")
