from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from adsum.logs.stream import (
    FOLLOWERS_MAX,
    LINES_WAITING_MAX,
    LogCounters,
    LogFollower,
    LogStream,
    TooManyFollowers,
)

log = logging.getLogger("agent.test")


@pytest.fixture
def stream() -> Iterator[LogStream]:
    root = logging.getLogger()
    before = root.level
    made = LogStream(logging.INFO, LogCounters())
    root.addHandler(made)
    yield made
    root.removeHandler(made)
    root.setLevel(before)


def messages(lines: list[str]) -> list[str]:
    return [line.split(": ", 1)[1] for line in lines]


async def test_a_follower_gets_what_is_logged_at_its_level_and_above(stream: LogStream) -> None:
    with stream.follow(logging.WARNING, as_json=False) as follower:
        log.info("not this")
        log.warning("this")
        log.error("and this")
        assert messages(await follower.next_lines()) == ["this", "and this"]


async def test_a_follower_may_ask_for_more_than_the_agent_writes(stream: LogStream) -> None:
    assert not log.isEnabledFor(logging.DEBUG)
    with stream.follow(logging.DEBUG, as_json=True) as follower:
        log.debug("details")
        [line] = await follower.next_lines()
        assert '"@message":"details"' in line
    assert not log.isEnabledFor(logging.DEBUG)
    assert stream.counters.lines["debug"] == 0  # the agent itself wrote nothing


async def test_a_waiting_follower_wakes_for_a_line_from_another_thread(stream: LogStream) -> None:
    got: list[str] = []

    async def read(follower: LogFollower) -> None:
        got.extend(await follower.next_lines())

    with stream.follow(logging.INFO, as_json=False) as follower:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, follower)
            await wait_all_tasks_blocked()
            await trio.to_thread.run_sync(log.info, "from a thread")
    assert messages(got) == ["from a thread"]


async def test_a_slow_follower_loses_lines_and_is_told_how_many(stream: LogStream) -> None:
    with stream.follow(logging.INFO, as_json=False) as follower:
        for n in range(LINES_WAITING_MAX + 7):
            log.info("line %d", n)
        lines = messages(await follower.next_lines())
        assert lines[0] == "line 0"
        assert lines[-2] == f"line {LINES_WAITING_MAX - 1}"
        assert lines[-1] == "7 lines were left out here: they came faster than they were read"
        log.info("after")
        assert messages(await follower.next_lines()) == ["after"]
    assert stream.counters.lost_following == 7


async def test_one_slow_follower_does_not_cost_another_a_line(stream: LogStream) -> None:
    with stream.follow(logging.INFO, as_json=False), stream.follow(logging.INFO, as_json=False) as quick:
        for n in range(LINES_WAITING_MAX + 1):
            log.info("line %d", n)
            assert messages(await quick.next_lines()) == [f"line {n}"]


async def test_followers_are_limited_and_make_room_when_they_go(stream: LogStream) -> None:
    follows = [stream.follow(logging.INFO, as_json=False) for _ in range(FOLLOWERS_MAX)]
    for each in follows:
        each.__enter__()
    with pytest.raises(TooManyFollowers), stream.follow(logging.INFO, as_json=False):
        pass
    follows[0].__exit__(None, None, None)
    with stream.follow(logging.INFO, as_json=False):
        pass
    for each in follows[1:]:
        each.__exit__(None, None, None)


def test_lines_are_counted_by_level(stream: LogStream) -> None:
    log.debug("no")
    log.info("one")
    log.critical("two")
    assert stream.counters.lines == {"trace": 0, "debug": 0, "info": 1, "warn": 0, "error": 1}


def test_the_level_can_be_changed_while_running(stream: LogStream) -> None:
    stream.set_level(logging.DEBUG)
    log.debug("yes")
    stream.set_level(logging.ERROR)
    log.info("no")
    assert stream.counters.lines == {"trace": 0, "debug": 1, "info": 0, "warn": 0, "error": 0}
