from __future__ import annotations

import trio
from trio.testing import wait_all_tasks_blocked

from adsum.net.openings import Openings
from adsum.net.stream_counters import StreamCounters


class Waiting:
    """So many at once, each within its place; who made room is told by number."""

    def __init__(self, *, most: int, most_per_host: int) -> None:
        self.counters = StreamCounters()
        self.displaced: list[int] = []
        self._openings = Openings(self.counters, most=most, most_per_host=most_per_host)

    async def wait(self, number: int, host: str) -> None:
        with self._openings.waits(host):
            await trio.sleep_forever()
        self.displaced.append(number)


async def displaced(waiting: Waiting, *hosts: str) -> list[int]:
    async with trio.open_nursery() as nursery:
        for number, host in enumerate(hosts):
            nursery.start_soon(waiting.wait, number, host)
            await wait_all_tasks_blocked()
        assert waiting.counters.displaced == len(waiting.displaced)
        assert waiting.counters.opening == len(hosts) - len(waiting.displaced)
        found = list(waiting.displaced)
        nursery.cancel_scope.cancel()
    assert waiting.counters.opening == 0
    return found


async def test_a_host_that_has_all_its_places_loses_the_oldest_of_them() -> None:
    assert await displaced(Waiting(most=10, most_per_host=2), "a", "b", "a", "a", "a") == [0, 2]


async def test_when_all_places_are_taken_the_host_that_has_the_most_makes_room() -> None:
    assert await displaced(Waiting(most=4, most_per_host=4), "a", "b", "b", "b", "c", "d") == [1, 2]


async def test_of_hosts_that_have_one_place_each_the_oldest_makes_room() -> None:
    assert await displaced(Waiting(most=3, most_per_host=3), "a", "b", "c", "d", "e") == [0, 1]


async def test_who_has_spoken_leaves_its_place_to_others() -> None:
    counters = StreamCounters()
    openings = Openings(counters, most=1, most_per_host=1)
    for _ in range(3):
        with openings.waits("a"):
            assert counters.opening == 1
    assert (counters.opening, counters.displaced) == (0, 0)
