"""What an agent answers with before it has heard of anybody."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from adsum.agent.local_catalog import LocalCatalog
from adsum.agent.settings import AgentSettings
from adsum.catalog.definitions import CheckDefinition, CheckStatus
from adsum.catalog.saved import Saved
from adsum.now import SECOND, Now
from adsum.testing.samples import NODE, SETTINGS, TTL_CHECK, WEB

NOW = Now(SECOND, 1_800_000_000_000)
BARE = replace(WEB, checks=())


def restored(saved: Saved, settings: AgentSettings = SETTINGS) -> LocalCatalog:
    local = LocalCatalog(NOW, settings, Random(0))
    local.restore(NOW, saved)
    return local


def status_of(local: LocalCatalog, check_id: str) -> CheckStatus:
    return next(row.value.status for _host, row in local.view.checks() if row.value.check_id == check_id)


def test_what_was_registered_before_is_answered_with_nothing_but_the_own_catalog_made() -> None:
    local = restored(Saved(services=(BARE,)))
    (instance,) = local.view.instances("web")
    assert (instance.host.name, instance.service.value.port) == (NODE.name, 80)


def test_what_a_file_defines_is_shown_instead_of_what_was_registered_under_its_id() -> None:
    settings = replace(SETTINGS, services=(replace(BARE, port=81),))
    (instance,) = restored(Saved(services=(BARE,)), settings).view.instances("web")
    assert instance.service.value.port == 81


def test_the_first_answer_shows_of_an_alias_what_was_restored_after_it() -> None:
    alias = CheckDefinition(check_id="alias", name="alias", alias_service="web1")
    local = restored(Saved(services=(BARE,), checks=(alias, TTL_CHECK)))
    assert status_of(local, TTL_CHECK.check_id) is CheckStatus.CRITICAL
    assert status_of(local, "alias") is CheckStatus.CRITICAL
