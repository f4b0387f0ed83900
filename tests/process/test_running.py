"""What a reload does with what the core refuses."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from adsum.agent.commands import RegisterCheck
from adsum.agent.core import AgentCore
from adsum.catalog.definitions import ServiceDefinition
from adsum.catalog.saved import Saved
from adsum.config.build import Loaded
from adsum.config.config import Config
from adsum.config.errors import ConfigErrors
from adsum.process import translate
from adsum.process.node import AgentRim, system_now
from adsum.process.running import RunningAgent
from adsum.testing.samples import NODE, TTL_CHECK

SMALL = ServiceDefinition(service_id="web1", name="web")


async def test_a_reload_that_the_core_refuses_is_a_mistake_of_the_configuration_and_changes_nothing() -> None:
    config = Config(node_name="n1", advertise_address="127.0.0.1", services=(SMALL,))
    grown = replace(config, services=(replace(SMALL, tags=("x" * 50_000,)),))
    node = AgentRim(AgentCore(system_now(), translate.core_settings(config, NODE), Random(0)))
    node.perform(node.core.start(system_now(), Saved()))
    agent = RunningAgent(node, config, lambda: Loaded(grown, []), lambda _config, _tls: None)
    await agent.submit(RegisterCheck(replace(TTL_CHECK, notes="n" * 20_000)))
    with pytest.raises(ConfigErrors, match='check "service:web1" is too large'):
        await agent.reload()
    assert agent.config is config
