"""The swarm must notice every rule that is broken, within a stated number of seeds.

Each mutant meets the faults it cannot stand. The numbers leave room: a search from seed 0 needs about half of
them. Two are rare (a joint change counted by one half, changes that do not wait), so their search begins
where it is known to end, and `make soak` is where it would begin at 0.
"""

from __future__ import annotations

import pytest

from adsum.testing.raft_swarm import run
from tests.raft import mutants
from tests.raft.mutants import Mutation

CASES: list[tuple[Mutation, str, range]] = [
    (mutants.votes_leave_before_the_disk, "power_loss campaign slow_disk", range(25)),
    (mutants.acknowledgements_leave_before_the_disk, "power_loss slow_disk", range(25)),
    (mutants.own_disk_is_not_waited_for, "crash_leader slow_disk stall_disk", range(10)),
    (mutants.old_terms_are_committed_by_counting, "crash split slow_disk", range(20)),
    (mutants.commit_runs_ahead_of_what_was_verified, "split_leader campaign delay", range(35)),
    (mutants.appends_truncate_without_conflict, "delay repeat crash", range(30)),
    (mutants.anyone_is_up_to_date, "split crash", range(15)),
    (mutants.votes_are_given_twice, "", range(25)),
    (mutants.reads_are_confirmed_by_nobody, "pause split_leader", range(70)),
    (mutants.reads_do_not_wait_for_the_terms_first_commit, "", range(20, 60)),
    (mutants.heartbeats_commit_what_was_never_matched, "split", range(5)),
    (mutants.only_the_new_half_is_asked, "move_votes slow_network", range(105, 220)),
    (mutants.changes_do_not_wait_for_each_other, "change move_votes slow_network", range(30)),
    (mutants.old_snapshots_are_installed, "compact delay loss", range(25)),
    (mutants.commit_news_is_believed_without_the_entry, "campaign split_leader", range(10)),
    (mutants.states_depend_on_the_server, "pause", range(5)),
]


@pytest.mark.parametrize(("mutation", "kinds", "seeds"), CASES, ids=[case[0].__name__ for case in CASES])
def test_the_swarm_notices(
    mutation: Mutation, kinds: str, seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    assert any(run(seed, kinds=kinds.split()).failure for seed in seeds)


def test_every_mutant_is_tried() -> None:
    known = [
        name
        for name, mutation in vars(mutants).items()
        if getattr(mutation, "__module__", "") == mutants.__name__ and not name.startswith("_")
    ]
    assert sorted(known) == sorted(case[0].__name__ for case in CASES)
