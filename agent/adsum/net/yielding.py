"""Places for streams that wait for their peers, which are given up to others when they are needed.

There are few of them, and nobody can hold them against others: a peer of ours speaks at once. So when all
are taken, the one that was taken first makes room, of the host that has the most, the newcomer counted. A
flood of silent streams displaces itself, and delays nobody who speaks.

A place is spared while we work for its stream, and the newcomer turned away instead: when many come at once,
each would otherwise displace another, and none would get to its end. A host that has more than the newcomer's
is not spared, whatever we do for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from adsum.mutable import dataclass
from adsum.net.errors import Unwelcome


@dataclass(slots=True)
class YieldingCounters:
    held: int = 0
    displaced: int = 0  # closed to make room for others
    turned_away: int = 0  # because all were being worked for


class HeldPlace:
    """One place, since when."""

    __slots__ = ("_spared_until_s", "scope", "since_s")

    def __init__(self, scope: trio.CancelScope) -> None:
        self.scope = scope
        self.since_s = self._spared_until_s = trio.current_time()

    @property
    def is_spared(self) -> bool:
        return trio.current_time() < self._spared_until_s

    def spare(self, for_s: float) -> None:
        self._spared_until_s = trio.current_time() + for_s


class YieldingPlaces:
    def __init__(self, counters: YieldingCounters, *, most: int, most_per_host: int) -> None:
        self._counters = counters
        self._most = most
        self._most_per_host = most_per_host
        self._by_host: dict[str, dict[HeldPlace, None]] = {}  # the oldest first

    @contextmanager
    def hold(self, host: str) -> Iterator[HeldPlace]:
        """Cancels what is done within when the place is needed. Raises Unwelcome when none can be had."""
        if self._held_by(host) >= self._most_per_host:
            self._displace_one(host, [host])
        elif self._counters.held >= self._most:
            self._displace_one(host, list(self._by_host))
        with trio.CancelScope() as scope:
            held = HeldPlace(scope)
            self._by_host.setdefault(host, {})[held] = None
            self._counters.held += 1
            try:
                yield held
            finally:
                self._leave(host, held)

    def _displace_one(self, newcomers: str, hosts: list[str]) -> None:
        """Of these hosts, for one of the newcomer's."""
        its_own = self._held_by(newcomers) + 1
        found = [
            (self._held_by(host) + (host == newcomers), -held.since_s, host, held)
            for host in hosts
            if (held := self._oldest(host, spares=self._held_by(host) <= its_own)) is not None
        ]
        if not found:
            self._counters.turned_away += 1
            raise Unwelcome("busy")
        _, _, host, held = max(found, key=lambda each: each[:2])
        self._counters.displaced += 1
        self._leave(host, held)
        held.scope.cancel()

    def _held_by(self, host: str) -> int:
        return len(self._by_host.get(host, ()))

    def _oldest(self, host: str, *, spares: bool) -> HeldPlace | None:
        return next((held for held in self._by_host[host] if not (spares and held.is_spared)), None)

    def _leave(self, host: str, held: HeldPlace) -> None:
        """Whoever was displaced has left already."""
        if held not in self._by_host.get(host, ()):
            return
        self._counters.held -= 1
        del self._by_host[host][held]
        if not self._by_host[host]:
            del self._by_host[host]
