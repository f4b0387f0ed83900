from __future__ import annotations

import logging
from dataclasses import replace

import pytest
import trio
import trio.testing

from adsum.api.leadership import leads_alone
from adsum.process.http_rim import remind_of_no_leader
from tests.api.agents import CONFIG, FakeAgent

SENTENCE = (
    "no leader: this server is one of 3 expected, and this version elects no leader: "
    "keys, sessions and locks are not answered; discovery works without one"
)


async def test_a_server_that_nobody_leads_says_so_at_start_and_every_five_minutes(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    nursery.start_soon(remind_of_no_leader, FakeAgent(replace(CONFIG, bootstrap=False, bootstrap_expect=3)))
    await trio.sleep(299)
    assert caplog.record_tuples == [("agent", logging.WARNING, SENTENCE)]
    await trio.sleep(2)
    assert caplog.record_tuples == [("agent", logging.WARNING, SENTENCE)] * 2


async def test_a_server_that_leads_alone_says_nothing_until_it_meets_another(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    agent = FakeAgent()
    nursery.start_soon(remind_of_no_leader, agent)
    await trio.sleep(299)
    assert leads_alone(agent)
    assert caplog.messages == []
    agent.meet("s2", is_server=True)
    await trio.sleep(2)
    assert caplog.messages == [SENTENCE.replace("this server is one of 3 expected", "there are 2 servers")]


async def test_a_client_leaves_it_to_the_servers(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    agent = FakeAgent(replace(CONFIG, is_server=False, bootstrap=False))
    agent.meet("s1", is_server=True, expect=3)
    nursery.start_soon(remind_of_no_leader, agent)
    await trio.sleep(301)
    assert caplog.messages == []
