"""The newest changes of one keyspace, each with the record before and after it.

Bounded in changes and in bytes. What is put out raises the floor to its revision: of everything after the
floor each change is here, and the state at any revision from the floor on can be had by undoing from the
newest. Changes of one revision come and go together.

They are kept by the handful, in tuples that are never changed: a frozen view of a hundred thousand changes is
a list of 400 of those. A list of all of them would be looked through by Python's collector, for 25 ms, twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple, TypeAlias

from adsum.kv import KeyRecord

# Revision, key, the record before, the record after, the agent through which it came, and that agent's wall
# clock in ms. A plain tuple, for the collector stops looking at those.
Change: TypeAlias = tuple[int, bytes, KeyRecord | None, KeyRecord | None, str, int]

CHANGE_OVERHEAD_BYTES = 120
# At most. Of the oldest handful all are kept while one of them is.
HANDFUL, HANDFUL_BYTES = 256, 256 * 1024


class HistoryBounds(NamedTuple):
    changes_max: int
    bytes_max: int  # of keys, and of records that were replaced


class History:
    def __init__(self, bounds: HistoryBounds, floor: int = 0) -> None:
        self.bounds = bounds
        self.floor = floor  # revision of the newest change that is not here any more
        self._handfuls: deque[tuple[Change, ...]] = deque()  # oldest first
        self._newest: list[Change] = []  # which follow on those
        self._newest_bytes = 0
        self._put_out = 0  # of the oldest handful, or of the newest changes where there is none
        self._count = 0
        self._bytes = 0

    def __len__(self) -> int:
        return self._count

    @property
    def bytes_total(self) -> int:
        return self._bytes

    def add(self, change: Change) -> None:
        bytes_ = _bytes_of(change)
        self._newest.append(change)
        self._newest_bytes += bytes_
        self._bytes += bytes_
        self._count += 1
        if len(self._newest) == HANDFUL or self._newest_bytes >= HANDFUL_BYTES:
            self._handfuls.append(tuple(self._newest))
            self._newest, self._newest_bytes = [], 0

    def put_out(self) -> Iterator[Change]:
        """What exceeds the bounds, oldest first. After an entry is applied, for its changes stay together."""
        while self._count > self.bounds.changes_max or self._bytes > self.bounds.bytes_max:
            revision = self._oldest()[0]
            while self._count and self._oldest()[0] == revision:
                yield self._pop()
            self.floor = revision

    def clear(self, floor: int) -> list[Sequence[Change]]:
        """What was here, in handfuls."""
        found = [*self._handfuls, self._newest]
        self._handfuls, self._newest, self._newest_bytes = deque(), [], 0
        self._put_out = self._count = self._bytes = 0
        self.floor = floor
        return found

    def after(self, revision: int) -> list[Change]:
        """In order, all that came later. From the floor on nothing is missing."""
        assert revision >= self.floor, "some changes after it are not here any more"
        found: list[Change] = []
        for change in self._newest_first():
            if change[0] <= revision:
                break
            found.append(change)
        found.reverse()
        return found

    def of(self, key: bytes, most: int) -> list[Change]:
        """The newest so many of one key, in order. All are looked through, which takes some 5 ms."""
        found = list(islice((change for change in self._newest_first() if change[1] == key), most))
        found.reverse()
        return found

    def frozen(self) -> list[Sequence[Change]]:
        """All, in order, as they are now."""
        oldest, *others = (*self._handfuls, tuple(self._newest))
        return [oldest[self._put_out :], *others]

    # Inside.

    def _oldest(self) -> Change:
        return (self._handfuls[0] if self._handfuls else self._newest)[self._put_out]

    def _pop(self) -> Change:
        change = self._oldest()
        self._count -= 1
        self._bytes -= _bytes_of(change)
        self._put_out += 1
        if self._handfuls and self._put_out == len(self._handfuls[0]):
            self._handfuls.popleft()
            self._put_out = 0
        return change

    def _newest_first(self) -> Iterator[Change]:
        """Those that were put out are older than all the others."""
        older = chain.from_iterable(map(reversed, reversed(self._handfuls)))
        return islice(chain(reversed(self._newest), older), self._count)


def _bytes_of(change: Change) -> int:
    """The record after it counts when it is replaced: until then the table has it anyway."""
    _revision, key, before, _after, _via, _wall_ms = change
    return CHANGE_OVERHEAD_BYTES + len(key) + (before.bytes_total if before is not None else 0)
