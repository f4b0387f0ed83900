from __future__ import annotations

import logging
from dataclasses import replace

import pytest
import trio
import trio.testing

from adsum.process.http_rim import remind_of_no_leader
from tests.api.agents import CONFIG, FakeAgent


async def test_a_server_that_nobody_leads_says_so_soon_and_every_five_minutes(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    agent = FakeAgent(replace(CONFIG, bootstrap=False, bootstrap_expect=3))
    agent.consensus.waits_for = "this server belongs to no cluster yet: 1 of 3 servers are alive"
    nursery.start_soon(remind_of_no_leader, agent)
    await trio.sleep(9)
    assert caplog.messages == []
    await trio.sleep(300)
    said = ("agent", logging.WARNING, f"no leader: {agent.consensus.waits_for}")
    assert caplog.record_tuples == [said]
    await trio.sleep(2)
    assert caplog.record_tuples == [said] * 2


async def test_a_server_that_leads_says_nothing_until_nobody_does(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    agent = FakeAgent()
    nursery.start_soon(remind_of_no_leader, agent)
    await trio.sleep(309)
    assert caplog.messages == []
    agent.see_leader(None)
    await trio.sleep(2)
    assert caplog.messages == ["no leader: there is 1 server, and none is known to lead"]


async def test_a_client_leaves_it_to_the_servers(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    agent = FakeAgent(replace(CONFIG, is_server=False, bootstrap=False))
    agent.meet("s1", is_server=True)
    nursery.start_soon(remind_of_no_leader, agent)
    await trio.sleep(311)
    assert caplog.messages == []
