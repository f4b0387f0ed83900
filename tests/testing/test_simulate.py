from __future__ import annotations

import pytest

from adsum.gossip.settings import GossipSettings
from adsum.now import MINUTE, SECOND
from adsum.testing.simulate import measure, simulate
from adsum.testing.simulate_figures import Figures, Plan, Scenario, Watch, figures_of
from adsum.testing.simulate_told import told, told_short


def figures(nodes: int, scenario: Scenario, seconds: int, *, loss: float = 0.05, seed: int = 1) -> Figures:
    return simulate(Plan(nodes, scenario, loss, seconds * SECOND, seed))


def test_an_update_reaches_everybody_within_two_seconds_at_five_percent_loss() -> None:
    run = figures(80, Scenario.QUIET, 36)
    assert run.update_all.count == 3
    assert run.update_all.max_s < 2
    assert run.false_verdicts == 0


def test_what_a_member_sends_does_not_grow_with_the_cluster() -> None:
    small, large = figures(40, Scenario.QUIET, 20), figures(120, Scenario.QUIET, 20)
    assert large.messages_per_s.mean < 1.2 * small.messages_per_s.mean
    assert large.bytes_per_s.mean < 1.2 * small.bytes_per_s.mean
    assert large.messages_per_s.mean <= large.messages_per_s.p99 <= large.messages_per_s.max


def test_crashed_processes_are_found_within_three_seconds() -> None:
    run = figures(50, Scenario.CRASH, 60)
    assert run.verdict_first.count >= 10
    assert run.verdict_first.p95_s <= 3
    assert (run.undetected, run.false_verdicts) == (0, 0)


def test_lost_hosts_are_found_by_silence() -> None:
    run = figures(50, Scenario.HOST_LOSS, 60)
    assert 6 < run.verdict_first.mean_s < 11
    assert run.false_verdicts == 0


def test_announced_restarts_and_pauses_of_seconds_are_no_failures() -> None:
    assert figures(40, Scenario.RESTART, 45).false_verdicts == 0
    assert figures(40, Scenario.PAUSE, 45).false_verdicts == 0


def test_a_partition_is_healed_within_a_minute() -> None:
    run = figures(24, Scenario.PARTITION, 120, loss=0.01)
    assert run.one_view_after_s is not None
    assert run.one_view_after_s < 60
    assert run.false_verdicts == 0


def test_lifeguards_slow_members_convict_next_to_nobody() -> None:
    """One in eight, held for 32 s every 2 s; docs/simulation.md has the whole experiment."""
    assert figures(64, Scenario.SLOW_MEMBERS, 70, loss=0.0).false_verdicts <= 2


