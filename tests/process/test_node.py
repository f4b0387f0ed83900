"""The rim around the composite core: what it does with effects."""

from __future__ import annotations

import time
from random import Random

import pytest
import trio
from trio.testing import MockClock

from adsum.address import Address
from adsum.agent.client_agent import client_agent
from adsum.agent.commands import CommandRefused, SetNodeMaintenance
from adsum.agent.core import AgentCore
from adsum.agent.effects import Effect
from adsum.agent.local_catalog import LocalCatalog
from adsum.agent.presence import uuid_bytes
from adsum.agent.saved_catalog import SavedCopy, SavedOwner
from adsum.agent.settings import AgentSettings
from adsum.catalog.effects import StopCheck
from adsum.catalog.indexes import Family
from adsum.catalog.model import Node as CatalogNode
from adsum.catalog.saved import Saved
from adsum.effects import LogLine, Notify, Persist, Severity
from adsum.gossip.claims import Profile
from adsum.gossip.commands import ForceLeave
from adsum.gossip.settings import GossipSettings, MemberIdentity
from adsum.logs.faults import Faults
from adsum.process.node import AgentRim
from adsum.process.system_clock import system_now
from adsum.topics import Topic

OWN = CatalogNode(
    node_id="6a0c4f0e-5f0b-4b1e-9d5c-0d3c1b2a9f01", name="n1", address="127.0.0.1", datacenter="dc1"
)
SAID = LogLine(Severity.WARN, "the next effect")


def core() -> AgentCore:
    now = system_now()
    local = LocalCatalog(now, AgentSettings(node=OWN, is_persistent=False), Random(0))
    local.restore(now, Saved())
    profile = Profile(uuid_bytes(OWN.node_id), OWN.name, Address(OWN.address, 8301))
    return client_agent(now, local, MemberIdentity(profile, 1), GossipSettings(), Random(0))


def fail(effect: Effect) -> None:
    raise ValueError(f"hostile: {effect}")


async def test_an_effect_that_fails_fails_alone(caplog: pytest.LogCaptureFixture) -> None:
    agent = AgentRim(core(), Faults())
    agent.performers[StopCheck] = fail
    agent.perform([StopCheck("web"), SAID])
    assert agent.faults.counts["effect"] == 1
    assert caplog.records[-1].getMessage() == "the next effect"


async def test_what_must_be_on_disk_is_never_passed_over() -> None:
    agent = AgentRim(core(), Faults())
    agent.performers[Persist] = fail
    with pytest.raises(ValueError, match="hostile: Persist"):
        agent.perform([Persist(1, ())])


async def test_each_effect_goes_to_the_one_that_performs_its_type(caplog: pytest.LogCaptureFixture) -> None:
    handed_on: list[Effect] = []
    agent, woken = AgentRim(core(), Faults()), trio.Event()
    agent.performers[StopCheck] = handed_on.append
    agent.watches.add(Topic(Family.NODES), woken.set)
    agent.perform([Notify((Topic(Family.NODES),)), SAID, StopCheck("web")])
    assert handed_on == [StopCheck("web")]
    assert woken.is_set()
    assert caplog.records[-1].getMessage() == "the next effect"


def test_what_time_brings_to_light_ends_no_agent_and_takes_no_more_than_a_look_a_second() -> None:
    class FaultyCore(AgentCore):
        ticks = 0

        def deadline(self) -> int:
            return 0

        def tick(self, _now: object) -> list[Effect]:
            self.ticks += 1
            raise KeyError("hostile")

    good = core()
    faulty = FaultyCore(good.local, good.cluster)

    async def live_for_ten_seconds() -> None:
        with trio.move_on_after(10):
            await AgentRim(faulty, Faults()).keep_time()

    trio.run(live_for_ten_seconds, clock=MockClock(autojump_threshold=0))
    assert 9 <= faulty.ticks <= 11


async def test_a_saved_node_that_cannot_be_recalled_is_left_out_alone() -> None:
    recalled: list[str] = []

    class FaultyCore(AgentCore):
        def recall(self, _now: object, copy: SavedCopy) -> list[Effect]:
            names = [saved.profile.name for saved in copy.owners]
            if names == ["n2"]:
                raise KeyError("hostile")
            recalled.extend([*names, *map(bytes.decode, copy.store)])
            return []

    good = core()
    agent = AgentRim(FaultyCore(good.local, good.cluster), Faults())
    profiles = [
        Profile(bytes(15) + bytes([place]), name, Address("10.0.0.1", 1))
        for place, name in enumerate(("n1", "n2", "n3"))
    ]
    agent.start(SavedCopy(1, tuple(SavedOwner(each, ()) for each in profiles), store=(b"the store",)))
    assert recalled == ["n1", "n3", "the store"]
    assert agent.faults.counts["saved"] == 1


async def test_who_gave_a_command_gets_what_the_core_answers_it_with() -> None:
    agent = AgentRim(core(), Faults())
    profile = Profile(b"\7" * 16, "m7", Address("10.0.0.7", 8301))
    now = agent.now()
    agent.start(SavedCopy(now.wall_ms, (SavedOwner(profile, ()),)))
    assert await agent.submit(SetNodeMaintenance(is_enabled=True)) is None  # type: ignore[func-returns-value]
    assert await agent.submit(ForceLeave("M7")) == "m7"
    with pytest.raises(CommandRefused, match="No member is called 'M7'"):
        await agent.submit(ForceLeave("M7"))


def test_the_agent_s_clock_goes_on_while_its_host_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = {time.CLOCK_BOOTTIME: 7_000_000_000, time.CLOCK_MONOTONIC: 5_000_000_000}
    monkeypatch.setattr("time.clock_gettime_ns", clocks.__getitem__)
    assert system_now().monotonic_ns == 7_000_000_000
