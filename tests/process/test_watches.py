from __future__ import annotations

from itertools import pairwise

import trio

from adsum.catalog.indexes import Family
from adsum.effects import Notify
from adsum.process.watches import SLICE, Watches
from adsum.topics import Topic

WEB = Topic(Family.HEALTH, "web")
OTHER = Topic(Family.HEALTH, "other")


def test_only_who_waits_on_the_topic_is_woken() -> None:
    watches, woken = Watches(), list[str]()
    watches.add(WEB, lambda: woken.append("web"))
    watches.add(OTHER, lambda: woken.append("other"))
    watches.notify(Notify((WEB,)))
    assert woken == ["web"]


def test_who_left_is_not_woken_and_leaves_nothing_behind() -> None:
    watches, woken = Watches(), list[str]()

    def wake() -> None:
        woken.append("web")

    watches.add(WEB, wake)
    watches.remove(WEB, wake)
    watches.remove(OTHER, wake)
    watches.notify(Notify((WEB,)))
    assert (woken, watches.waiting) == ([], 0)


async def test_a_crowd_is_woken_in_slices_with_room_for_others_between() -> None:
    watches, woken = Watches(), list[int]()
    for number in range(8 * SLICE):
        watches.add(WEB, lambda number=number: woken.append(number))  # type: ignore[misc]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watches.run)
        watches.notify(Notify((WEB,)))
        counts = [len(woken)]
        while len(woken) < 8 * SLICE:
            await trio.lowlevel.checkpoint()
            counts.append(len(woken))
        nursery.cancel_scope.cancel()
    assert woken == list(range(8 * SLICE))
    assert counts[0] == SLICE
    # trio runs ready tasks in any order, so two slices may fall between two looks
    assert max(after - before for before, after in pairwise(counts)) <= 2 * SLICE
