"""Thousands who watch what another agent owns: a change there is made into an answer once."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from adsum.catalog.definitions import CheckStatus
from adsum.http.response import Response
from tests.api.agents import Asker, index_of
from tests.api.linked import Three, formed, has, until

WATCHERS = 5_000
WEB = "/v1/health/service/web?passing"


@pytest.fixture
async def three(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> Three:
    three = await formed(nursery)
    for agent in three.all:
        nursery.start_soon(agent.watches.run)
    for number in range(20):
        three.b.put_service(f"web{number}", "web")
    await until(lambda: all(has(each, "b", f"web{n}") for each in three.all for n in range(20)))
    await trio.sleep(3)
    return three


class Crowd:
    """Each asks once, and waits."""

    def __init__(self, asker: Asker, target: str) -> None:
        self.answers: list[Response] = []
        self._asker = asker
        self._target = target

    async def ask(self) -> None:
        self.answers.append(await self._asker.ask(self._target))


async def test_a_flip_elsewhere_is_one_rendering_for_all_who_watch_it(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    for flip in range(3):
        index = index_of(await three.on_a.ask(WEB))
        crowd, before = Crowd(three.on_a, f"{WEB}&index={index}&wait=60s"), three.on_a.counters.renderings
        async with trio.open_nursery() as nursery:
            for _ in range(WATCHERS):
                nursery.start_soon(crowd.ask)
            await trio.testing.wait_all_tasks_blocked()
            assert three.on_a.counters.blocking_open == WATCHERS
            three.b.report(f"service:web{flip}", CheckStatus.CRITICAL, "down")
        assert three.on_a.counters.renderings == before + 1
        assert len(crowd.answers) == WATCHERS
        assert len({id(answer.body) for answer in crowd.answers}) == 1
        assert index_of(crowd.answers[0]) > index


async def test_a_registration_elsewhere_is_one_rendering_though_it_is_three_items(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    index = index_of(await three.on_a.ask(WEB))
    crowd, before = Crowd(three.on_a, f"{WEB}&index={index}&wait=60s"), three.on_a.counters.renderings
    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(crowd.ask)
        await trio.testing.wait_all_tasks_blocked()
        three.b.put_service("web99", "web")
    assert three.on_a.counters.renderings == before + 1
    assert b'"web99"' in crowd.answers[0].body.plain
