"""Streams that are being opened: their peers have not said yet who they are.

There are few places for them, which nobody can hold against others: a peer of ours speaks at once. So when
all are taken, the one that waits longest makes room, of the host that has the most here. A flood of half-open
streams displaces itself, and delays nobody who speaks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from adsum.net.stream_counters import StreamCounters


class Openings:
    def __init__(self, counters: StreamCounters, *, most: int, most_per_host: int) -> None:
        self._counters = counters
        self._most = most
        self._most_per_host = most_per_host
        self._by_host: dict[str, dict[trio.CancelScope, None]] = {}  # those that wait longest first

    @contextmanager
    def waits(self, host: str) -> Iterator[None]:
        """Cancels what is done within when the place is needed."""
        self._make_room(host)
        with trio.CancelScope() as scope:
            self._by_host.setdefault(host, {})[scope] = None
            self._counters.opening += 1
            try:
                yield
            finally:
                self._leave(host, scope)

    def _make_room(self, host: str) -> None:
        if len(self._by_host.get(host, ())) >= self._most_per_host:
            self._displace(host)
        elif self._counters.opening >= self._most:
            self._displace(max(self._by_host, key=lambda each: len(self._by_host[each])))

    def _displace(self, host: str) -> None:
        scope = next(iter(self._by_host[host]))
        self._counters.displaced += 1
        self._leave(host, scope)
        scope.cancel()

    def _leave(self, host: str, scope: trio.CancelScope) -> None:
        """Whoever was displaced has left already."""
        if scope not in self._by_host.get(host, ()):
            return
        self._counters.opening -= 1
        del self._by_host[host][scope]
        if not self._by_host[host]:
            del self._by_host[host]
