"""When one task wakes, on trio's clock that jumps to where something is due."""

from __future__ import annotations

import math

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from adsum.process.alarm import Alarm


async def test_it_rings_at_its_moment_and_then_at_the_next(autojump_clock: MockClock) -> None:
    alarm = Alarm()
    alarm.set(3)
    await alarm.rings()
    assert trio.current_time() == 3
    alarm.set(5)
    await alarm.rings()
    assert trio.current_time() == 5


async def test_a_moment_that_has_come_rings_until_it_is_moved(autojump_clock: MockClock) -> None:
    alarm = Alarm()
    alarm.set(3)
    for _ in range(3):
        await alarm.rings()
    assert trio.current_time() == 3


async def test_it_can_be_moved_both_ways_while_somebody_sleeps(autojump_clock: MockClock) -> None:
    alarm, rung = Alarm(), list[float]()

    async def sleep() -> None:
        for _ in range(2):
            await alarm.rings()
            rung.append(trio.current_time())
            alarm.set(math.inf)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(sleep)
        await wait_all_tasks_blocked()
        alarm.set(7)
        alarm.set(2)
        await trio.sleep(4)
        alarm.set(5)
        alarm.set(9)
    assert rung == [2, 9]


async def test_whoever_sleeps_is_cancelled_with_all_else(autojump_clock: MockClock) -> None:
    with trio.move_on_after(3) as all_else:
        await Alarm().rings()
    assert all_else.cancelled_caught


async def test_others_have_their_turn_though_its_moment_has_come() -> None:
    alarm, turns = Alarm(), list[str]()
    alarm.set(-math.inf)

    async def other() -> None:
        turns.append("other")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        await alarm.rings()
        await alarm.rings()
        assert turns == ["other"]
