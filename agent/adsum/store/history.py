"""The newest changes of one keyspace, each with the record before and after it.

Bounded in changes and in bytes. What is put out raises the floor to its revision: of everything after the
floor each change is here, and the state at any revision from the floor on can be had by undoing from the
newest. Changes of one revision come and go together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple, TypeAlias

from adsum.kv import KeyRecord

# Revision, key, the record before, the record after, the agent through which it came, and that agent's wall
# clock in ms. A plain tuple, for the collector stops looking at those.
Change: TypeAlias = tuple[int, bytes, KeyRecord | None, KeyRecord | None, str, int]

CHANGE_OVERHEAD_BYTES = 120
HANDFUL = 256


class HistoryBounds(NamedTuple):
    changes_max: int
    bytes_max: int  # of keys, and of records that were replaced


class History:
    def __init__(self, bounds: HistoryBounds, floor: int = 0) -> None:
        self.bounds = bounds
        self.floor = floor  # revision of the newest change that is not here any more
        self._changes: deque[Change] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._changes)

    @property
    def bytes_total(self) -> int:
        return self._bytes

    def add(self, change: Change) -> None:
        self._changes.append(change)
        self._bytes += _bytes_of(change)

    def add_all(self, changes: list[Change]) -> None:
        self._changes += changes
        self._bytes += sum(map(_bytes_of, changes))

    def put_out(self) -> Iterator[Change]:
        """What exceeds the bounds, oldest first. After an entry is applied, for its changes stay together."""
        changes = self._changes
        while len(changes) > self.bounds.changes_max or self._bytes > self.bounds.bytes_max:
            revision = changes[0][0]
            while changes and changes[0][0] == revision:
                change = changes.popleft()
                self._bytes -= _bytes_of(change)
                yield change
            self.floor = revision

    def clear(self, floor: int) -> list[list[Change]]:
        """What was here, in handfuls."""
        changes, self._changes = iter(self._changes), deque()
        self._bytes, self.floor = 0, floor
        return list(iter(lambda: list(islice(changes, HANDFUL)), []))

    def after(self, revision: int) -> list[Change]:
        """In order, all that came later. From the floor on nothing is missing."""
        assert revision >= self.floor, "some changes after it are not here any more"
        found: list[Change] = []
        for change in reversed(self._changes):
            if change[0] <= revision:
                break
            found.append(change)
        found.reverse()
        return found

    def of(self, key: bytes, most: int) -> list[Change]:
        """The newest so many of one key, in order. All are looked through, which takes some 5 ms."""
        found = list(islice((change for change in reversed(self._changes) if change[1] == key), most))
        found.reverse()
        return found

    def all(self) -> list[Change]:
        return list(self._changes)


def _bytes_of(change: Change) -> int:
    """The record after it counts when it is replaced: until then the table has it anyway."""
    _revision, key, before, _after, _via, _wall_ms = change
    return CHANGE_OVERHEAD_BYTES + len(key) + (before.bytes_total if before is not None else 0)
