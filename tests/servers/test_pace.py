from __future__ import annotations

from collections.abc import Callable

import trio
from trio.testing import MockClock

from adsum.now import Now
from adsum.raft.errors import NotLeader
from adsum.servers.pace import Pace


class Driver:
    """Leads, counts its ticks, and is confirmed when the test says so."""

    def __init__(self) -> None:
        self.is_leader = True
        self.ticks = 0
        self.reads: list[Callable[[int | Exception], None]] = []

    def tick(self, now: Now) -> None:
        self.ticks += 1

    def read(self, answered: Callable[[int | Exception], None]) -> None:
        if not self.is_leader:
            raise NotLeader("another one leads")
        self.reads.append(answered)


async def rest() -> None:
    await trio.testing.wait_all_tasks_blocked()


async def paused(nursery: trio.Nursery, clock: MockClock, driver: Driver, gap_s: float) -> Pace:
    pace = Pace(driver, 0.05, lambda: Now(0, 0))
    nursery.start_soon(pace.run)
    await rest()
    clock.jump(0.05)
    await rest()
    assert driver.ticks == 1
    clock.jump(gap_s)
    await rest()
    return pace


async def test_b14_after_a_pause_a_leader_trusts_no_time_before_a_quorum_confirmed_it(
    mock_clock: MockClock,
) -> None:
    driver = Driver()
    async with trio.open_nursery() as nursery:
        pace = await paused(nursery, mock_clock, driver, 5.0)
        assert (pace.pauses, driver.ticks) == (1, 2)  # and not a hundred at once
        assert not pace.is_time_trusted
        (confirm,) = driver.reads
        confirm(17)
        assert pace.is_time_trusted
        nursery.cancel_scope.cancel()


async def test_what_could_not_be_confirmed_is_asked_again(mock_clock: MockClock) -> None:
    driver = Driver()
    async with trio.open_nursery() as nursery:
        pace = await paused(nursery, mock_clock, driver, 5.0)
        driver.reads.pop()(NotLeader("not sure"))
        assert not pace.is_time_trusted
        mock_clock.jump(0.05)
        await rest()
        driver.reads.pop()(17)
        assert pace.is_time_trusted
        nursery.cancel_scope.cancel()


async def test_a_leader_that_was_replaced_meanwhile_has_nothing_to_expire(mock_clock: MockClock) -> None:
    driver = Driver()
    async with trio.open_nursery() as nursery:
        pace = await paused(nursery, mock_clock, driver, 5.0)
        driver.is_leader = False
        driver.reads.pop()(NotLeader("leadership was lost"))
        assert pace.is_time_trusted
        nursery.cancel_scope.cancel()


async def test_a_tick_that_is_a_little_late_is_made_up_for(mock_clock: MockClock) -> None:
    driver = Driver()
    async with trio.open_nursery() as nursery:
        pace = await paused(nursery, mock_clock, driver, 0.15)
        assert (pace.pauses, driver.ticks, pace.is_time_trusted) == (0, 4, True)
        nursery.cancel_scope.cancel()
