"""Blocking queries: who wakes, when, with which index. Time is trio's, and jumps."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
import trio
import trio.testing

from adsum.agent.commands import DeregisterService
from adsum.api.api_types import ApiParts
from adsum.api.blocking import FAILED_META, BlockingReads
from adsum.api.filter_time import FilterTime
from adsum.api.rendering import ApiCounters, WaitableRead
from adsum.catalog.definitions import CheckStatus
from adsum.effects import Notify
from adsum.http.request import Request
from adsum.http.response import Response
from adsum.topics import Topic
from tests.api.agents import CONFIG, Asker, FakeAgent, header, index_of, refused
from tests.http.http_support import request_of

WEB = "/v1/health/service/web"


@pytest.fixture
def asker() -> Asker:
    asker = Asker()
    asker.agent.put_service("web1", "web")
    asker.agent.put_service("db1", "db")
    return asker


class Waiter:
    """One blocking query, with the moment at which it was answered."""

    def __init__(self, asker: Asker, target: str) -> None:
        self._asker = asker
        self._target = target
        self.response: Response | None = None
        self.took_s = -1.0

    async def run(self) -> None:
        begun = trio.current_time()
        self.response = await self._asker.ask(self._target)
        self.took_s = trio.current_time() - begun


async def waiting(asker: Asker, nursery: trio.Nursery, target: str) -> Waiter:
    """Its wait has begun, for sure."""
    waiter = Waiter(asker, target)
    nursery.start_soon(waiter.run)
    await trio.testing.wait_all_tasks_blocked()
    return waiter


async def test_change_of_the_service_wakes_with_a_higher_index(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    before = index_of(await asker.ask(WEB))
    async with trio.open_nursery() as nursery:
        waiter = await waiting(asker, nursery, f"{WEB}?index={before}&wait=60s")
        assert waiter.response is None
        asker.agent.report("service:web1", CheckStatus.CRITICAL)
    assert waiter.response is not None
    assert index_of(waiter.response) > before
    assert waiter.took_s < 1
    assert b'"critical"' in waiter.response.body.plain


async def test_other_services_wake_nobody_and_the_timeout_keeps_the_index(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    before = index_of(await asker.ask(WEB))
    async with trio.open_nursery() as nursery:
        waiter = await waiting(asker, nursery, f"{WEB}?index={before}&wait=60s")
        asker.agent.report("service:db1", CheckStatus.CRITICAL)
        asker.agent.put_service("db2", "db")
    assert waiter.response is not None
    assert index_of(waiter.response) == before
    assert 60 <= waiter.took_s <= 60 + 60 / 16


async def test_change_that_this_query_does_not_show_wakes_nobody(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    asker.agent.put_service("web2", "web", status="critical")
    target = f"{WEB}?passing"
    before = index_of(await asker.ask(target))
    async with trio.open_nursery() as nursery:
        waiter = await waiting(asker, nursery, f"{target}&index={before}&wait=10s")
        asker.agent.report("service:web2", CheckStatus.WARNING)
    assert waiter.response is not None
    assert index_of(waiter.response) == before
    assert waiter.took_s >= 10
    assert asker.counters.renderings_unchanged == 1


@pytest.mark.parametrize("index", ["0", "-1", "", "1"])
async def test_index_that_is_behind_or_none_is_answered_at_once(
    asker: Asker, index: str, autojump_clock: trio.testing.MockClock
) -> None:
    waiter = Waiter(asker, f"{WEB}?index={index}&wait=60s")
    await waiter.run()
    assert waiter.took_s == 0


async def test_foreign_index_is_held_a_second_and_then_answered_with_the_current_one(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    current = index_of(await asker.ask(WEB))
    waiter = Waiter(asker, f"{WEB}?index={current + 1000}&wait=60s")
    await waiter.run()
    assert waiter.took_s == 1
    assert waiter.response is not None
    assert index_of(waiter.response) == current
    assert asker.counters.foreign_indexes_held == 1


async def test_foreign_index_is_never_held_longer_than_the_client_waits(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    current = index_of(await asker.ask(WEB))
    waiter = Waiter(asker, f"{WEB}?index={current + 1000}&wait=100ms")
    await waiter.run()
    assert waiter.took_s == pytest.approx(0.1)


async def test_foreign_index_is_answered_when_something_changes(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    current = index_of(await asker.ask(WEB))
    async with trio.open_nursery() as nursery:
        waiter = await waiting(asker, nursery, f"{WEB}?index={current + 2**40}&wait=60s")
        asker.agent.report("service:web1", CheckStatus.WARNING)
    assert waiter.response is not None
    assert waiter.took_s < 1
    assert current < index_of(waiter.response) < current + 2**40


async def test_wait_without_a_value_is_five_minutes_and_never_more_than_ten(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    current = index_of(await asker.ask(WEB))
    for wait, least, most in [("", 300, 319), ("&wait=0", 300, 319), ("&wait=5h", 600, 638)]:
        waiter = Waiter(asker, f"{WEB}?index={current}{wait}")
        await waiter.run()
        assert least <= waiter.took_s <= most


async def test_last_instance_leaving_answers_with_nothing_and_a_higher_index(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    before = index_of(await asker.ask(WEB))
    async with trio.open_nursery() as nursery:
        waiter = await waiting(asker, nursery, f"{WEB}?index={before}&wait=60s")
        asker.agent.obey(DeregisterService("web1"))
    assert waiter.response is not None
    assert waiter.response.body.plain == b"[]"
    assert index_of(waiter.response) > before


async def test_service_that_is_not_there_yet_can_be_waited_for(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    before = index_of(await asker.ask("/v1/health/service/new"))
    assert before > 0
    async with trio.open_nursery() as nursery:
        waiter = await waiting(asker, nursery, f"/v1/health/service/new?index={before}&wait=60s")
        asker.agent.put_service("new")
    assert waiter.response is not None
    assert waiter.took_s < 1
    assert index_of(waiter.response) > before


async def test_watchers_of_every_check_are_woken_at_most_fifty_times_a_second(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    target = "/v1/health/state/any"
    before = index_of(await asker.ask(target))
    await trio.sleep(1)
    async with trio.open_nursery() as nursery:
        first = await waiting(asker, nursery, f"{target}?index={before}&wait=60s")
        asker.agent.report("service:web1", CheckStatus.CRITICAL)
        await trio.testing.wait_all_tasks_blocked()
        assert first.response is not None, "after a quiet time the first change is told at once"
        again = await waiting(asker, nursery, f"{target}?index={index_of(first.response)}&wait=60s")
        for status in (CheckStatus.PASSING, CheckStatus.WARNING, CheckStatus.PASSING):
            asker.agent.report("service:web1", status)
        assert again.response is None
    assert again.took_s >= 0.020
    assert again.response is not None
    assert again.response.body.plain.count(b'"passing"') == 3  # both services and the node, as they ended
    assert asker.counters.renderings == 3


async def test_crowd_of_waiters_shares_one_rendering(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    before = index_of(await asker.ask(WEB))
    waiters = [Waiter(asker, f"{WEB}?index={before}&wait=60s") for _ in range(200)]
    async with trio.open_nursery() as nursery:
        for waiter in waiters:
            nursery.start_soon(waiter.run)
        await trio.testing.wait_all_tasks_blocked()
        assert asker.counters.blocking_open == 200
        asker.agent.report("service:web1", CheckStatus.CRITICAL)
    assert len({id(waiter.response) for waiter in waiters}) == 1
    assert asker.counters.renderings == 2
    assert asker.counters.blocking_open == 0


async def test_client_that_hangs_up_leaves_no_watch_behind(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    before = index_of(await asker.ask(WEB))
    async with trio.open_nursery() as nursery:
        await waiting(asker, nursery, f"{WEB}?index={before}&wait=60s")
        assert asker.agent.watches.waiting == 1
        nursery.cancel_scope.cancel()
    assert asker.agent.watches.waiting == 0
    assert asker.counters.blocking_open == 0


async def test_waiting_query_survives_its_rendering_being_dropped(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    before = index_of(await asker.ask(WEB))
    async with trio.open_nursery() as nursery:
        waiter = await waiting(asker, nursery, f"{WEB}?index={before}&wait=60s")
        for n in range(10_000):
            await asker.ask(f"/v1/health/service/none{n}")
        assert asker.counters.renderings_dropped > 0
        asker.agent.report("service:web1", CheckStatus.CRITICAL)
    assert waiter.response is not None
    assert index_of(waiter.response) > before


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ("index=zz", "Invalid index"),
        ("index=+1", "Invalid index"),
        ("index=1_0", "Invalid index"),
        ("index=18446744073709551616", "Invalid index"),
        ("wait=5", "Invalid wait time"),
        ("index=1&wait=zz", "Invalid wait time"),
        ("max_stale=zz", 'Invalid max_stale value "zz"'),
        ("stale&consistent", "Cannot specify ?stale with ?consistent, conflicting semantics."),
        ("max_stale=1s&consistent", "Cannot specify ?stale with ?consistent, conflicting semantics."),
        ("cached&consistent", "Cannot specify ?cached with ?consistent, conflicting semantics."),
    ],
)
async def test_bad_parameters_are_refused_in_consul_s_words(
    asker: Asker, parameters: str, sentence: str
) -> None:
    assert refused(await asker.ask(f"{WEB}?{parameters}")) == (400, sentence)


async def test_largest_index_is_taken(asker: Asker, autojump_clock: trio.testing.MockClock) -> None:
    response = await asker.ask(f"{WEB}?index=18446744073709551615&wait=10ms")
    assert response.status == 200


async def test_unknown_datacenter_is_refused_with_the_three_headers(asker: Asker) -> None:
    response = await asker.ask(f"{WEB}?dc=zz")
    assert refused(response) == (500, "No path to datacenter")
    assert response.headers == FAILED_META


async def test_bad_filter_is_the_client_s_fault(asker: Asker) -> None:
    response = await asker.ask(f"{WEB}?filter=Nope==1")
    assert refused(response) == (
        400,
        'Failed to create boolean expression evaluator: Selector "Nope" is not valid',
    )
    assert response.headers == FAILED_META


async def test_answers_carry_consul_s_headers(asker: Asker) -> None:
    response = await asker.ask(WEB)
    assert header(response, "X-Consul-Knownleader") == "true"
    assert header(response, "X-Consul-Lastcontact") == "0"
    assert header(response, "X-Consul-Effective-Consistency") == "stale"
    assert header(response, "X-Consul-Query-Backend") == "blocking-query"
    assert b"X-Consul-Default-Acl-Policy: allow\r\n" in response.head(gzip=False)


async def test_client_agent_knows_no_leader() -> None:
    asker = Asker(FakeAgent(replace(CONFIG, is_server=False, bootstrap=False)))
    assert header(await asker.ask(WEB), "X-Consul-Knownleader") == "false"
    assert await asker.json("/v1/status/leader") == ""
    assert await asker.json("/v1/status/peers") == []


async def test_cached_reads_say_so_and_check_their_ages(asker: Asker) -> None:
    response = await asker.ask(f"{WEB}?cached", headers={"Cache-Control": "max-age=10, must-revalidate"})
    assert header(response, "X-Cache") == "HIT"
    assert header(response, "Age") == "0"
    bad = await asker.ask(f"{WEB}?cached", headers={"Cache-Control": "max-age=zz"})
    assert refused(bad) == (400, "Invalid Cache-Control header.")
    uncached = await asker.ask("/v1/health/state/any?cached")
    assert header(uncached, "X-Cache") is None


async def test_modes_of_consistency_share_a_rendering(asker: Asker) -> None:
    plain = await asker.ask(WEB)
    for mode in ("stale", "consistent", "leader", "dc=dc1", "token=x", "ns=default"):
        assert await asker.ask(f"{WEB}?{mode}") is plain
    assert await asker.ask(f"{WEB}?pretty") is not plain


async def test_the_same_question_in_other_words_is_answered_as_things_are_now(asker: Asker) -> None:
    await asker.ask(WEB)
    asker.agent.report("service:web1", CheckStatus.CRITICAL)
    assert b'"critical"' in (await asker.ask(f"{WEB}?stale")).body.plain


async def test_repeated_read_is_neither_parsed_nor_rendered_again(asker: Asker) -> None:
    first = await asker.ask(WEB)
    seen: list[Request] = []
    assert await asker.ask(WEB, begun=seen.append) is first
    assert seen[0]._query is None
    assert asker.counters.rendering_hits == 1
    asker.agent.report("service:web1", CheckStatus.CRITICAL)
    assert await asker.ask(WEB) is not first
    assert asker.counters.renderings == 2


async def test_only_a_repeated_question_that_waits_for_nothing_says_how_to_answer_it_anew(
    asker: Asker,
) -> None:
    asked: list[Request] = []
    targets = (WEB, f"{WEB}?index=1", f"{WEB}?token=x", f"{WEB}?consistent", "/v1/catalog/nodes?near=_agent")
    for target in targets:
        for _time in range(2):
            await asker.ask(target, begun=asked.append)
    assert [request.again is not None for request in asked] == [False, True] + [False] * 8
    again = asked[1].again
    assert again is not None
    asker.agent.report("service:web1", CheckStatus.CRITICAL)
    response = again()
    assert response is not None
    assert b'"critical"' in response.body.plain


class Revision:
    """An index that is not the catalog's: it counts changes."""

    def __init__(self) -> None:
        self.number = 41

    def of(self, _topic: Topic) -> int:
        return self.number


async def test_a_read_waits_on_the_index_that_it_names_and_not_on_the_catalog_s(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    revision, topic, counters = Revision(), Topic("kv", "batman/pg0"), ApiCounters()
    parts = ApiParts(asker.agent, Random(0), counters, asker.metrics, asker.log_stream, FilterTime(counters))
    reads = BlockingReads(parts)
    route = reads.route(
        "/v1/revision",
        lambda *_: WaitableRead(revision, (topic,), lambda: str(revision.number).encode()),
    )
    answers: list[Response] = []

    async def ask(target: bytes) -> None:
        answers.append(await route.handler(request_of("GET", target), ""))

    await ask(b"/v1/revision")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, b"/v1/revision?index=41&wait=60s")
        await trio.testing.wait_all_tasks_blocked()
        asker.agent.put_service("web2", "web")
        await trio.testing.wait_all_tasks_blocked()
        assert (len(answers), counters.blocking_open) == (1, 1)
        revision.number = 42
        asker.agent.watches.notify(Notify((topic,)))
    assert [(index_of(each), each.body.plain) for each in answers] == [(41, b"41"), (42, b"42")]
    assert (counters.blocking_woken, counters.blocking_timed_out) == (1, 0)
    assert asker.agent.watches.waiting == 0
