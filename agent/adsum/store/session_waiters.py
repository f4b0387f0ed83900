"""Who waits for a session, for those of a node, or for any, and whom a change wakes.

As with keys, waking says only that something may have changed.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import TypeAlias

from adsum.store.sessions import SessionTable

Wake: TypeAlias = Callable[[], None]
Awaited: TypeAlias = tuple[str | None, str | None]  # an id, or a node's folded name, or neither

ANY: Awaited = (None, None)


class SessionWaiters:
    def __init__(self) -> None:
        self._waiting: dict[Awaited, dict[Wake, None]] = {}
        self._looked_at = 0  # the revision up to which everybody was woken

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, wake: Wake, *, id_: str | None = None, node: str | None = None) -> None:
        """For that one, for those of that node, or for all."""
        self._waiting.setdefault(_awaited(id_, node), {})[wake] = None

    def remove(self, wake: Wake, *, id_: str | None = None, node: str | None = None) -> None:
        awaited = _awaited(id_, node)
        wakes = self._waiting.get(awaited)
        if wakes is not None:
            wakes.pop(wake, None)
            if not wakes:
                del self._waiting[awaited]

    def everybody(self) -> list[Wake]:
        return [wake for wakes in self._waiting.values() for wake in wakes]

    def woken(self, sessions: SessionTable) -> list[Wake]:
        """By everything that changed since the last look; each once."""
        if sessions.revision == self._looked_at:
            return []
        looked_at, self._looked_at = self._looked_at, sessions.revision
        if not self._waiting:
            return []
        if looked_at < sessions.recent_floor or sessions.revision < looked_at:
            return self.everybody()  # nobody can say what changed
        moved: dict[Awaited, None] = {}
        for change in takewhile(lambda change: change.revision > looked_at, reversed(sessions.recent)):
            moved |= {(change.id, None): None, (None, change.node): None}
        moved[ANY] = None
        woken: dict[Wake, None] = {}
        for awaited in moved:
            woken |= self._waiting.get(awaited, {})
        return list(woken)


def _awaited(id_: str | None, node: str | None) -> Awaited:
    return id_, node.lower() if node is not None else None
