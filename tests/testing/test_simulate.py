from __future__ import annotations

from adsum.now import MINUTE, SECOND
from adsum.testing.simulate import Figures, Plan, Scenario, simulate, told


def figures(nodes: int, scenario: Scenario, seconds: int, *, loss: float = 0.05, seed: int = 1) -> Figures:
    return simulate(Plan(nodes, scenario, loss, seconds * SECOND, seed))


def test_an_update_reaches_everybody_within_two_seconds_at_five_percent_loss() -> None:
    run = figures(100, Scenario.QUIET, 60)
    assert run.update_all.count == 5
    assert run.update_all.max_s < 2
    assert run.false_verdicts == 0


def test_what_a_member_sends_does_not_grow_with_the_cluster() -> None:
    small, large = figures(50, Scenario.QUIET, 30), figures(200, Scenario.QUIET, 30)
    assert large.messages_per_s < 1.2 * small.messages_per_s
    assert large.bytes_per_s < 1.2 * small.bytes_per_s


def test_crashed_processes_are_found_within_three_seconds() -> None:
    run = figures(50, Scenario.CRASH, 60)
    assert run.first_verdict.count >= 10
    assert run.first_verdict.p95_s <= 3
    assert (run.undetected, run.false_verdicts) == (0, 0)


def test_lost_hosts_are_found_by_silence() -> None:
    run = figures(50, Scenario.HOST_LOSS, 60)
    assert 6 < run.first_verdict.mean_s < 11
    assert run.false_verdicts == 0


def test_announced_restarts_and_pauses_of_seconds_are_no_failures() -> None:
    assert figures(50, Scenario.RESTART, 60).false_verdicts == 0
    assert figures(50, Scenario.PAUSE, 60).false_verdicts == 0


def test_a_partition_is_healed_within_a_minute() -> None:
    run = figures(40, Scenario.PARTITION, 130, loss=0.01)
    assert run.one_view_after_s is not None
    assert run.one_view_after_s < 60
    assert run.false_verdicts == 0


def test_lifeguards_slow_members_convict_next_to_nobody() -> None:
    """128 members, 16 of them slow: held for 32 s every 2 s. memberlist's LAN profile gives 259 here."""
    assert figures(128, Scenario.SLOW_MEMBERS, 140, loss=0.0).false_verdicts <= 5


def test_the_figures_read_as_sentences() -> None:
    lines = told(simulate(Plan(20, Scenario.CRASH, 0.05, MINUTE // 2, seed=3)))
    assert lines[0] == "20 members, 5% loss, 0.5 minutes of crash, seed 3"
    assert lines[1].startswith("an update has reached 99 of 100 members after: mean 0.")
    assert any(line.startswith("the first verdict on a lost member came after: mean") for line in lines)
    assert "false verdicts: 0" in lines
    assert lines[-1].startswith("each member sent ")


def test_half_of_a_small_cluster_stays_up_whatever_the_scenario_wants() -> None:
    assert figures(5, Scenario.CRASH, 90).first_verdict.count > 0
