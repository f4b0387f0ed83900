"""What filters may take of the loop's time, together, and who waits for it. Time is trio's, and jumps. Where
an agent answers, what filters spend is real, and nothing is left after any; elsewhere a test says what."""

from __future__ import annotations

import gc
from urllib.parse import quote

import pytest
import trio
import trio.testing

from adsum.api import filter_time
from adsum.api.blocking import FAILED_META
from adsum.api.filter_time import FilterTime, NoTimeLeft
from adsum.api.rendering import ApiCounters
from adsum.catalog.definitions import CheckStatus
from adsum.catalog.pattern import Pattern
from adsum.http.request import ClientGone, Request
from adsum.http.response import Response
from adsum.now import MILLISECOND
from tests.api.agents import Asker, header, index_of, refused
from tests.http.http_support import connected, get, request_of, running, until

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
    """There is time again some milliseconds after a filter."""
    monkeypatch.setattr(filter_time, "NS_AT_ONCE", 1)
    asker = Asker()
    asker.agent.put_service("web1", "web")
    return asker


@pytest.fixture
def starved(monkeypatch: pytest.MonkeyPatch) -> Asker:
    """One filter takes all the time there will ever be."""
    monkeypatch.setattr(filter_time, "NS_AT_ONCE", 1)
    monkeypatch.setattr(filter_time, "NS_PER_S", 1)
    asker = Asker()
    asker.agent.put_service("web1", "web")
    return asker


class Spender:
    """Asks with filters that take as long as a test says."""

    def __init__(self) -> None:
        self.counters = ApiCounters()
        self.time = FilterTime(self.counters, lambda: self.spent_ns)
        self.spent_ns = 0
        self.answered: list[tuple[str, float]] = []  # and when

    def spend(self, milliseconds: int) -> None:
        with self.time.spending():
            self.spent_ns += milliseconds * MILLISECOND

    async def ask(self, name: str, milliseconds: int, request: Request | None = None) -> None:
        await self.time.soon(request or request_of("GET", b"/"), lambda: self.spend(milliseconds))
        self.answered.append((name, round(trio.current_time(), 3)))


class Caller:
    """A client that can hang up."""

    def __init__(self) -> None:
        self.gone = trio.Event()

    async def until_gone(self) -> None:
        await self.gone.wait()

    def wake(self) -> None:
        raise AssertionError("it is not in the queue")

    def answer(self, request: Request, response: Response, varying: bytes) -> None:
        raise AssertionError("its request has a task")


async def test_a_client_that_asks_costly_filters_without_end_keeps_nobody_out(
    autojump_clock: trio.testing.MockClock,
) -> None:
    spender = Spender()

    async def go_on() -> None:
        while True:
            await spender.ask("costly", 100)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(go_on)
        for _ in range(100):
            asked_at = trio.current_time()
            await spender.ask("cheap", 1)
            assert trio.current_time() - asked_at < 0.8, "what the costly one had, and its next turn"
            await trio.sleep(0.050)
        nursery.cancel_scope.cancel()
    names = [name for name, _at in spender.answered]
    assert names.count("cheap") == 100
    assert names.count("costly") > 90
    assert spender.counters.filters_refused_for_time == 0


