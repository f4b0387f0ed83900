"""Deadlines of a core, by name. Setting a name again moves it; a stale heap entry is skipped by its sequence.

One heap serves thousands of protocol timers; the rim sleeps only until the earliest. Entries are ordered by
(deadline, sequence), so that equal deadlines fire in the order they were set, whatever the names are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)

# Stale entries are swept out when they outnumber the live ones by this much.
STALE_ENTRIES_MAX = 64


class Timers(Generic[Name]):
    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Name]] = []
        self._live: dict[Name, int] = {}  # the sequence of the entry that counts
        self._sequence = 0

    def set(self, name: Name, deadline_ns: int) -> None:
        self._sequence += 1
        self._live[name] = self._sequence
        heappush(self._heap, (deadline_ns, self._sequence, name))
        if len(self._heap) > 2 * len(self._live) + STALE_ENTRIES_MAX:
            self._heap = [entry for entry in self._heap if self._live.get(entry[2]) == entry[1]]
            heapify(self._heap)

    def cancel(self, name: Name) -> None:
        self._live.pop(name, None)

    def __contains__(self, name: Name) -> bool:
        return name in self._live

    def earliest(self) -> int | None:
        heap, live = self._heap, self._live
        while heap:
            deadline_ns, sequence, name = heap[0]
            if live.get(name) == sequence:
                return deadline_ns
            heappop(heap)
        return None

    def take_due(self, monotonic_ns: int) -> Iterator[Name]:
        """Names whose time has come, earliest first; each is cleared before it is handed out."""
        while (deadline_ns := self.earliest()) is not None and deadline_ns <= monotonic_ns:
            name = heappop(self._heap)[2]
            del self._live[name]
            yield name
