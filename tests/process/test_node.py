"""The rim around the composite core: what it does with effects."""

from __future__ import annotations

import time
from random import Random

import pytest
import trio
from trio.testing import MockClock

from adsum.address import Address
from adsum.agent.core import AgentCore
from adsum.agent.effects import Effect
from adsum.agent.saved_catalog import SavedCopy, SavedOwner
from adsum.agent.settings import AgentSettings
from adsum.catalog.effects import Notify
from adsum.catalog.indexes import Family, Topic
from adsum.catalog.model import Node as CatalogNode
from adsum.effects import LogLine, Persist, Severity
from adsum.gossip.claims import Profile
from adsum.process.node import AgentRim, system_now

OWN = CatalogNode(
    node_id="6a0c4f0e-5f0b-4b1e-9d5c-0d3c1b2a9f01", name="n1", address="127.0.0.1", datacenter="dc1"
)
SAID = LogLine(Severity.WARN, "the next effect")


class Unwritable:
    def write(self, _effect: Effect) -> None:
        raise OSError("no room")


def node() -> AgentRim:
    return AgentRim(AgentCore(system_now(), AgentSettings(node=OWN, is_persistent=False), Random(0)))


async def test_an_effect_that_fails_fails_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    agent = node()

    def fail(_topics: object) -> None:
        raise ValueError("hostile")

    monkeypatch.setattr(agent.watches, "notify", fail)
    agent.perform([Notify((Topic(Family.EVENTS),)), SAID])
    assert agent.faults.counts["effect"] == 1
    assert caplog.records[-1].getMessage() == "the next effect"


async def test_what_must_be_on_disk_is_never_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = node()
    monkeypatch.setattr(agent, "_writer", Unwritable())
    with pytest.raises(OSError, match="no room"):
        agent.perform([Persist(1, ())])


def test_what_time_brings_to_light_ends_no_agent_and_takes_no_more_than_a_look_a_second() -> None:
    class FaultyCore(AgentCore):
        ticks = 0

        def deadline(self) -> int:
            return 0

        def tick(self, _now: object) -> list[Effect]:
            self.ticks += 1
            raise KeyError("hostile")

    core = FaultyCore(system_now(), AgentSettings(node=OWN, is_persistent=False), Random(0))

    async def live_for_ten_seconds() -> None:
        with trio.move_on_after(10):
            await AgentRim(core).keep_time()

    trio.run(live_for_ten_seconds, clock=MockClock(autojump_threshold=0))
    assert 9 <= core.ticks <= 11


async def test_a_saved_node_that_cannot_be_recalled_is_left_out_alone() -> None:
    recalled: list[str] = []

    class FaultyCore(AgentCore):
        def start_gossip(self, _now: object, _cluster: object) -> list[Effect]:
            return []

        def recall(self, _now: object, copy: SavedCopy) -> list[Effect]:
            (saved,) = copy.owners
            if saved.profile.name == "n2":
                raise KeyError("hostile")
            recalled.append(saved.profile.name)
            return []

    class Roll:
        cluster = None

    agent = AgentRim(FaultyCore(system_now(), AgentSettings(node=OWN, is_persistent=False), Random(0)))
    profiles = [
        Profile(bytes(15) + bytes([place]), name, Address("10.0.0.1", 1))
        for place, name in enumerate(("n1", "n2", "n3"))
    ]
    agent.start_gossip(Roll(), SavedCopy(1, tuple(SavedOwner(each, ()) for each in profiles)))  # type: ignore[arg-type]
    assert recalled == ["n1", "n3"]
    assert agent.faults.counts["saved"] == 1


def test_the_agent_s_clock_goes_on_while_its_host_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = {time.CLOCK_BOOTTIME: 7_000_000_000, time.CLOCK_MONOTONIC: 5_000_000_000}
    monkeypatch.setattr("time.clock_gettime_ns", clocks.__getitem__)
    assert system_now().monotonic_ns == 7_000_000_000
