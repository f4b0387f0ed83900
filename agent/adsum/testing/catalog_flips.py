"""Checks that flip in a simulated catalog, and how long it is until each copy elsewhere shows it.

One figure for each flip and each other agent. Whoever never shows it counts with all the time there was."""

from __future__ import annotations

from array import array
from random import Random

from adsum.catalog.replication.effects import OwnerChanged
from adsum.mutable import dataclass
from adsum.now import MILLISECOND
from adsum.testing.catalog_world import CatalogWorld

AGAIN_NS = 1_100 * MILLISECOND  # sooner, the same check would be told late on purpose


@dataclass(slots=True)
class Flip:
    began_ns: int
    number: int
    version: int
    waiting: int  # a bit for each agent that does not show it yet


class CatalogFlips:
    def __init__(self, world: CatalogWorld, random: Random) -> None:
        self.count = 0
        self.unseen = 0  # copies that never showed one
        self._world = world
        self._random = random
        self._staleness_ms = array("I")
        self._pending: dict[bytes, list[Flip]] = {}  # by owner
        self._failing: dict[tuple[int, int], bool] = {}
        self._flipped_ns: dict[tuple[int, int], int] = {}
        world.copy_watchers.append(self._see)

    def flip_any(self) -> None:
        while True:
            check = (
                self._random.randrange(len(self._world.hosts)),
                self._random.randrange(self._world.services),
            )
            if self._world.now_ns - self._flipped_ns.get(check, -AGAIN_NS) >= AGAIN_NS:
                return self.flip(*check)

    def flip(self, index: int, service: int) -> None:
        world = self._world
        is_failing = not self._failing.get((index, service), False)
        number, version = world.flip(index, service, is_failing=is_failing)
        self._failing[index, service] = is_failing
        self._flipped_ns[index, service] = world.now_ns
        self.count += 1
        everybody_else = ((1 << len(world.hosts)) - 1) & ~(1 << index)
        flip = Flip(world.now_ns, number, version, everybody_else)
        self._pending.setdefault(world.shorts[index], []).append(flip)

    def _see(self, time_ns: int, observer: int, change: OwnerChanged) -> None:
        pending, after = self._pending.get(change.owner), change.after
        if not pending or after is None:
            return
        bit = 1 << observer
        for flip in pending:
            if flip.waiting & bit and after.items[flip.number].version >= flip.version:
                flip.waiting &= ~bit
                self._staleness_ms.append((time_ns - flip.began_ns) // MILLISECOND)
        if not pending[0].waiting:
            del pending[0]

    def end(self) -> None:
        left = [flip for flips in self._pending.values() for flip in flips]
        self.unseen = sum(flip.waiting.bit_count() for flip in left)
        for flip in left:
            for _ in range(flip.waiting.bit_count()):
                self._staleness_ms.append((self._world.now_ns - flip.began_ns) // MILLISECOND)
        self._pending.clear()

    def staleness_s(self, *shares: float) -> list[float]:
        """That many of all figures are at most so long."""
        ordered = sorted(self._staleness_ms) or [0]
        return [ordered[min(len(ordered) - 1, int(len(ordered) * share))] / 1_000 for share in shares]