def test_the_figures_read_as_sentences() -> None:
    lines = told(simulate(Plan(20, Scenario.CRASH, 0.05, MINUTE // 2, seed=3)))
    assert lines[0] == "20 members, 5% loss, 0.5 minutes of crash, seed 3"
    assert lines[1].startswith("an update has reached 99 of 100 members after: mean 0.")
    assert any(line.startswith("the first verdict on a lost member came after: mean") for line in lines)
    assert "false verdicts: 0" in lines
    assert lines[-2].startswith("each member sent ")
    assert lines[-1].startswith("one in a hundred sent more than ")


def test_crashes_and_lost_hosts_are_found_in_small_clusters_too() -> None:
    crashed, lost = figures(15, Scenario.CRASH, 60), figures(15, Scenario.HOST_LOSS, 60)
    assert crashed.losses == lost.losses == 4
    assert crashed.verdict_all.mean_s <= 3
    assert crashed.verdict_all.max_s <= 5
    assert lost.verdict_all.count >= 3
    assert crashed.false_verdicts == lost.false_verdicts == 0


def test_detection_is_told_from_the_first_member_to_the_last() -> None:
    run = figures(50, Scenario.CRASH, 60)
    first, half, most, last = run.verdict_first, run.verdict_half, run.verdict_99, run.verdict_all
    assert first.mean_s < half.mean_s < most.mean_s <= last.mean_s
    assert run.losses >= first.count >= last.count > 0


@pytest.mark.parametrize(("scenario", "within_s"), [(Scenario.COLD_START, 10), (Scenario.ALL_RESTART, 10)])
def test_those_that_start_together_are_soon_of_one_mind(scenario: Scenario, within_s: int) -> None:
    run = figures(50, scenario, 30)
    assert run.one_view_after_s is not None
    assert run.one_view_after_s <= within_s
    assert run.false_verdicts == 0


def test_a_line_that_works_one_way_convicts_nobody() -> None:
    run = figures(40, Scenario.ONE_WAY, 60)
    assert run.false_verdicts == 0


def test_who_comes_and_goes_is_not_held_dead_while_it_is_there() -> None:
    run = figures(40, Scenario.FLIP_FLOP, 90)
    assert run.flaps > 0
    assert run.false_verdicts == 0


def test_hasty_settings_convict_members_that_only_paused_unless_their_answer_is_pushed() -> None:
    hasty = GossipSettings(suspicion_mult=1, suspicion_max_mult=1, push_nodes=0)
    run = simulate(Plan(40, Scenario.PAUSE, 0.05, 60 * SECOND, settings=hasty, seed=2))
    assert run.false_verdicts == run.false_by_healthy + run.false_by_slow > 0
    pushing = GossipSettings(suspicion_mult=1, suspicion_max_mult=1)
    assert simulate(Plan(40, Scenario.PAUSE, 0.05, 60 * SECOND, settings=pushing, seed=2)).false_verdicts == 0


def test_settings_change_what_is_found_and_when() -> None:
    patient = simulate(
        Plan(40, Scenario.HOST_LOSS, 0.0, 45 * SECOND, settings=GossipSettings(suspicion_mult=6))
    )
    assert patient.verdict_first.mean_s > figures(40, Scenario.HOST_LOSS, 45, loss=0.0).verdict_first.mean_s


def test_news_that_has_not_reached_all_by_the_end_is_counted() -> None:
    slow = GossipSettings(gossip_interval_ns=4 * SECOND, gossip_nodes=1)
    run = simulate(Plan(60, Scenario.QUIET, 0.8, 16 * SECOND, settings=slow))
    assert (run.updates, run.updates_late, run.update_all.count) == (1, 1, 0)
    assert "updates that had not reached all by the end: 1 of 1" in told(run)


def test_an_update_is_heard_with_the_first_news_of_a_new_life_as_well() -> None:
    """Members that are back after a minute may say something new before all know that they are back."""
    run = simulate(Plan(15, Scenario.CRASH, 0.05, 3 * MINUTE))
    assert (run.update_all.count, run.updates_late) == (run.updates, 0)
    assert run.update_all.max_s < 5


def test_an_update_whose_member_crashed_before_telling_anybody_is_not_waited_for() -> None:
    run = simulate(Plan(40, Scenario.CRASH, 0.05, 60 * SECOND, seed=2))
    assert (run.updates, run.updates_late) == (4, 0)


def test_runs_of_several_seeds_are_put_together() -> None:
    runs = [measure(Plan(12, Scenario.CRASH, 0.05, 40 * SECOND, seed=seed)) for seed in (1, 2)]
    both, single = figures_of(runs), [figures_of([run]) for run in runs]
    assert both.seeds == 2
    assert both.verdict_first.count == sum(each.verdict_first.count for each in single)
    assert both.verdict_first.max_s == max(each.verdict_first.max_s for each in single)
    assert both.events == sum(each.events for each in single)
    assert told(both)[0] == "12 members, 5% loss, 0.666667 minutes of crash, 2 seeds from 1"
    assert told_short(single[1]).startswith("seed 2: first verdict mean ")


def test_who_goes_down_meanwhile_need_not_know() -> None:
    watch = Watch(0, dict.fromkeys(range(200)))
    for observer in range(197):
        watch.hear((observer + 1) * SECOND, observer)
    assert (watch.first_s, watch.half_s, watch.most_s, watch.all_s) == (1, 100, None, None)
    watch.hear(198 * SECOND, 197)
    assert (watch.most_s, watch.all_s) == (198, None)
    for observer in (198, 199):
        del watch.waiting[observer]
    assert watch.all_s == 198
