"""The agent put together: who performs its effects, and what a reload does with what the core refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
import trio

from adsum.agent.commands import RegisterCheck
from adsum.agent.effects import Effect
from adsum.catalog.definitions import ServiceDefinition
from adsum.config.build import Loaded
from adsum.config.errors import ConfigErrors
from adsum.gossip.effects import (
    CarriedHeard,
    ComparedAgain,
    EventHeard,
    GenerationAdvised,
    GenerationRaised,
    GossipRefused,
    JoinEnded,
    LeaveDone,
    RootHeard,
)
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


# Of gossip, and taken in inside the composite.
NEVER_OUT = {
    *(ComparedAgain, EventHeard, CarriedHeard, RootHeard, GenerationRaised, GenerationAdvised),
    *(JoinEnded, LeaveDone, GossipRefused),
}


@pytest.mark.parametrize("gossip_port", [0, -1], ids=["with gossip", "without"])
async def test_every_effect_that_leaves_the_composite_has_one_who_performs_it(gossip_port: int) -> None:
    config = replace(CONFIG, ports=replace(CONFIG.ports, serf_lan=gossip_port))
    async with trio.open_nursery() as nursery:
        agent = made(config, nursery)
        await agent.cluster_rim.begin()  # so that its sockets are closed
        nursery.cancel_scope.cancel()
        assert set(agent.rim.performers) == set(get_args(Effect)) - NEVER_OUT
