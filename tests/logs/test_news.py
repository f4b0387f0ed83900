from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from adsum.logs.news import LogNews, NewsTopic

CAME = NewsTopic("came", "came", at_once=2, gather_s=15.0)
TURNED = NewsTopic("turned", at_once=1, gather_s=60.0)


def told(caplog: pytest.LogCaptureFixture, story: Callable[[LogNews], Awaitable[None]]) -> list[str]:
    """What the log says when the story is over, on a clock that jumps."""

    async def main() -> None:
        news = LogNews(logging.getLogger("test"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(news.run)
            await story(news)
            nursery.cancel_scope.cancel()

    with caplog.at_level(logging.INFO):
        trio.run(main, clock=MockClock(autojump_threshold=0))
    return [record.getMessage() for record in caplog.records]


def come(news: LogNews, *names: str) -> None:
    for name in names:
        news.log(CAME, logging.INFO, f"{name} came", name)


def test_few_are_told_one_by_one_and_at_once(caplog: pytest.LogCaptureFixture) -> None:
    async def story(news: LogNews) -> None:
        come(news, "a", "b")
        assert len(caplog.records) == 2
        await trio.sleep(60)
        come(news, "c")
        assert len(caplog.records) == 3

    assert told(caplog, story) == ["a came", "b came", "c came"]


def test_many_at_once_are_two_lines_and_a_summary_even_if_nothing_follows(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(news: LogNews) -> None:
        come(news, *(f"n{number}" for number in range(1_204)))
        await trio.sleep(14)
        assert len(caplog.records) == 2
        await trio.sleep(2)
        assert len(caplog.records) == 3

    assert told(caplog, story) == [
        "n0 came",
        "n1 came",
        "1,202 more members came, among them n2, n3, n4, n5, n6",
    ]


def test_what_never_ends_is_a_few_lines_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def story(news: LogNews) -> None:
        for second in range(600):
            come(news, f"n{second}")
            await trio.sleep(1)

    assert len(told(caplog, story)) <= 10 * (2 + 60 / 15)


def test_one_that_was_left_over_is_told_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    async def story(news: LogNews) -> None:
        come(news, "a", "b", "c")
        await trio.sleep(16)

    assert told(caplog, story) == ["a came", "b came", "c came"]


def test_topics_do_not_push_each_other_out(caplog: pytest.LogCaptureFixture) -> None:
    async def story(news: LogNews) -> None:
        come(news, "a", "b", "c", "d")
        news.log(TURNED, logging.WARNING, "it turned")

    assert told(caplog, story)[2] == "it turned"


def test_without_a_word_for_many_the_last_line_stands_for_those_left_out_with_its_level(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(news: LogNews) -> None:
        for number in range(3_000):
            news.log(TURNED, logging.ERROR if number % 2 else logging.INFO, f"turn {number}")
        await trio.sleep(61)

    assert told(caplog, story) == ["turn 0", "turn 2999 (2,998 more since the last such line)"]
    assert [record.levelno for record in caplog.records] == [logging.INFO, logging.ERROR]


def test_what_has_gathered_when_the_agent_ends_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def story(news: LogNews) -> None:
        come(news, "a", "b", "c", "d")
        await wait_all_tasks_blocked()

    assert told(caplog, story)[-1] == "2 more members came, among them c, d"


def test_each_gathering_ends_in_its_own_time(caplog: pytest.LogCaptureFixture) -> None:
    async def story(news: LogNews) -> None:
        for number in range(3):
            news.log(TURNED, logging.INFO, f"turn {number}")
        await trio.sleep(5)
        come(news, "a", "b", "c")
        await trio.sleep(16)
        assert caplog.records[-1].getMessage() == "c came"
        await trio.sleep(40)

    assert told(caplog, story)[-1] == "turn 2 (1 more since the last such line)"
