"""Commands on their way to the disk: what they change, in which order, and what is left when it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adsum.agent import registry
from adsum.agent.commands import (
    Command,
    DeregisterCheck,
    DeregisterService,
    FolderLost,
    OverrideTags,
    RegisterCheck,
    RegisterService,
    Reload,
    ReportTtl,
    SetNodeMaintenance,
    SetServiceMaintenance,
)
from adsum.catalog.definitions import CheckStatus
from adsum.effects import Refusal, RefusalCause
from adsum.now import MINUTE, SECOND
from adsum.storage import registrations
from adsum.testing import samples
from adsum.testing.lone_agent import LoneAgent
from adsum.testing.samples import HTTP_CHECK, SETTINGS, WEB

TTL_CHECK = replace(samples.TTL_CHECK, ttl_ns=MINUTE)
TTL_WEB = replace(WEB, checks=(TTL_CHECK,), enable_tag_override=True)
BARE_WEB = replace(WEB, checks=())
OTHER = replace(WEB, service_id="other", name="other", checks=())
FULL = Refusal(
    RefusalCause.FAILED,
    "Nothing was changed, because it could not be kept in data_dir: "
    "no space left on device: make room on its disk, and try again",
)
READ_ONLY = Refusal(
    RefusalCause.FAILED,
    "Nothing was changed, because it could not be kept in data_dir: "
    "read-only file system: mount it writable again, and try again",
)


def shown(world: LoneAgent) -> list[tuple[str, CheckStatus, str]]:
    checks = (row.value for _host, row in world.core.view.checks())
    return [(each.check_id, each.status, each.output) for each in checks if each.service_id]


def on_disk(world: LoneAgent) -> dict[str, int]:
    return {folder: len(world.disk.names(folder)) for folder in ("services/", "checks/")}


def persisted(world: LoneAgent) -> list[str]:
    """The tickets of what went to the disk."""
    return [line.split()[2] for line in world.trace if " persist " in line]


@pytest.fixture
def world() -> LoneAgent:
    """With a service whose TTL check has said something."""
    world = LoneAgent(SETTINGS)
    assert world.ask(RegisterService(TTL_WEB)) is None
    world.ask(ReportTtl("service:web1", CheckStatus.WARNING, "slow"))
    world.run_for(2 * SECOND)
    return world


# What the disk refuses.


def test_a_registration_that_the_disk_refuses_was_never_there() -> None:
    world = LoneAgent(SETTINGS)
    world.disk.fill()
    before = world.core.view.index
    world.notified.clear()
    assert world.ask(RegisterService(WEB)) == FULL
    assert (world.core.own.services, world.core.own.checks) == ({}, {})
    assert (world.core.view.index, world.notified) == (before, [])
    assert on_disk(world) == {"services/": 0, "checks/": 0}


@pytest.mark.parametrize(
    "command",
    [
        RegisterService(replace(BARE_WEB, port=81), replace_existing_checks=True),
        RegisterService(replace(TTL_WEB, checks=(replace(TTL_CHECK, ttl_ns=SECOND),))),
        DeregisterService("web1"),
        RegisterCheck(replace(TTL_CHECK, check_id="another")),
        DeregisterCheck("service:web1"),
        SetNodeMaintenance(is_enabled=True, reason="new disk"),
        SetServiceMaintenance("web1", is_enabled=True),
        OverrideTags("web1", ("new",)),
    ],
)
def test_on_a_disk_that_is_mounted_read_only_everything_stays_as_it_was(
    world: LoneAgent, command: Command
) -> None:
    world.disk.is_read_only = True
    files = dict(world.disk.files)
    check = world.core.own.checks["service:web1"]
    expires_at = check.expires_at
    assert world.ask(command) == READ_ONLY
    assert world.core.own.services["web1"].definition == TTL_WEB
    assert (world.core.own.checks["service:web1"], check.expires_at) == (check, expires_at)
    assert shown(world) == [("service:web1", CheckStatus.WARNING, "slow")]
    assert world.disk.files == files


def test_with_room_again_the_same_registration_is_taken(world: LoneAgent) -> None:
    world.disk.fill()
    assert world.ask(RegisterService(OTHER)) == FULL
    world.disk.room_bytes = None
    assert world.ask(RegisterService(OTHER)) is None
    world.crash(loses_power=True)
    assert sorted(world.core.own.services) == ["other", "web1"]


def test_on_a_full_disk_a_service_can_still_be_deregistered(world: LoneAgent) -> None:
    world.disk.fill()
    assert world.ask(DeregisterService("web1")) is None
    world.crash(loses_power=True)
    assert world.core.own.services == {}


def test_what_needs_no_file_needs_no_disk(world: LoneAgent) -> None:
    world.disk.is_read_only = True
    from_file = replace(OTHER, enable_tag_override=True)
    assert world.ask(Reload(replace(SETTINGS, services=(from_file,)))) is None
    assert world.ask(OverrideTags("other", ("new",))) is None
    assert world.ask(DeregisterService("other")) is None
    assert world.ask(DeregisterService("nope")) is None
    assert world.ask(ReportTtl("service:web1", CheckStatus.PASSING, "fine")) is None
    assert shown(world) == [("service:web1", CheckStatus.PASSING, "fine")]


# The order.


def test_commands_about_one_service_take_turns_and_others_pass_them() -> None:
    world = LoneAgent(SETTINGS)
    first = world.command(RegisterService(replace(BARE_WEB, port=1)))
    beside = world.command(RegisterService(OTHER))
    assert persisted(world) == ["1", "2"]
    second = world.command(RegisterService(replace(BARE_WEB, port=2)))
    check = world.command(RegisterCheck(TTL_CHECK))
    assert persisted(world) == ["1", "2"]
    world.run_for(SECOND)
    assert [world.replies[each] for each in (first, beside, second, check)] == [None] * 4
    assert world.core.own.services["web1"].definition.port == 2
    assert list(world.core.own.checks) == ["service:web1"]


@pytest.mark.parametrize(
    "second",
    [
        RegisterService(replace(TTL_WEB, port=82)),
        DeregisterService("web1"),
        OverrideTags("web1", ("new",)),
        RegisterCheck(replace(TTL_CHECK, check_id="another")),
        DeregisterCheck("service:web1"),
        SetServiceMaintenance("web1", is_enabled=True),
    ],
)
def test_whatever_touches_a_file_on_its_way_to_the_disk_waits_for_it(
    world: LoneAgent, second: Command
) -> None:
    world.command(RegisterService(replace(TTL_WEB, port=81)))
    asked = world.command(second)
    assert persisted(world) == ["1", "2"]
    world.run_for(SECOND)
    assert (persisted(world), world.replies[asked]) == (["1", "2", "3"], None)


def test_what_was_asked_on_top_of_a_refused_change_is_judged_without_it() -> None:
    world = LoneAgent(SETTINGS)
    world.disk.fill()
    service = world.command(RegisterService(BARE_WEB))
    check = world.command(RegisterCheck(TTL_CHECK))
    gone = world.command(DeregisterService("web1"))
    world.run_for(SECOND)
    assert world.replies[service] == FULL
    assert world.replies[check] == Refusal(RefusalCause.FAILED, 'ServiceID "web1" does not exist')
    assert world.replies[gone] is None


def test_one_that_is_refused_costs_its_neighbours_nothing(world: LoneAgent) -> None:
    used_bytes = sum(map(len, world.disk.files.values()))
    world.disk.room_bytes = used_bytes + 200
    large = world.command(RegisterService(replace(OTHER, meta={"k": "x" * 1_000})))
    small = world.command(RegisterService(replace(OTHER, service_id="small")))
    world.run_for(SECOND)
    assert (world.replies[large], world.replies[small]) == (FULL, None)
    assert sorted(world.core.own.services) == ["small", "web1"]


def test_a_registration_is_on_the_disk_with_all_its_checks_or_not_at_all(world: LoneAgent) -> None:
    checks = tuple(replace(TTL_CHECK, check_id=f"c{number}", service_id="other") for number in range(5))
    world.disk.room_bytes = sum(map(len, world.disk.files.values())) + 300
    assert world.ask(RegisterService(replace(OTHER, checks=checks))) == FULL
    assert on_disk(world) == {"services/": 1, "checks/": 1}


def test_a_check_that_moves_to_another_service_waits_for_its_old_one() -> None:
    world = LoneAgent(SETTINGS)
    world.ask(RegisterService(OTHER))
    world.ask(RegisterService(TTL_WEB))
    world.command(RegisterService(replace(OTHER, checks=(replace(TTL_CHECK, service_id="other"),))))
    world.command(DeregisterService("web1"))
    world.run_for(SECOND)
    assert world.core.own.checks["service:web1"].definition.service_id == "other"
    assert on_disk(world) == {"services/": 1, "checks/": 1}
    world.crash(loses_power=True)
    assert list(world.core.own.checks) == ["service:web1"]


def test_a_reload_waits_for_what_is_on_its_way_and_all_later_wait_for_it() -> None:
    world = LoneAgent(SETTINGS)
    world.command(RegisterService(replace(BARE_WEB, port=1)))
    reload = world.command(Reload(replace(SETTINGS, services=(replace(BARE_WEB, port=2),))))
    other = world.command(RegisterService(OTHER))
    assert reload not in world.replies
    world.run_for(SECOND)
    assert (world.replies[reload], world.replies[other]) == (None, None)
    assert world.core.own.services["web1"].definition.port == 2
    assert on_disk(world) == {"services/": 1, "checks/": 0}


def test_what_is_on_its_way_counts_among_the_most_that_an_agent_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "SERVICES_MAX", 2)
    monkeypatch.setattr(registry, "CHECKS_MAX", 1)
    world = LoneAgent(SETTINGS)
    requests = [
        world.command(RegisterService(replace(BARE_WEB, service_id=f"s{number}"))) for number in range(3)
    ]
    checks = [
        world.command(RegisterCheck(replace(TTL_CHECK, check_id=each, service_id=""))) for each in ("a", "b")
    ]
    world.run_for(SECOND)
    assert [world.replies[each] is None for each in requests] == [True, True, False]
    assert [world.replies[each] is None for each in checks] == [True, False]


# Who asked for nothing.


def test_a_service_that_was_critical_for_too_long_goes_although_the_disk_refuses() -> None:
    world = LoneAgent(SETTINGS)
    check = replace(HTTP_CHECK, deregister_critical_service_after_ns=2 * MINUTE)
    world.outcomes[0, "service:web1"] = lambda: (CheckStatus.CRITICAL, "refused")
    world.ask(RegisterService(replace(WEB, checks=(check,))))
    world.disk.is_read_only = True
    world.run_for(3 * MINUTE)
    assert world.core.own.services == {}
    assert on_disk(world) == {"services/": 1, "checks/": 1}
    world.disk.is_read_only = False
    world.run_for(10 * SECOND)
    assert on_disk(world) == {"services/": 0, "checks/": 0}


def test_a_service_that_is_just_registered_anew_has_its_time_again() -> None:
    world = LoneAgent(SETTINGS)
    check = replace(TTL_CHECK, ttl_ns=SECOND, deregister_critical_service_after_ns=2 * MINUTE)
    world.ask(RegisterService(replace(WEB, checks=(check,))))
    world.run_for(119 * SECOND)
    end_ns = world.core.own._timers.earliest()
    assert end_ns is not None
    world.world.now_ns = end_ns - 1
    again = world.command(RegisterService(replace(WEB, port=81, checks=(check,))))
    world.world.now_ns = end_ns
    world.run_for(MINUTE)
    assert world.replies[again] is None
    assert world.core.counters.deregistered_critical == 0
    world.crash(loses_power=True)
    assert world.core.own.services["web1"].definition.port == 81


def test_what_ttl_checks_said_is_written_when_room_returns_though_nothing_changes(world: LoneAgent) -> None:
    world.disk.fill()
    world.ask(ReportTtl("service:web1", CheckStatus.PASSING, "fine"))
    world.run_for(5 * SECOND)
    world.disk.room_bytes = None
    world.run_for(10 * SECOND)
    assert b"fine" in world.disk.files["ttl-states"]


# A data folder that was lost.


def test_a_data_folder_that_was_deleted_is_written_anew_with_all_that_was_registered(
    world: LoneAgent,
) -> None:
    world.ask(RegisterService(OTHER))
    world.ask(Reload(replace(SETTINGS, services=(replace(OTHER, service_id="from-file"),))))
    world.disk.files.clear()
    world.disk.lose_power()
    world.receive(FolderLost())
    world.run_for(SECOND)
    assert on_disk(world) == {"services/": 2, "checks/": 1}
    world.crash()
    assert sorted(world.core.own.services) == ["other", "web1"]
    assert shown(world) == [("service:web1", CheckStatus.WARNING, "slow")]


def test_what_is_on_its_way_while_the_folder_is_lost_is_not_overwritten_by_what_was_before(
    world: LoneAgent,
) -> None:
    world.command(RegisterService(replace(TTL_WEB, port=81)))
    world.receive(FolderLost())
    world.run_for(SECOND)
    world.crash()
    assert world.core.own.services["web1"].definition.port == 81


def test_a_folder_of_before_that_is_back_brings_nothing_back_that_was_deregistered(world: LoneAgent) -> None:
    world.ask(RegisterService(OTHER))
    before = dict(world.disk.files)
    world.disk.files.clear()
    world.receive(FolderLost())
    world.ask(DeregisterService("other"))
    for path, content in before.items():
        world.disk.write_durably(path, content)
    world.receive(FolderLost(registrations.paths(world.disk)))
    world.run_for(SECOND)
    world.crash()
    assert sorted(world.core.own.services) == ["web1"]


def test_what_a_reload_takes_off_right_after_a_folder_was_lost_stays_off(world: LoneAgent) -> None:
    """Both wait for what is on its way, and go on at once."""
    world.command(RegisterService(OTHER))
    world.receive(FolderLost())
    world.command(Reload(replace(SETTINGS, services=(replace(TTL_WEB, port=99),))))
    world.run_for(SECOND)
    world.crash()
    assert sorted(world.core.own.services) == ["other"]


# What clients put on a service of a file.


def test_a_maintenance_of_a_service_that_a_file_defines_outlives_a_restart() -> None:
    settings = replace(SETTINGS, services=(replace(BARE_WEB, service_id="cfg"),))
    world = LoneAgent(settings)
    assert world.ask(SetServiceMaintenance("cfg", is_enabled=True, reason="new disk")) is None
    check = replace(TTL_CHECK, check_id="mine", service_id="cfg")
    assert world.ask(RegisterCheck(check)) is None
    world.crash()
    assert sorted(world.core.own.checks) == ["_service_maintenance:cfg", "mine"]
    world.run_for(SECOND)
    assert on_disk(world) == {"services/": 0, "checks/": 2}