async def test_an_agent_s_clients_take_turns_too(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    answered: list[int] = []

    async def go_on() -> None:
        while True:
            answered.append((await asker.ask(f"{WEB}?filter=Service.Port!={len(answered) + 1}")).status)
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(go_on)
        for number in range(50):
            assert (await asker.ask(f"{WEB}?filter=Service.ID!=web{number}")).status == 200
        nursery.cancel_scope.cancel()
    assert set(answered) == {200}
    assert 48 <= len(answered) <= 50  # one of them for each of the 50
    assert asker.counters.filters_refused_for_time == 0


async def test_who_asks_first_is_answered_first_and_only_once_there_is_time(
    autojump_clock: trio.testing.MockClock,
) -> None:
    spender = Spender()
    spender.spend(300)
    async with trio.open_nursery() as nursery:
        for name in ("first", "second", "third"):
            nursery.start_soon(spender.ask, name, 50)
            await trio.testing.wait_all_tasks_blocked()
    assert spender.answered == [("first", 0.2), ("second", 0.4), ("third", 0.6)]
    assert spender.counters.filters_waited == 3


async def test_nobody_is_served_before_those_who_wait_though_there_is_time_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    spender = Spender()
    spender.spend(300)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(spender.ask, "first", 10)
        await trio.testing.wait_all_tasks_blocked()
        autojump_clock.jump(0.5)
        with pytest.raises(NoTimeLeft):
            spender.spend(10)
        await spender.ask("second", 10)
    assert [name for name, _at in spender.answered] == ["first", "second"]
    spender.spend(10)


async def test_who_hangs_up_leaves_the_queue_and_costs_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    spender, caller = Spender(), Caller()
    spender.spend(300)

    async def hang_up_soon() -> None:
        with pytest.raises(ClientGone):
            await spender.ask("gone", 200, request_of("GET", b"/", client=caller))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(hang_up_soon)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(spender.ask, "next", 10)
        await trio.testing.wait_all_tasks_blocked()
        caller.gone.set()
    assert spender.answered == [("next", 0.2)]
    assert spender.spent_ns == 310 * MILLISECOND


async def test_a_connection_that_is_closed_meanwhile_is_seen_to_be(starved: Asker) -> None:
    async with running(starved.router.answer) as server, connected(server) as client:
        assert (await client.ask(get(ONE))).status == 200
        await client.send(get(OTHER))
        await until(lambda: starved.counters.filters_waited == 1)
        await client.stream.aclose()
        await until(lambda: server.counters.clients_gone == 1)
    assert starved.counters.filters_refused_for_time == 0


async def test_there_may_be_no_time_for_a_second_and_then_who_waits_is_refused(
    starved: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    assert (await starved.ask(ONE)).status == 200
    assert trio.current_time() == 0
    response = await starved.ask(OTHER)
    assert trio.current_time() == 1
    assert refused(response) == (429, NO_TIME_LEFT)
    assert response.headers == (*FAILED_META, ("Retry-After", "1"))
    assert starved.counters.filters_waited == 1
    assert starved.counters.filters_refused_for_time == 1


async def test_when_64_wait_more_are_refused_at_once(
    starved: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    answered: list[tuple[int, float]] = []

    async def ask(number: int) -> None:
        response = await starved.ask(f"{WEB}?filter=Service.Port!={number}")
        answered.append((response.status, trio.current_time()))

    await starved.ask(ONE)
    async with trio.open_nursery() as nursery:
        for number in range(70):
            nursery.start_soon(ask, number)
    assert answered == [(429, 0.0)] * 6 + [(429, 1.0)] * 64
    assert starved.counters.filters_refused_for_time == 70
    assert (await starved.ask(OTHER)).status == 429
    assert trio.current_time() == 2, "those places are free again"


async def test_those_who_wait_for_the_same_answer_share_it(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    answers: list[Response] = []

    async def ask() -> None:
        answers.append(await asker.ask(OTHER))

    await asker.ask(ONE)
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(ask)
    assert len(answers) == 20
    assert len({id(answer) for answer in answers}) == 1
    assert asker.counters.renderings == 2


async def test_a_bad_filter_keeps_its_place_no_longer_than_its_turn(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    await asker.ask(ONE)
    answered: list[int] = []

    async def ask(target: str) -> None:
        answered.append((await asker.ask(target)).status)

    async with trio.open_nursery() as nursery:
        for target in (f"{WEB}?filter=Nope==1", OTHER):
            nursery.start_soon(ask, target)
            await trio.testing.wait_all_tasks_blocked()
    assert answered == [400, 200]


async def test_answers_that_are_true_and_those_without_a_filter_are_given_all_the_same(
    starved: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    asked: list[Request] = []
    first = await starved.ask(ONE)
    assert (await starved.ask(OTHER)).status == 429
    began = trio.current_time()
    assert await starved.ask(ONE, begun=asked.append) is first
    again = asked[0].again
    assert again is not None
    assert again() is first
    for target in (WEB, "/v1/catalog/nodes", f"{WEB}?filter=", "/v1/agent/services", "/v1/agent/checks"):
        assert (await starved.ask(target)).status == 200
    starved.agent.report("service:web1", CheckStatus.CRITICAL)
    assert (await starved.ask(WEB)).status == 200
    assert again() is None
    assert trio.current_time() == began, "none of them waited"
    assert (await starved.ask(ONE)).status == 429
    assert trio.current_time() == began + 1


async def test_an_answer_that_is_known_by_its_bytes_waits_for_time_once_it_is_not_true(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    asked: list[Request] = []
    for _ in range(2):
        await asker.ask(ONE, begun=asked.append)
    again = asked[1].again
    assert again is not None
    asker.agent.report("service:web1", CheckStatus.CRITICAL)
    assert again() is None
    response = await asker.ask(ONE)
    assert response.status == 200
    assert b'"critical"' in response.body.plain
    assert asker.counters.filters_waited == 1
    assert again() is response


async def test_only_filters_are_charged(asker: Asker) -> None:
    for target in (WEB, f"{WEB}?passing&tag=a", "/v1/health/state/any", "/v1/agent/services"):
        await asker.ask(target)
    assert asker.counters.filters_ns == 0
    await asker.ask(ONE)
    assert asker.counters.filters_ns > 0


@pytest.mark.parametrize("target", ["/v1/agent/services?filter=Port==0", "/v1/agent/checks?filter=Name==a"])
async def test_the_agent_s_own_lists_draw_on_the_same_time(
    starved: Asker, target: str, autojump_clock: trio.testing.MockClock
) -> None:
    assert (await starved.ask(target)).status == 200
    assert (await starved.ask(ONE)).status == 429
    response = await starved.ask(target)
    assert (response.status, header(response, "Retry-After")) == (429, "1")
    assert trio.current_time() == 2, "each waited a second"


@pytest.mark.parametrize("target", ["/v1/agent/services?filter=Port!=1", "/v1/agent/checks?filter=Name!=a"])
async def test_the_agent_s_own_lists_wait_for_time_and_show_what_is_there_by_then(
    asker: Asker, target: str, autojump_clock: trio.testing.MockClock
) -> None:
    await asker.ask(ONE)
    answers: list[Response] = []

    async def ask() -> None:
        answers.append(await asker.ask(target))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        assert answers == []
        asker.agent.put_service("web2", "web")
    assert answers[0].status == 200
    assert b"web2" in answers[0].body.plain
    assert asker.counters.filters_waited == 1


@pytest.mark.parametrize(
    "target",
    ["services", "services?filter=Service!=a", "checks", "checks?filter=Name!=a"],
)
async def test_the_agent_s_own_lists_are_in_order_with_a_filter_and_without(target: str) -> None:
    asker = Asker()
    for service_id in ("web2", "web1"):
        asker.agent.put_service(service_id, "web")
    shown = (await asker.ask(f"/v1/agent/{target}")).body.plain
    assert 0 < shown.index(b"web1") < shown.index(b"web2")


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
        asker.agent.report("service:web1", CheckStatus.CRITICAL)
    for target in indexes:
        assert answers[target].status == 200
        assert index_of(answers[target]) > indexes[target]
    assert asker.counters.blocking_woken == 2
    assert asker.counters.filters_waited == 1
    assert asker.counters.filters_refused_for_time == 0


async def test_whose_wait_ends_before_there_is_time_gets_the_answer_there_was(
    starved: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    before = await starved.ask(ONE)
    answers: list[Response] = []

    async def wait() -> None:
        answers.append(await starved.ask(f"{ONE}&index={index_of(before)}&wait=10s"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        starved.agent.report("service:web1", CheckStatus.CRITICAL)
    assert answers == [before]
    assert starved.counters.blocking_timed_out == 1
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
