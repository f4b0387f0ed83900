from __future__ import annotations

import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from adsum.net.errors import Unwelcome
from adsum.net.yielding import YieldingCounters, YieldingPlaces


class Waiting:
    """So many at once, each within its place; who made room or found none is told by number."""

    def __init__(self, *, most: int, most_per_host: int, spared_s: float = 0.0) -> None:
        self.counters = YieldingCounters()
        self.displaced: list[int] = []
        self.turned_away: list[int] = []
        self._spared_s = spared_s
        self._places = YieldingPlaces(self.counters, most=most, most_per_host=most_per_host)

    async def wait(self, number: int, host: str) -> None:
        try:
            with self._places.hold(host) as held:
                held.spare(self._spared_s)
                await trio.sleep_forever()
            self.displaced.append(number)
        except Unwelcome:
            self.turned_away.append(number)


async def displaced(waiting: Waiting, *hosts: str) -> list[int]:
    async with trio.open_nursery() as nursery:
        for number, host in enumerate(hosts):
            nursery.start_soon(waiting.wait, number, host)
            await wait_all_tasks_blocked()
        assert waiting.counters.displaced == len(waiting.displaced)
        assert waiting.counters.turned_away == len(waiting.turned_away)
        assert waiting.counters.held == len(hosts) - len(waiting.displaced) - len(waiting.turned_away)
        found = list(waiting.displaced)
        nursery.cancel_scope.cancel()
    assert waiting.counters.held == 0
    return found


async def test_a_host_that_has_all_its_places_loses_the_oldest_of_them() -> None:
    assert await displaced(Waiting(most=10, most_per_host=2), "a", "b", "a", "a", "a") == [0, 2]


async def test_when_all_places_are_taken_the_host_that_has_the_most_makes_room() -> None:
    assert await displaced(Waiting(most=4, most_per_host=4), "a", "b", "b", "b", "c", "d") == [1, 2]


async def test_of_hosts_that_have_one_place_each_the_oldest_makes_room() -> None:
    assert await displaced(Waiting(most=3, most_per_host=3), "a", "b", "c", "d", "e") == [0, 1]


async def test_who_has_spoken_leaves_its_place_to_others() -> None:
    counters = YieldingCounters()
    places = YieldingPlaces(counters, most=1, most_per_host=1)
    for _ in range(3):
        with places.hold("a"):
            assert counters.held == 1
    assert (counters.held, counters.displaced) == (0, 0)


async def test_a_newcomer_is_counted_with_its_host_before_another_makes_room() -> None:
    assert await displaced(Waiting(most=3, most_per_host=3), "a", "b", "c", "b") == [1]


async def test_of_hosts_that_have_as_many_the_one_that_waits_longest_makes_room() -> None:
    assert await displaced(Waiting(most=4, most_per_host=4), "b", "a", "a", "a", "b", "b", "c") == [1, 0, 2]


async def test_where_we_work_for_each_newcomers_are_turned_away(autojump_clock: MockClock) -> None:
    waiting = Waiting(most=2, most_per_host=2, spared_s=1.0)
    assert await displaced(waiting, "a", "b", "c", "a") == []
    assert waiting.turned_away == [2, 3]


async def test_a_host_with_fewer_than_another_is_not_turned_away(autojump_clock: MockClock) -> None:
    waiting = Waiting(most=3, most_per_host=3, spared_s=1.0)
    assert await displaced(waiting, "a", "a", "a", "b", "b", "a") == [0]
    assert waiting.turned_away == [4, 5]


async def test_what_was_spared_for_long_enough_makes_room(autojump_clock: MockClock) -> None:
    waiting = Waiting(most=1, most_per_host=1, spared_s=1.0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(waiting.wait, 0, "a")
        await trio.sleep(0.9)
        nursery.start_soon(waiting.wait, 1, "a")
        await trio.sleep(0.2)
        nursery.start_soon(waiting.wait, 2, "b")
        await trio.sleep(0.1)
        assert (waiting.displaced, waiting.turned_away) == ([0], [1])
        nursery.cancel_scope.cancel()
