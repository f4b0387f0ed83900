"""What a reload does with what the core refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio

from adsum.agent.commands import RegisterCheck
from adsum.catalog.definitions import ServiceDefinition
from adsum.config.build import Loaded
from adsum.config.errors import ConfigErrors
from adsum.testing.samples import TTL_CHECK
from tests.process.agents import CONFIG, made

SMALL = ServiceDefinition(service_id="web1", name="web")


async def test_a_reload_that_the_core_refuses_is_a_mistake_of_the_configuration_and_changes_nothing() -> None:
    config = replace(CONFIG, services=(SMALL,), ports=replace(CONFIG.ports, serf_lan=-1))
    grown = replace(config, services=(replace(SMALL, tags=("x" * 50_000,)),))
    async with trio.open_nursery() as nursery:
        agent = made(config, nursery, read_again=lambda: Loaded(grown, []))
        await agent.submit(RegisterCheck(replace(TTL_CHECK, notes="n" * 20_000)))
        with pytest.raises(ConfigErrors, match='check "service:web1" is too large'):
            await agent.reload()
        assert agent.config is config
