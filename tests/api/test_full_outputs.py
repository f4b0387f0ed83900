"""`?output=full`: what a check says beyond what travels, from whoever owns it."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from adsum.api import full_outputs
from adsum.catalog.definitions import CheckStatus
from adsum.catalog.records import OUTPUT_BYTES_MAX
from adsum.http.response import Response
from adsum.peers import outputs as outputs_module
from adsum.peers.outputs import KEPT_S
from adsum.peers.owner_calls import OUTPUT
from adsum.peers.peer_handlers import OUTPUTS_PER_S
from tests.api.agents import Asker, decoded, header, index_of, refused
from tests.api.linked import Three, formed, has, until

LONG = "the pool is empty; " * 20
TARGETS = [
    "/v1/health/service/web",
    "/v1/health/checks/web",
    "/v1/health/node/b",
    "/v1/health/state/critical",
]


@pytest.fixture
async def three(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> Three:
    three = await formed(nursery)
    three.b.put_service("web1", "web")
    await until(lambda: all(has(each, "b", "web1") for each in three.all))
    await trio.sleep(1)
    three.b.report("service:web1", CheckStatus.CRITICAL, LONG)
    await trio.sleep(2)
    three.network.calls.clear()
    return three


def outputs(response: Response) -> dict[str, str]:
    assert response.status == 200, response.body.plain
    entries = decoded(response)
    assert isinstance(entries, list)
    checks = [check for entry in entries for check in entry.get("Checks", [entry])]
    return {check["CheckID"]: check["Output"] for check in checks}


async def full(asker: Asker, target: str = TARGETS[0]) -> Response:
    return await asker.ask(f"{target}?output=full")


def asked(three: Three) -> int:
    return three.network.calls.count((OUTPUT, "b"))


@pytest.mark.parametrize("target", TARGETS)
async def test_whole_outputs_are_told_where_they_are_asked_for_and_nowhere_else(
    three: Three, autojump_clock: trio.testing.MockClock, target: str
) -> None:
    short = outputs(await three.on_a.ask(target))["service:web1"]
    assert short == LONG[:OUTPUT_BYTES_MAX]
    response = await full(three.on_a, target)
    assert outputs(response)["service:web1"] == LONG
    assert header(response, "X-Adsum-Output") is None
    assert header(response, "X-Adsum-Output-Missing") is None
    assert index_of(response) == index_of(await three.on_a.ask(target))
    assert outputs(await three.on_a.ask(target))["service:web1"] == short


async def test_own_outputs_are_whole_anyway(three: Three, autojump_clock: trio.testing.MockClock) -> None:
    assert outputs(await full(three.on_b))["service:web1"] == LONG
    assert asked(three) == 0


async def test_many_who_ask_at_once_are_one_question(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(full, three.on_a)
    assert asked(three) == 1
    assert three.a.outputs.counters.asked == 1


async def test_what_came_is_kept_while_the_check_is_as_it_was_and_not_for_long(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    await full(three.on_a)
    await full(three.on_a)
    assert asked(three) == 1
    three.b.report("service:web1", CheckStatus.WARNING, f"better; {LONG}")
    await trio.sleep(2)
    assert outputs(await full(three.on_a))["service:web1"] == f"better; {LONG}"
    assert asked(three) == 2
    three.b.report("service:web1", CheckStatus.WARNING, f"better; {LONG} and more")
    await trio.sleep(KEPT_S + 0.1)
    assert outputs(await full(three.on_a))["service:web1"] == f"better; {LONG} and more"
    assert asked(three) == 3


async def test_an_owner_that_does_not_answer_costs_a_second_and_its_outputs_stay_short(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    three.network.silent.add(OUTPUT)
    begun_s = trio.current_time()
    response = await full(three.on_a)
    assert outputs(response)["service:web1"] == LONG[:OUTPUT_BYTES_MAX]
    assert header(response, "X-Adsum-Output") == "partial"
    assert header(response, "X-Adsum-Output-Missing") == "b"
    assert trio.current_time() - begun_s == pytest.approx(1.0, abs=0.05)


def test_nodes_whose_outputs_are_missing_are_named_in_ascii_and_up_to_a_bound() -> None:
    many = [f"n{number}" for number in range(full_outputs.NODES_NAMED_MAX + 2)]
    assert full_outputs.named(["b", "é, c"]) == "b, %C3%A9%2C%20c"
    assert full_outputs.named(many).endswith("n15, 2 more")


async def test_a_dead_owner_is_not_waited_for(three: Three, autojump_clock: trio.testing.MockClock) -> None:
    three.kill("b")
    begun_s = trio.current_time()
    assert header(await full(three.on_a), "X-Adsum-Output") == "partial"
    assert trio.current_time() - begun_s == 0
    assert asked(three) == 0


async def test_an_owner_tells_five_times_a_second_at_most(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    responses = []
    for _ in range(2 * OUTPUTS_PER_S):
        three.a.outputs._kept.clear()
        responses.append(await full(three.on_a))
    complete = [each for each in responses if header(each, "X-Adsum-Output") is None]
    assert len(complete) == OUTPUTS_PER_S
    assert three.b.owners.mine.outputs_refused == OUTPUTS_PER_S
    await trio.sleep(1)
    three.a.outputs._kept.clear()
    assert header(await full(three.on_a), "X-Adsum-Output") is None


async def test_a_blocking_query_waits_as_ever_and_then_tells_all(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    index = index_of(await three.on_a.ask(TARGETS[0]))
    told: list[Response] = []

    async def wait() -> None:
        told.append(await three.on_a.ask(f"{TARGETS[0]}?output=full&index={index}&wait=30s"))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.sleep(1)
        assert told == []
        three.b.report("service:web1", CheckStatus.WARNING, f"better; {LONG}")
    assert outputs(told[0])["service:web1"] == f"better; {LONG}"


async def test_output_may_only_be_full() -> None:
    assert refused(await Asker().ask(f"{TARGETS[0]}?output=short")) == (
        400,
        'output can only be "full", not "short"',
    )


async def test_answers_that_are_too_long_for_it_are_refused_with_what_to_do(
    three: Three, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full_outputs, "ANSWER_BYTES_MAX", 100)
    status, sentence = refused(await full(three.on_a))
    assert status == 400
    assert "ask about one service or node" in sentence
    assert (await three.on_a.ask(TARGETS[0])).status == 200


async def test_kept_outputs_take_a_bounded_room(
    three: Three, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outputs_module, "KEPT_BYTES_MAX", 3 * (outputs_module.OVERHEAD_BYTES + len(LONG)))
    for number in range(10):
        three.b.put_service(f"many{number}", "many")
    await trio.sleep(3)
    for number in range(10):
        three.b.report(f"service:many{number}", CheckStatus.WARNING, LONG)
    await trio.sleep(5)
    told = outputs(await full(three.on_a, "/v1/health/service/many"))
    assert len(three.a.outputs._kept) <= 3
    assert three.a.outputs._kept_bytes <= outputs_module.KEPT_BYTES_MAX
    assert [told[f"service:many{number}"] for number in range(10)] == [LONG] * 10
