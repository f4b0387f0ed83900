"""What one agent decides, on a simulated clock and disk."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from adsum.agent import registry
from adsum.agent.commands import (
    DeregisterCheck,
    DeregisterService,
    OverrideTags,
    RegisterCheck,
    RegisterService,
    Reload,
    ReportTtl,
    SetNodeMaintenance,
    SetServiceMaintenance,
)
from adsum.catalog.definitions import CheckDefinition, CheckStatus, ServiceDefinition
from adsum.catalog.effects import CheckRan
from adsum.catalog.indexes import Family
from adsum.effects import RefusalCause, RemoveFile
from adsum.now import HOUR, MINUTE, SECOND
from adsum.testing.lone_agent import LoneAgent
from adsum.testing.samples import HTTP_CHECK, SETTINGS, TTL_CHECK, WEB
from adsum.topics import Topic

TTL_WEB = replace(WEB, checks=(TTL_CHECK,))


def status_of(world: LoneAgent, check_id: str = "service:web1") -> tuple[CheckStatus, str]:
    """As everyone sees it."""
    for _host, row in world.core.view.checks():
        if row.value.check_id == check_id:
            return row.value.status, row.value.output
    raise LookupError(check_id)


def runs(world: LoneAgent) -> list[float]:
    return [float(line.split()[0]) for line in world.trace if line.split()[1] == "run"]


# Registrations.


def test_a_registration_is_visible_and_acknowledged_when_it_is_on_disk() -> None:
    world = LoneAgent(SETTINGS)
    request = world.command(RegisterService(WEB))
    assert (len(world.core.view.instances("web")), request in world.replies) == (0, False)
    world.run_for(SECOND)
    assert (len(world.core.view.instances("web")), world.replies[request]) == (1, None)


def test_an_acknowledged_registration_survives_a_power_loss() -> None:
    world = LoneAgent(SETTINGS)
    assert world.ask(RegisterService(WEB)) is None
    world.crash(loses_power=True)
    assert len(world.core.view.instances("web")) == 1
    assert status_of(world)[0] is CheckStatus.CRITICAL


def test_an_acknowledged_deregistration_survives_a_power_loss() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterService(WEB))
    world.ask(DeregisterService("web1"))
    world.crash(loses_power=True)
    assert world.core.own.services == {}
    assert world.core.own.checks == {}


def test_a_check_whose_service_was_lost_with_the_power_is_dropped() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterService(WEB))
    (path,) = (f"services/{name}" for name in world.disk.names("services/"))
    world.disk.change((RemoveFile(path),))
    world.crash()
    world.run_for(SECOND)
    assert world.core.own.checks == {}
    assert world.disk.names("checks/") == []


def test_a_damaged_registration_is_set_aside_and_costs_only_itself() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterService(replace(WEB, checks=())))
    world.ask(RegisterService(replace(WEB, service_id="web2", checks=())))
    path = "services/" + world.disk.names("services/")[0]
    world.disk.rot(path)
    world.crash()
    assert len(world.core.own.services) == 1
    assert world.disk.read(path) is None
    assert world.disk.read(path + ".damaged") is not None


def test_an_agent_in_memory_replies_at_once_and_writes_nothing() -> None:
    world = LoneAgent(replace(SETTINGS, is_persistent=False))
    request = world.command(RegisterService(WEB))
    assert world.replies[request] is None
    assert world.disk.names("services/") == []


def test_the_log_says_why_a_check_does_not_pass() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterService(TTL_WEB))
    world.ask(ReportTtl("service:web1", CheckStatus.PASSING, "fine"))
    world.ask(ReportTtl("service:web1", CheckStatus.WARNING, "disk at 91 %\nof 2 TB"))
    told = [line.split(" ", 1)[1] for line in world.trace if "check is now" in line]
    assert told == [
        "log info check is now passing: check=service:web1",
        "log warn check is now warning: check=service:web1 output='disk at 91 %'",
    ]


def test_registering_again_keeps_what_the_checks_say() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterService(TTL_WEB))
    world.ask(ReportTtl("service:web1", CheckStatus.PASSING, "fine"))
    world.ask(RegisterService(replace(TTL_WEB, port=81)))
    assert status_of(world) == (CheckStatus.PASSING, "fine")


def test_registering_the_same_run_check_again_does_not_move_its_schedule() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterService(WEB))
    for _ in range(50):
        world.run_for(SECOND)
        world.ask(RegisterService(WEB))
    assert 4 <= len(runs(world)) <= 6


def test_checks_left_out_of_a_new_registration_stay_unless_it_replaces() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterService(WEB))
    world.ask(RegisterService(replace(WEB, checks=())))
    assert list(world.core.own.checks) == ["service:web1"]
    world.ask(RegisterService(replace(WEB, checks=()), replace_existing_checks=True))
    assert list(world.core.own.checks) == []


def test_deregistering_what_is_unknown_succeeds() -> None:
    world = LoneAgent(SETTINGS)
    assert world.ask(DeregisterService("nope")) is None
    assert world.ask(DeregisterCheck("nope")) is None


def test_a_check_on_an_unknown_service_is_refused_with_nothing_changed() -> None:
    world = LoneAgent(SETTINGS)
    refusal = world.ask(RegisterCheck(replace(TTL_CHECK, service_id="nope")))
    assert refusal is not None
    assert (refusal.cause, refusal.sentence) == (RefusalCause.FAILED, 'ServiceID "nope" does not exist')
    assert world.core.own.checks == {}


def test_deregistering_what_is_just_going_waits_until_it_is_gone_for_good() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterService(TTL_WEB))
    world.command(DeregisterService("web1"))
    again = world.command(DeregisterService("web1"))
    assert again not in world.replies
    world.crash(loses_power=True)
    assert "web1" in world.core.own.services  # nobody was told otherwise


def test_a_registration_that_is_too_large_for_every_host_is_refused_with_nothing_changed() -> None:
    world = LoneAgent(SETTINGS)
    refusal = world.ask(RegisterService(replace(WEB, meta={"k": "x" * 70_000})))
    assert refusal is not None
    assert refusal.cause is RefusalCause.INVALID
    assert "too large" in refusal.sentence
    assert world.core.own.services == {}


def test_a_check_that_carries_more_tags_than_every_host_holds_is_refused_with_nothing_changed() -> None:
    world = LoneAgent(SETTINGS)
    assert world.ask(RegisterService(replace(WEB, tags=("x" * 50_000,)))) is None
    wordy = replace(TTL_CHECK, check_id="wordy", notes="n" * 20_000)
    refusal = world.ask(RegisterCheck(wordy))
    assert refusal is not None
    assert refusal.cause is RefusalCause.INVALID
    assert 'check "wordy" is too large' in refusal.sentence
    assert 'shorten its notes, or the tags of service "web1"' in refusal.sentence
    assert "wordy" not in world.core.own.checks
    assert world.ask(RegisterCheck(replace(wordy, service_id=""))) is None


def test_a_service_may_not_grow_until_a_check_of_it_is_too_large() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterService(replace(WEB, enable_tag_override=True)))
    world.ask(RegisterCheck(replace(TTL_CHECK, check_id="wordy", notes="n" * 20_000)))
    grown = replace(WEB, tags=("x" * 50_000,), enable_tag_override=True)
    for command in (RegisterService(grown), OverrideTags("web1", grown.tags)):
        refusal = world.ask(command)
        assert refusal is not None
        assert 'check "wordy" is too large' in refusal.sentence
        assert world.core.own.services["web1"].definition.tags == ()
    assert world.ask(RegisterService(grown, replace_existing_checks=True)) is None
    assert "wordy" not in world.core.own.checks


def test_maintenance_with_a_reason_too_long_for_the_service_s_tags_is_refused() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterService(replace(WEB, tags=("x" * 60_000,))))
    refusal = world.ask(SetServiceMaintenance("web1", True, "r" * 10_000))
    assert refusal is not None
    assert "too large" in refusal.sentence
    assert world.ask(SetNodeMaintenance(True, "r" * 70_000)) is not None
    assert world.ask(SetServiceMaintenance("web1", True, "short")) is None
    assert world.ask(SetServiceMaintenance("web1", False, "")) is None


def test_mesh_settings_that_no_other_agent_would_take_are_refused() -> None:
    world = LoneAgent(SETTINGS)
    nested: dict[str, object] = {}
    for _ in range(40):
        nested = {"in": nested}
    too_long: dict[str, object] = {"Config": "x" * 40_000}
    for proxy in (too_long, nested):
        refusal = world.ask(RegisterService(replace(WEB, proxy=proxy)))
        assert refusal is not None
        assert 'proxy and connect of service "web1"' in refusal.sentence


def test_a_reload_that_would_make_a_check_too_large_changes_nothing() -> None:
    small = ServiceDefinition(service_id="f1", name="f")
    world = LoneAgent(replace(SETTINGS, services=(small,)))
    wordy = replace(TTL_CHECK, check_id="wordy", service_id="f1", notes="n" * 20_000)
    assert world.ask(RegisterCheck(wordy)) is None
    grown = replace(small, tags=("x" * 50_000,))
    refusal = world.ask(Reload(replace(SETTINGS, services=(grown,))))
    assert refusal is not None
    assert 'check "wordy" is too large' in refusal.sentence
    assert world.core.own.services["f1"].definition == small
    from_file = replace(wordy, check_id="from file", service_id="web1")
    assert world.ask(RegisterService(replace(WEB, tags=grown.tags))) is None
    refusal = world.ask(Reload(replace(SETTINGS, services=(small,), checks=(from_file,))))
    assert refusal is not None
    assert 'check "from file" is too large' in refusal.sentence
    assert "from file" not in world.core.own.checks


def test_past_the_most_that_an_agent_takes_new_ones_are_refused_and_known_ones_may_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "SERVICES_MAX", 2)
    monkeypatch.setattr(registry, "CHECKS_MAX", 1)
    world = LoneAgent(SETTINGS)
    assert world.ask(RegisterService(WEB)) is None
    assert world.ask(RegisterService(replace(WEB, service_id="b", checks=()))) is None
    third = world.ask(RegisterService(replace(WEB, service_id="c", checks=())))
    assert third is not None
    assert "deregister some first" in third.sentence
    assert world.ask(RegisterCheck(replace(TTL_CHECK, check_id="second"))) is not None
    assert world.ask(RegisterService(replace(WEB, port=81))) is None


# Runs.


def test_the_first_run_is_within_the_interval_and_the_next_an_interval_after_the_answer() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterService(WEB))
    world.run_for(60 * SECOND)
    first, *_rest = times = runs(world)
    assert first < 10.01
    gaps = [after - before for before, after in pairwise(times)]
    assert all(10 < gap < 10.06 for gap in gaps), gaps


def test_the_result_of_a_check_that_was_replaced_meanwhile_is_ignored() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterService(WEB))
    world.run_for(9 * SECOND)
    while not runs(world):
        world.run_for(SECOND)
    run = int(next(line for line in world.trace if " run " in line).split()[-1])
    world.ask(RegisterService(replace(WEB, checks=(replace(HTTP_CHECK, http="http://127.0.0.1:81/"),))))
    now = world.world.now
    before = status_of(world)
    world.core.receive(now, CheckRan("service:web1", run, CheckStatus.WARNING, "late"))
    assert status_of(world) == before


def test_the_first_word_on_why_a_check_stays_critical_is_published_and_logged_at_once() -> None:
    world = LoneAgent(SETTINGS)
    outcomes = iter(["connection refused", "connection refused", "no route"])
    world.outcomes[0, "service:web1"] = lambda: (CheckStatus.CRITICAL, next(outcomes, "no route"))
    world.ask(RegisterService(WEB))
    assert status_of(world) == (CheckStatus.CRITICAL, "")
    world.run_for(HTTP_CHECK.interval_ns + SECOND)
    assert status_of(world) == (CheckStatus.CRITICAL, "connection refused")
    world.run_for(3 * HTTP_CHECK.interval_ns)
    assert status_of(world) == (CheckStatus.CRITICAL, "connection refused"), "later ones wait for their turn"
    told = [line.split(" ", 1)[1] for line in world.trace if "check is" in line]
    assert told == ["log warn check is still critical: check=service:web1 output='connection refused'"]


def test_output_without_a_change_of_status_is_published_only_now_and_then() -> None:
    world = LoneAgent(SETTINGS)
    outputs = iter(range(1000))
    world.outcomes[0, "service:web1"] = lambda: (CheckStatus.PASSING, f"run {next(outputs)}")
    world.ask(RegisterService(WEB))
    world.run_for(60 * SECOND)
    assert status_of(world) == (CheckStatus.PASSING, "run 0")
    assert world.core.own.checks["service:web1"].output == "run 5"
    world.run_for(10 * MINUTE)
    assert status_of(world)[1] != "run 0"


def test_with_no_update_interval_every_output_is_published() -> None:
    world = LoneAgent(replace(SETTINGS, check_update_interval_ns=0))
    outputs = iter(range(1000))
    world.outcomes[0, "service:web1"] = lambda: (CheckStatus.PASSING, f"run {next(outputs)}")
    world.ask(RegisterService(WEB))
    world.run_for(60 * SECOND)
    assert status_of(world) == (CheckStatus.PASSING, "run 5")


def test_discarded_output_is_seen_by_nobody_else() -> None:
    world = LoneAgent(replace(SETTINGS, discard_check_output=True))
    world.ask(RegisterService(WEB))
    world.run_for(60 * SECOND)
    assert status_of(world) == (CheckStatus.PASSING, "")
    assert world.core.own.checks["service:web1"].output == "fine"


@pytest.mark.parametrize(
    ("initial", "results_to_critical"), [("", 1), ("passing", 3)], ids=["unspecified", "passing"]
)
def test_a_check_needs_its_failures_only_when_it_was_believed_to_pass(
    initial: str, results_to_critical: int
) -> None:
    world = LoneAgent(SETTINGS)
    check = replace(HTTP_CHECK, failures_before_critical=3, status=initial)
    world.outcomes[0, "service:web1"] = lambda: (CheckStatus.CRITICAL, "refused")
    world.ask(RegisterService(replace(WEB, checks=(check,))))
    seen = []
    for _ in range(3):
        before = len(runs(world))
        while len(runs(world)) == before:
            world.run_for(SECOND)
        world.run_for(SECOND)
        seen.append(status_of(world)[0])
    assert seen.index(CheckStatus.CRITICAL) + 1 == (1 if not initial else results_to_critical)


def test_two_successes_in_a_row_are_wanted_and_a_failure_begins_the_count_again() -> None:
    world = LoneAgent(SETTINGS)
    results = iter(
        [
            CheckStatus.CRITICAL,
            CheckStatus.PASSING,
            CheckStatus.CRITICAL,
            CheckStatus.PASSING,
            CheckStatus.PASSING,
        ]
    )
    world.outcomes[0, "service:web1"] = lambda: (next(results), "")
    world.ask(RegisterService(replace(WEB, checks=(replace(HTTP_CHECK, success_before_passing=2),))))
    statuses: list[str] = []
    while len(statuses) < 5:
        before = len(runs(world))
        world.run_for(SECOND)
        if len(runs(world)) > before:
            world.run_for(SECOND)
            statuses.append(status_of(world)[0].value)
    assert statuses == ["critical", "critical", "critical", "critical", "passing"]


# TTL.


def test_a_ttl_check_expires_and_tells_what_it_said_last() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterService(TTL_WEB))
    world.ask(ReportTtl("service:web1", CheckStatus.PASSING, "fine"))
    world.run_for(9 * SECOND)
    assert status_of(world) == (CheckStatus.PASSING, "fine")
    world.run_for(2 * SECOND)
    expected = "TTL expired (last output before timeout follows): fine"
    assert status_of(world) == (CheckStatus.CRITICAL, expected)
    world.ask(ReportTtl("service:web1", CheckStatus.WARNING, ""))
    assert status_of(world) == (CheckStatus.WARNING, "")


def test_a_check_that_flaps_a_thousand_times_a_minute_gets_ten_lines_and_a_count() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterService(TTL_WEB))
    for _ in range(500):
        world.ask(ReportTtl("service:web1", CheckStatus.PASSING, "fine"))
        world.ask(ReportTtl("service:web1", CheckStatus.CRITICAL, "bad"))
        world.ask(RegisterService(TTL_WEB))  # which does not begin the count anew
    told = [line for line in world.trace if "check is now" in line]
    assert len(told) == 10
    world.run_for(MINUTE)
    world.ask(ReportTtl("service:web1", CheckStatus.PASSING, "fine"))
    (last,) = [line for line in world.trace if "changes_not_logged" in line]
    assert last.endswith("changes_not_logged=990")
    assert world.core.own.transitions[CheckStatus.PASSING] == 501


def test_a_ttl_check_that_never_spoke_just_expires() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterService(replace(TTL_WEB, checks=(replace(TTL_CHECK, status="passing"),))))
    world.run_for(11 * SECOND)
    assert status_of(world) == (CheckStatus.CRITICAL, "TTL expired")


def test_a_long_note_is_cut_and_says_so() -> None:
    world = LoneAgent(SETTINGS)
    check = replace(TTL_CHECK, output_max_size=4)
    world.ask(RegisterService(replace(WEB, checks=(check,))))
    world.ask(ReportTtl("service:web1", CheckStatus.PASSING, "abcdef"))
    assert status_of(world)[1] == "abcd ... (captured 4 of 6 bytes)"


def test_what_a_ttl_check_said_survives_a_kill_for_the_rest_of_its_time() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterService(TTL_WEB))
    world.ask(ReportTtl("service:web1", CheckStatus.PASSING, "fine"))
    world.run_for(2 * SECOND)
    world.crash()
    assert status_of(world) == (CheckStatus.PASSING, "fine")
    world.run_for(7 * SECOND)
    assert status_of(world)[0] is CheckStatus.PASSING
    world.run_for(2 * SECOND)
    assert status_of(world)[0] is CheckStatus.CRITICAL


def test_ttl_states_cost_one_unsynced_file_a_second_however_many_report() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterService(TTL_WEB))
    for _ in range(100):
        world.ask(ReportTtl("service:web1", CheckStatus.PASSING, "fine"))
        world.run_for(SECOND // 10)
    saves = [line for line in world.trace if line.endswith("unsynced ttl-states")]
    assert 9 <= len(saves) <= 12


def test_reporting_for_an_unknown_check_and_for_another_kind_is_refused() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterService(WEB))
    unknown = world.ask(ReportTtl("zz", CheckStatus.PASSING, ""))
    other = world.ask(ReportTtl("service:web1", CheckStatus.PASSING, ""))
    assert unknown is not None
    assert unknown.cause is RefusalCause.UNKNOWN
    assert other is not None
    assert other.sentence == 'CheckID "service:web1" does not have associated TTL'


# Critical for too long.


def test_a_service_that_stays_critical_goes_and_stays_gone() -> None:
    world = LoneAgent(SETTINGS)
    check = replace(HTTP_CHECK, deregister_critical_service_after_ns=2 * MINUTE)
    world.outcomes[0, "service:web1"] = lambda: (CheckStatus.CRITICAL, "refused")
    world.ask(RegisterService(replace(WEB, checks=(check,))))
    world.run_for(119 * SECOND)
    assert "web1" in world.core.own.services
    world.run_for(2 * SECOND)
    assert world.core.own.services == {}
    world.crash(loses_power=True)
    assert world.core.own.services == {}


def test_a_service_that_recovers_in_time_stays() -> None:
    world = LoneAgent(SETTINGS)
    check = replace(HTTP_CHECK, deregister_critical_service_after_ns=2 * MINUTE)
    answer = [CheckStatus.CRITICAL]
    world.outcomes[0, "service:web1"] = lambda: (answer[0], "")
    world.ask(RegisterService(replace(WEB, checks=(check,))))
    for _ in range(10):
        world.run_for(MINUTE)
        answer[0] = CheckStatus.PASSING if answer[0] is CheckStatus.CRITICAL else CheckStatus.CRITICAL
    assert "web1" in world.core.own.services


# Alias.


def alias(check_id: str, service_id: str, target: str) -> CheckDefinition:
    return CheckDefinition(check_id=check_id, name=check_id, service_id=service_id, alias_service=target)


def test_an_alias_follows_its_target_through_another_alias() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterService(TTL_WEB))
    world.ask(RegisterService(replace(WEB, service_id="b", checks=(alias("ab", "b", "web1"),))))
    world.ask(RegisterService(replace(WEB, service_id="c", checks=(alias("ac", "c", "b"),))))
    assert status_of(world, "ac")[0] is CheckStatus.CRITICAL
    world.ask(ReportTtl("service:web1", CheckStatus.PASSING, ""))
    assert status_of(world, "ab") == (CheckStatus.PASSING, "All checks passing.")
    assert status_of(world, "ac")[0] is CheckStatus.PASSING


def test_an_alias_sees_its_target_come_without_checks_and_go() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterCheck(CheckDefinition(check_id="a", name="a", alias_service="web1")))
    world.ask(RegisterService(replace(WEB, checks=())))
    assert status_of(world, "a") == (CheckStatus.PASSING, "No checks found.")
    world.ask(DeregisterService("web1"))
    assert status_of(world, "a")[0] is CheckStatus.CRITICAL


def test_an_alias_of_another_node_sees_whether_it_is_present() -> None:
    world = LoneAgent(SETTINGS)
    definition = CheckDefinition(check_id="a", name="a", alias_node="n1")
    world.ask(RegisterCheck(definition))
    assert status_of(world, "a") == (CheckStatus.PASSING, "All checks passing.")


def test_an_alias_of_nothing_is_critical_and_says_so() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterCheck(CheckDefinition(check_id="a", name="a", alias_service="zz")))
    expected = "Service zz could not be found on node n1"
    assert status_of(world, "a") == (CheckStatus.CRITICAL, expected)


def test_two_aliases_of_each_other_come_to_rest() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterService(replace(WEB, service_id="b", checks=(alias("ab", "b", "c"),))))
    world.ask(RegisterService(replace(WEB, service_id="c", checks=(alias("ac", "c", "b"),))))
    world.run_for(HOUR)
    assert len(world.trace) < 50


# Maintenance.


def test_maintenance_of_the_node_makes_every_service_critical_and_survives_a_restart() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterService(replace(WEB, checks=())))
    world.ask(SetNodeMaintenance(is_enabled=True, reason="disks"))
    world.crash(loses_power=True)
    assert [each.status for each in world.core.view.instances("web")] == [CheckStatus.CRITICAL]
    world.ask(SetNodeMaintenance(is_enabled=False))
    assert [each.status for each in world.core.view.instances("web")] == [CheckStatus.PASSING]


def test_maintenance_of_an_unknown_service_is_refused() -> None:
    world = LoneAgent(SETTINGS)
    refusal = world.ask(SetServiceMaintenance("zz", is_enabled=True))
    assert refusal is not None
    assert refusal.sentence == 'No service registered with ID "zz"'


# Reload.


def test_a_reload_follows_the_files_and_keeps_what_clients_registered() -> None:
    from_file = replace(TTL_WEB, service_id="file", checks=())
    world = LoneAgent(replace(SETTINGS, services=(from_file,)))
    world.ask(RegisterService(replace(WEB, checks=())))
    world.ask(Reload(replace(SETTINGS, services=(replace(from_file, service_id="new"),))))
    assert sorted(world.core.own.services) == ["new", "web1"]
    world.crash()
    assert sorted(world.core.own.services) == ["file", "web1"]


def test_what_a_file_defines_wins_over_a_saved_registration_for_good() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterService(replace(WEB, port=1, checks=())))
    world.ask(Reload(replace(SETTINGS, services=(replace(WEB, port=2, checks=()),))))
    world.run_for(SECOND)
    assert world.core.own.services["web1"].definition.port == 2
    assert world.disk.names("services/") == []


# The whole.


def test_one_seed_gives_one_trace() -> None:
    def story(seed: int) -> list[str]:
        world = LoneAgent(SETTINGS, seed=seed)
        flips = iter(range(10_000))
        world.outcomes[0, "service:web1"] = lambda: (
            (CheckStatus.PASSING, "") if next(flips) % 3 else (CheckStatus.CRITICAL, "")
        )
        world.ask(RegisterService(WEB))
        world.ask(RegisterCheck(alias("a", "", "web1")))
        world.run_for(5 * MINUTE)
        world.crash(loses_power=True)
        world.run_for(5 * MINUTE)
        return world.trace

    assert story(1) == story(1)
    assert story(1) != story(2)


def test_a_flip_wakes_exactly_who_can_see_it() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterService(TTL_WEB))
    world.notified.clear()
    world.ask(ReportTtl("service:web1", CheckStatus.PASSING, ""))
    assert set(world.notified) == {
        Topic(Family.HEALTH, "web"),
        Topic(Family.NODE_CHECKS, "n1"),
        Topic(Family.STATE, "any"),
        Topic(Family.STATE, "critical"),
        Topic(Family.STATE, "passing"),
    }
