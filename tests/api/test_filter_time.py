"""What filters may take of the loop's time, together. Here nothing is left after any of them: what they spend
is real, and the time that pays for it is trio's, and jumps."""

from __future__ import annotations

import gc
from urllib.parse import quote

import pytest
import trio
import trio.testing

from adsum.api import filter_time
from adsum.api.blocking import FAILED_META
from adsum.api.request import Request
from adsum.api.response import Response
from adsum.catalog.definitions import Status
from adsum.catalog.pattern import Pattern
from tests.api.agents import Asker, header, index_of, refused

WEB = "/v1/health/service/web"
NO_TIME_LEFT = (
    "Requests with a filter have used up the time that this agent has for them. "
    "Ask again in a second, ask another agent, or ask without the filter."
)
ONE = f"{WEB}?filter=Service.Port==0"
OTHER = f"{WEB}?filter=Service.Port!=1"
COSTLY = " or ".join(['Output matches "a.{400}b"'] * 250)


@pytest.fixture
def asker(monkeypatch: pytest.MonkeyPatch) -> Asker:
    monkeypatch.setattr(filter_time, "NS_AT_ONCE", 1)
    asker = Asker()
    asker.agent.put_service("web1", "web")
    return asker


async def test_when_filters_have_had_their_time_new_ones_are_refused(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    assert (await asker.ask(ONE)).status == 200
    response = await asker.ask(OTHER)
    assert refused(response) == (
        429,
        NO_TIME_LEFT,
    )
    assert response.headers == (*FAILED_META, ("Retry-After", "1"))
    assert asker.counters.filters_refused_for_time == 1
    await trio.sleep(1)
    assert (await asker.ask(OTHER)).status == 200


async def test_answers_that_are_true_and_those_without_a_filter_are_given_all_the_same(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    asked: list[Request] = []
    first = await asker.ask(ONE)
    assert (await asker.ask(OTHER)).status == 429
    assert await asker.ask(ONE, begun=asked.append) is first
    again = asked[0].again
    assert again is not None
    assert again() is first
    for target in (WEB, "/v1/catalog/nodes", f"{WEB}?filter=", "/v1/agent/services", "/v1/agent/checks"):
        assert (await asker.ask(target)).status == 200
    asker.agent.report("service:web1", Status.CRITICAL)
    assert (await asker.ask(WEB)).status == 200
    assert again() is None
    assert (await asker.ask(ONE)).status == 429


async def test_only_filters_are_charged(asker: Asker) -> None:
    for target in (WEB, f"{WEB}?passing&tag=a", "/v1/health/state/any", "/v1/agent/services"):
        await asker.ask(target)
    assert asker.counters.filters_ns == 0
    await asker.ask(ONE)
    assert asker.counters.filters_ns > 0


@pytest.mark.parametrize("target", ["/v1/agent/services?filter=Port==0", "/v1/agent/checks?filter=Name==a"])
async def test_the_agent_s_own_lists_draw_on_the_same_time(
    asker: Asker, target: str, autojump_clock: trio.testing.MockClock
) -> None:
    assert (await asker.ask(target)).status == 200
    assert (await asker.ask(ONE)).status == 429
    response = await asker.ask(target)
    assert (response.status, header(response, "Retry-After")) == (429, "1")


async def test_who_was_woken_waits_for_time_in_place_of_being_refused(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    indexes = {}
    for target in (ONE, OTHER):
        indexes[target] = index_of(await asker.ask(target))
        await trio.sleep(1)
    answers: dict[str, Response] = {}

    async def wait(target: str) -> None:
        answers[target] = await asker.ask(f"{target}&index={indexes[target]}&wait=60s")

    async with trio.open_nursery() as nursery:
        for target in indexes:
            nursery.start_soon(wait, target)
        await trio.testing.wait_all_tasks_blocked()
        asker.agent.report("service:web1", Status.CRITICAL)
    for target in indexes:
        assert answers[target].status == 200
        assert index_of(answers[target]) > indexes[target]
    assert asker.counters.blocking_woken == 2
    assert asker.counters.filters_waited == 1
    assert asker.counters.filters_refused_for_time == 0


async def test_whose_wait_ends_before_there_is_time_gets_the_answer_there_was(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    monkeypatch.setattr(filter_time, "NS_AT_ONCE", 1)
    monkeypatch.setattr(filter_time, "NS_PER_S", 1)
    asker = Asker()
    asker.agent.put_service("web1", "web")
    before = await asker.ask(ONE)
    answers: list[Response] = []

    async def wait() -> None:
        answers.append(await asker.ask(f"{ONE}&index={index_of(before)}&wait=10s"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        asker.agent.report("service:web1", Status.CRITICAL)
    assert answers == [before]
    assert asker.counters.blocking_timed_out == 1
    assert trio.current_time() >= 10


async def test_a_filter_that_needs_too_much_work_is_refused_and_counted() -> None:
    asker = Asker()
    asker.agent.put_service("web1", "web")
    status, sentence = refused(await asker.ask(f"/v1/health/state/any?filter={quote(COSTLY, safe='')}"))
    assert status == 400
    assert "needs too much work; make it simpler, or ask about less" in sentence
    assert asker.counters.filters_refused_for_work == 1


async def test_nothing_that_was_made_of_a_filter_is_kept() -> None:
    asker = Asker()
    asker.agent.put_service("web1", "web")
    before = _patterns()
    for n in range(50):
        assert (await asker.ask(f'{WEB}?filter=Service.ID+matches+"a.{n}"')).status == 200
    assert _patterns() == before


def _patterns() -> int:
    gc.collect()
    return sum(isinstance(each, Pattern) for each in gc.get_objects())
