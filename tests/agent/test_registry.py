"""Registrations are planned, and then made as they were planned."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from adsum.agent.commands import (
    DeregisterCheck,
    DeregisterService,
    RegisterService,
    Registration,
    SetNodeMaintenance,
)
from adsum.agent.line import RegistrationPlan, WaitingCommands
from adsum.agent.registry import Registry
from adsum.catalog.own_services import LocalSettings, OwnServices
from adsum.catalog.own_writer import OwnCatalogWriter, OwnChange
from adsum.catalog.view import View
from adsum.effects import Refusal, RemoveFile, WriteFile
from adsum.now import SECOND, Now
from adsum.testing.samples import NODE, TTL_CHECK, WEB

NOW = Now(SECOND, 1_700_000_000_000)
TTL_WEB = replace(WEB, checks=(TTL_CHECK,))


@pytest.fixture
def published() -> OwnCatalogWriter:
    published = OwnCatalogWriter(View(NOW, tag=1), NODE.node_id, NODE.name)
    published.put_node(NOW, NODE)
    return published


@pytest.fixture
def registry(published: OwnCatalogWriter) -> Registry:
    return Registry(
        OwnServices(published, LocalSettings(NODE.name, 0, discard_check_output=False), Random(1))
    )


def planned(registry: Registry, command: Registration) -> RegistrationPlan:
    plan = registry.planners[type(command)](command, WaitingCommands())
    assert isinstance(plan, RegistrationPlan)
    return plan


def test_nothing_is_changed_before_a_plan_is_made(registry: Registry) -> None:
    plan = planned(registry, RegisterService(TTL_WEB))
    assert (registry.own.services, registry.own.checks) == ({}, {})
    registry.make(NOW, plan)
    assert (list(registry.own.services), list(registry.own.checks)) == (["web1"], ["service:web1"])


def test_the_bytes_that_were_measured_are_those_that_all_others_get(
    registry: Registry, published: OwnCatalogWriter
) -> None:
    handed_on: list[OwnChange] = []
    plan = planned(registry, RegisterService(TTL_WEB))
    registry.make(NOW, plan)
    published.hand_on_to(NOW, lambda _now, change: handed_on.append(change))
    _node, service, check = handed_on
    assert plan.service is not None
    assert service.encoded is plan.service.encoded
    assert check.encoded is plan.checks[0].encoded


def test_a_service_with_one_check_is_two_files(registry: Registry) -> None:
    files = planned(registry, RegisterService(TTL_WEB)).files
    assert [type(change) for change in files] == [WriteFile, WriteFile]
    assert [change.path[:9] for change in files] == ["services/", "checks/30"]


EARLY = replace(TTL_CHECK, check_id="early", service_id="web1")  # defined by a file, before its service


def test_a_check_that_waited_for_its_service_goes_when_checks_are_replaced_also_the_first_time(
    registry: Registry,
) -> None:
    registry.define(NOW, (), (EARLY,))
    assert planned(registry, RegisterService(WEB)).checks_gone == ()
    assert planned(registry, RegisterService(WEB, replace_existing_checks=True)).checks_gone == ("early",)


def test_a_check_that_waited_for_its_service_is_measured_with_the_service_s_tags(registry: Registry) -> None:
    registry.define(NOW, (), (replace(EARLY, notes="x" * 60_000),))
    command = RegisterService(replace(WEB, tags=("y" * 9_000,)))
    refusal = registry.planners[RegisterService](command, WaitingCommands())
    assert isinstance(refusal, Refusal)
    assert 'check "early" is too large' in refusal.sentence


def test_who_replaces_checks_plans_the_end_of_those_that_it_does_not_name(registry: Registry) -> None:
    registry.make(NOW, planned(registry, RegisterService(TTL_WEB)))
    bare = replace(TTL_WEB, checks=())
    assert planned(registry, RegisterService(bare)).checks_gone == ()
    plan = planned(registry, RegisterService(bare, replace_existing_checks=True))
    assert plan.checks_gone == ("service:web1",)
    registry.make(NOW, plan)
    assert registry.own.checks == {}


def test_the_end_of_a_service_takes_its_checks_first(registry: Registry) -> None:
    registry.make(NOW, planned(registry, RegisterService(TTL_WEB)))
    plan = planned(registry, DeregisterService("web1"))
    assert [(type(change), change.path[:7]) for change in plan.files] == [
        (RemoveFile, "checks/"),
        (RemoveFile, "service"),
    ]
    registry.make(NOW, plan)
    assert (registry.own.services, registry.own.checks) == ({}, {})


def test_what_is_not_there_is_planned_as_nothing(registry: Registry) -> None:
    nothing = RegistrationPlan()
    assert planned(registry, DeregisterService("web1")) == nothing
    assert planned(registry, DeregisterCheck("service:web1")) == nothing
    assert planned(registry, SetNodeMaintenance(False)) == nothing


def test_only_a_registration_that_changes_something_is_logged(registry: Registry) -> None:
    plan = planned(registry, RegisterService(TTL_WEB))
    assert plan.log == "service registered: service=web id=web1"
    registry.make(NOW, plan)
    assert planned(registry, RegisterService(TTL_WEB)).log == ""
