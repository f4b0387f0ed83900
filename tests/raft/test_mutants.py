"""The swarm must notice every rule that is broken, within a stated number of seeds.

Each mutant meets the faults it cannot stand. The numbers leave room: they are a few times what the search
needs today, which `pytest -rP` prints. Where a mutant is rare the search begins close to where it is known to
end; begun at 0, the rarest takes a hundred seeds.
"""

from __future__ import annotations

import pytest

from adsum.testing.raft_nemesis import DISK_KINDS
from adsum.testing.raft_swarm import run
from tests.raft import mutants
from tests.raft.mutants import Mutation

# What is broken, what happens to it, the first seed and how many of them.
CASES: list[tuple[Mutation, str, int, int]] = [
    (mutants.votes_leave_before_the_disk, "power_loss campaign slow_disk", 0, 50),
    (mutants.votes_are_stored_without_the_candidate, "power_loss campaign", 0, 10),
    (mutants.votes_of_others_are_enough, "stall_disk crash_leader campaign", 0, 60),
    (mutants.acknowledgements_leave_before_the_disk, "power_loss slow_disk", 45, 60),
    (mutants.own_disk_is_not_waited_for, "crash_leader slow_disk stall_disk", 15, 50),
    (mutants.old_terms_are_committed_by_counting, "crash split slow_disk", 0, 20),
    (mutants.commit_runs_ahead_of_what_was_verified, "split_leader campaign delay", 25, 60),
    (mutants.appends_truncate_without_conflict, "delay repeat crash", 0, 30),
    (mutants.anyone_is_up_to_date, "split crash", 0, 20),
    (
        mutants.candidates_need_only_what_their_voter_knows_to_be_committed,
        "split_leader crash_leader",
        25,
        60,
    ),
    (mutants.votes_are_given_twice, "", 0, 60),
    (mutants.reads_are_confirmed_by_nobody, "pause split_leader", 0, 60),
    (mutants.reads_do_not_wait_for_the_terms_first_commit, "", 25, 100),
    (mutants.reads_join_the_question_that_is_under_way, "delay campaign", 110, 60),
    (mutants.heartbeats_commit_what_was_never_matched, "split", 0, 5),
    (mutants.only_the_new_half_is_asked, "move_votes slow_network", 0, 60),
    (mutants.changes_do_not_wait_for_each_other, "change", 20, 60),
    (mutants.changes_count_from_when_the_leader_has_thought_of_them, "move_votes slow_network", 0, 60),
    (mutants.old_snapshots_are_installed, "compact delay loss", 0, 60),
    (mutants.late_answers_bring_another_snapshot, "large_values slow_disk", 60, 60),
    (mutants.commit_news_is_believed_without_the_entry, "campaign split_leader", 20, 60),
    (mutants.states_depend_on_the_server, "pause", 0, 5),
    (mutants.retries_happen_twice, "crash_leader pause", 0, 60),
    (mutants.proposals_are_answered_before_they_are_applied, "split_leader", 0, 10),
    (mutants.proposals_are_answered_for_whatever_took_their_place, "split_leader slow_disk", 0, 60),
    (mutants.retries_go_under_a_new_key, "crash_leader pause", 0, 10),
    (mutants.groups_are_promised_when_they_are_given_to_the_disk, "power_loss slow_disk", 0, 30),
    (mutants.the_log_in_memory_is_bounded_by_its_entries_only, "large_values", 0, 10),
    (mutants.snapshots_leave_as_many_entries_however_large_they_are, "large_values", 0, 10),
    (
        mutants.compaction_does_not_wait_for_a_snapshot_under_way,
        "large_values slow_snapshots leave_behind",
        0,
        100,
    ),
    (mutants.only_whom_gossip_knows_is_heard, "rumours", 0, 10),
    (mutants.servers_are_dialled_only_where_gossip_says, "rumours", 0, 10),
    (mutants.only_ticks_notice_that_the_process_stood_still, "suspend", 0, 20),
    (mutants.the_log_has_no_descriptors_of_its_own, "descriptors", 0, 10),
    (mutants.batches_are_not_synced, "power_loss flicker", 0, 5),
    (mutants.failed_syncs_are_passed_over, "failing_sync power_loss", 0, 10),
    (mutants.values_can_pass_for_batches, "power_loss slow_disk", 1, 100),
    (
        mutants.own_snapshots_are_recorded_while_the_leaders_is_installed,
        "leave_behind change delay split slow_disk",
        0,
        200,
    ),
    (mutants.entries_are_applied_before_the_state_was_read, "leave_behind", 0, 10),
    (mutants.overtaken_states_count, "leave_behind stall_disk", 165, 60),
    (mutants.rot_is_taken_for_a_torn_batch, "rot bad_sector crash", 0, 40),
    (mutants.a_server_that_forgot_keeps_its_name, "rot bad_sector crash", 0, 15),
    (mutants.old_segments_are_used_again_as_they_are, "compact flicker full_disk", 0, 10),
    (
        mutants.zeros_behind_the_log_are_believed_as_they_read,
        "failing_sync cut_power power_loss crash large_values",
        140,
        20,
    ),
    (mutants.snapshots_get_their_name_before_their_bytes_are_safe, "leave_behind cut_power", 0, 10),
    (mutants.segments_go_before_the_log_says_so, "compact cut_power", 0, 20),
    (mutants.damaged_pieces_are_taken, "leave_behind", 0, 40),
]


@pytest.mark.parametrize(
    ("mutation", "kinds", "first", "count"), CASES, ids=[case[0].__name__ for case in CASES]
)
def test_the_swarm_notices(
    mutation: Mutation, kinds: str, first: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)
    needs_disks = any(kind in DISK_KINDS for kind in kinds.split())
    seeds = range(first | 1, first + 2 * count, 2) if needs_disks else range(first, first + count)
    found = next((outcome for seed in seeds if (outcome := run(seed, kinds=kinds.split())).failure), None)
    assert found is not None, f"it lived through {count} seeds"
    print(f"{mutation.__name__} dies at seed {found.seed}, of {seeds}: {found.failure}")


def test_every_mutant_is_tried() -> None:
    known = [
        name
        for name, mutation in vars(mutants).items()
        if getattr(mutation, "__module__", "") == mutants.__name__ and not name.startswith("_")
    ]
    elsewhere = [  # in `test_cluster` and `test_raft_on_disk`, by schedules of their own
        "changes_count_from_when_they_are_in_the_log",
        "headers_that_went_astray_prove_nothing",
    ]
    assert sorted(known) == sorted([*elsewhere, *(case[0].__name__ for case in CASES)])
