from __future__ import annotations

import errno
import json
import logging
from random import Random

import pytest
import trio
import trio.testing

from adsum.config.config import WatchDefinition
from adsum.http.request import Request
from adsum.http.response import Response, json_body, text
from adsum.logs.faults import Faults
from adsum.watch_plan import plan_of
from adsum.watching.counters import WatchCounters
from adsum.watching.watch import Ask, ConfiguredWatch, HandlerFailed
from tests.api.agents import Asker

SERVICES = WatchDefinition(plan=plan_of("services", {}), token="s3cret")


class Told:
    """A handler that remembers, and does at each call what it is told next."""

    def __init__(self) -> None:
        self.changes: list[tuple[int, object]] = []
        self.raises: list[Exception] = []
        self.second = trio.Event()

    async def handle(self, index: int, said: bytes) -> None:
        await trio.lowlevel.checkpoint()
        if self.raises:
            raise self.raises.pop(0)
        self.changes.append((index, json.loads(said)))
        if len(self.changes) == 2:
            self.second.set()


class Answers:
    """An API that gives its answers in turn, then never again."""

    def __init__(self, *answers: Response | Exception) -> None:
        self.asked: list[Request] = []
        self._answers = list(answers)

    async def ask(self, request: Request) -> Response:
        await trio.lowlevel.checkpoint()
        self.asked.append(request)
        if not self._answers:
            await trio.sleep_forever()
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def says(index: int, value: object) -> Response:
    return json_body(json.dumps(value).encode(), (("X-Consul-Index", str(index)),))


def watch_of(ask: Ask, told: Told, counters: WatchCounters, faults: Faults | None = None) -> ConfiguredWatch:
    return ConfiguredWatch(SERVICES, ask, told.handle, counters, Random(0), faults or Faults())


async def test_it_is_handed_what_the_agent_says_now_and_at_each_change(nursery: trio.Nursery) -> None:
    asker, told = Asker(), Told()
    nursery.start_soon(watch_of(asker.router.answer, told, WatchCounters()).run)
    await trio.testing.wait_all_tasks_blocked()
    asker.agent.put_service("web1", "web")
    await told.second.wait()
    assert [sorted(services) for _, services in told.changes if isinstance(services, dict)] == [
        [],
        ["web"],
    ]
    assert told.changes[1][0] > told.changes[0][0]


async def test_the_question_waits_for_the_index_and_carries_the_token(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    answers, told = Answers(says(7, {"a": []}), says(8, {"a": []}), says(9, {})), Told()
    nursery.start_soon(watch_of(answers.ask, told, WatchCounters()).run)
    await trio.sleep(0.3)
    assert len(answers.asked) == 2, "at most four times a second"
    await trio.sleep(1)
    targets = [request.target for request in answers.asked]
    assert targets == [
        b"/v1/catalog/services?",
        *(b"/v1/catalog/services?index=%d" % index for index in (7, 8, 9)),
    ]
    assert answers.asked[0].headers.first("x-consul-token") == "s3cret"
    assert told.changes == [(7, {"a": []}), (9, {})]


async def test_what_is_not_answered_is_asked_again_ever_later_and_said_once_a_minute(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    counters, told = WatchCounters(), Told()
    refusals = [text(500, "No cluster leader")] * 3
    answers = Answers(*refusals, says(5, {}))
    nursery.start_soon(watch_of(answers.ask, told, counters).run)
    await trio.sleep(12)
    assert told.changes == [(5, {})]
    assert counters.questions_failed == 3
    assert caplog.record_tuples == [
        (
            "agent.watch",
            logging.WARNING,
            "watch of services /v1/catalog/services: not answered: No cluster leader",
        )
    ]


async def test_an_agent_that_has_met_nobody_yet_does_not_tell_its_handler_that_there_is_nothing(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    counters, told = WatchCounters(), Told()
    headers = (("X-Consul-Index", "4"), ("X-Adsum-Stale", "joining"))
    answers = Answers(json_body(b"{}", headers), says(7, {"web": []}))
    nursery.start_soon(watch_of(answers.ask, told, counters).run)
    await trio.sleep(3)
    assert told.changes == [(7, {"web": []})]
    assert answers.asked[1].target == b"/v1/catalog/services?"
    assert counters.questions_failed == 1


async def test_what_an_agent_remembers_of_its_last_run_is_handed_over(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    told = Told()
    headers = (("X-Consul-Index", "4"), ("X-Adsum-Stale", "saved copy"))
    answers = Answers(json_body(b'{"web": []}', headers))
    nursery.start_soon(watch_of(answers.ask, told, WatchCounters()).run)
    await trio.sleep(1)
    assert told.changes == [(4, {"web": []})]


async def test_a_handler_that_fails_is_said_once_a_minute_and_called_at_the_next_change(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    counters, told = WatchCounters(), Told()
    told.raises = [HandlerFailed("x: exit status 3"), HandlerFailed("x: exit status 3")]
    answers = Answers(says(1, {"a": []}), says(2, {}), says(3, {"b": []}))
    nursery.start_soon(watch_of(answers.ask, told, counters).run)
    await trio.sleep(5)
    assert told.changes == [(3, {"b": []})]
    assert (counters.handled, counters.handlers_failed) == (1, 2)
    assert caplog.messages == ["watch of services /v1/catalog/services: its handler failed: x: exit status 3"]


@pytest.mark.parametrize(
    ("shortage", "sentence"),
    [
        (OSError(errno.EMFILE, ""), "too many open files: raise"),
        (OSError(errno.EAGAIN, ""), "resource temporarily unavailable: see what takes the processes"),
        (
            RuntimeError("can't start new thread"),
            "resource temporarily unavailable: see what takes the processes",
        ),
    ],
)
async def test_a_handler_that_finds_no_file_process_or_thread_is_called_again_with_the_same_change(
    nursery: trio.Nursery,
    autojump_clock: trio.testing.MockClock,
    caplog: pytest.LogCaptureFixture,
    shortage: Exception,
    sentence: str,
) -> None:
    told = Told()
    told.raises = [shortage]
    nursery.start_soon(watch_of(Answers(says(1, {"a": []})).ask, told, WatchCounters()).run)
    await trio.sleep(31)
    assert told.changes == [(1, {"a": []})]
    assert f"its handler is tried again: {sentence}" in caplog.text


async def test_a_fault_of_ours_ends_neither_the_agent_nor_the_watch(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    told, faults = Told(), Faults()
    answers = Answers(ValueError("unforeseen"), json_body(b"no json"), says(1, {}))
    nursery.start_soon(watch_of(answers.ask, told, WatchCounters(), faults).run)
    await trio.sleep(10)
    assert told.changes == [(1, {})]
    assert faults.counts["watch"] == 2
