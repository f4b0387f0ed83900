"""Who waits for a key, or for anything below a prefix, and whom a change wakes.

A changed key is looked up as it is, and cut to each length at which somebody waits for a prefix: clients wait
for a handful of lengths, and so thousands of waiters whom a change does not concern cost it nothing.

Waking says only that something may have changed: whoever is woken asks `changed_since`, and may wait on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from adsum.store.keyspace import Keyspace

Wake = Callable[[], None]


class KeyWaiters:
    def __init__(self) -> None:
        self._by_key: dict[bytes, dict[Wake, None]] = {}
        self._by_prefix: dict[bytes, dict[Wake, None]] = {}
        self._lengths: Counter[int] = Counter()  # of the prefixes that are waited for
        self._rising: list[int] = []  # those lengths
        self._looked_at = 0  # the revision up to which everybody was woken

    def __len__(self) -> int:
        return sum(map(len, self._by_key.values())) + sum(map(len, self._by_prefix.values()))

    def add(self, key: bytes, wake: Wake, *, is_prefix: bool) -> None:
        waiting = self._by_prefix if is_prefix else self._by_key
        if is_prefix and key not in waiting:
            self._count(len(key), 1)
        waiting.setdefault(key, {})[wake] = None

    def remove(self, key: bytes, wake: Wake, *, is_prefix: bool) -> None:
        waiting = self._by_prefix if is_prefix else self._by_key
        wakes = waiting.get(key)
        if wakes is None:
            return
        wakes.pop(wake, None)
        if not wakes:
            del waiting[key]
            if is_prefix:
                self._count(len(key), -1)

    def everybody(self) -> list[Wake]:
        return [wake for wakes in self._all() for wake in wakes]

    def waiting_for(self, key: bytes) -> int:
        """How many, for this key or for a prefix of it."""
        return len(self._by_key.get(key, ())) + sum(len(self._by_prefix[prefix]) for prefix in self._hit(key))

    def woken(self, space: Keyspace) -> list[Wake]:
        """By everything that changed since the last look; each once."""
        if space.revision == self._looked_at:
            return []
        looked_at, self._looked_at = self._looked_at, space.revision
        if not self._by_key and not self._by_prefix:
            return []
        if looked_at < space.history.floor or space.revision < looked_at:
            return self.everybody()  # nobody can say what changed
        keys = dict.fromkeys([change[1] for change in space.history.after(looked_at)])
        by_key = [key for key in keys if key in self._by_key]
        by_prefix = dict.fromkeys([prefix for key in keys for prefix in self._hit(key)])
        woken: dict[Wake, None] = {}  # a crowd is gone through once, however many keys changed that it heeds
        for wakes in (*map(self._by_key.__getitem__, by_key), *map(self._by_prefix.__getitem__, by_prefix)):
            woken |= wakes
        return list(woken)

    def _hit(self, key: bytes) -> Iterator[bytes]:
        """The prefixes of it that somebody waits for."""
        for length in self._rising:
            if length > len(key):
                return
            if key[:length] in self._by_prefix:
                yield key[:length]

    def _all(self) -> Iterator[dict[Wake, None]]:
        yield from self._by_key.values()
        yield from self._by_prefix.values()

    def _count(self, length: int, more: int) -> None:
        self._lengths[length] += more
        if not self._lengths[length]:
            del self._lengths[length]
        self._rising = sorted(self._lengths)
