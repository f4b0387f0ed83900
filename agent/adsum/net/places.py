"""Places for streams whose peers have said who they are: so many in all, of one host, and for one purpose.

Strangers, who are not members, get a part of the places for a purpose, and those of one host half of that
part, so that one host does not take it all. That keeps places for members only where streams are encrypted:
elsewhere anybody can use the id of a member. What nobody may hold against others is limited by `yielding`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from typing import TypeVar

from adsum.mutable import dataclass
from adsum.named import NamedTuple
from adsum.net.introduction import Purpose, WelcomeRefusal
from adsum.net.yielding import YieldingCounters
from adsum.sockets.accepting import AcceptCounters

Key = TypeVar("Key")


@dataclass(slots=True)
class PlaceCounters:
    open: int = 0
    turned_away: int = 0  # because too many were open, in all or of one host
    busy: int = 0  # because as many were served for the same purpose as may be


@dataclass(slots=True)
class StreamCounters:
    accepting: AcceptCounters = field(default_factory=AcceptCounters)
    # Whose peers have not said yet who they are, or have not begun their exchange.
    openings: YieldingCounters = field(default_factory=YieldingCounters)
    syncs: YieldingCounters = field(default_factory=YieldingCounters)  # that were begun
    open: int = 0
    turned_away: int = 0
    busy: int = 0
    agents: PlaceCounters = field(default_factory=PlaceCounters)  # those of a server, which count there only
    pings_answered: int = 0
    syncs_served: int = 0
    syncs_failed: int = 0


class Most(NamedTuple):
    of_all: int
    of_strangers: int


NONE = Most(0, 0)  # it is not served


class StreamPlace(NamedTuple):
    host: str
    purpose: Purpose
    is_stranger: bool


class Places:
    def __init__(
        self,
        counters: StreamCounters | PlaceCounters,
        *,
        most: int,
        most_per_host: int,
        by_purpose: Mapping[Purpose, Most],
    ) -> None:
        self._counters = counters
        self._most = most
        self._most_per_host = most_per_host
        self._most_by_purpose = by_purpose
        self._by_host: Counter[str] = Counter()
        self._by_purpose: Counter[Purpose] = Counter()
        self._strangers: Counter[Purpose] = Counter()
        self._strangers_by_host: Counter[tuple[str, Purpose]] = Counter()

    def take(self, place: StreamPlace) -> WelcomeRefusal | None:
        """Without a refusal it is taken, until it is left."""
        if not self._most_by_purpose[place.purpose].of_all:
            return WelcomeRefusal.NOT_SERVED
        if self._counters.open >= self._most or self._by_host[place.host] >= self._most_per_host:
            self._counters.turned_away += 1
            return WelcomeRefusal.BUSY
        if self._is_busy(place):
            self._counters.busy += 1
            return WelcomeRefusal.BUSY
        self._counters.open += 1
        self._by_host[place.host] += 1
        self._by_purpose[place.purpose] += 1
        if place.is_stranger:
            self._strangers[place.purpose] += 1
            self._strangers_by_host[place.host, place.purpose] += 1
        return None

    def leave(self, place: StreamPlace) -> None:
        self._counters.open -= 1
        self._by_purpose[place.purpose] -= 1
        _decrease(self._by_host, place.host)
        if place.is_stranger:
            self._strangers[place.purpose] -= 1
            _decrease(self._strangers_by_host, (place.host, place.purpose))

    def _is_busy(self, place: StreamPlace) -> bool:
        most = self._most_by_purpose[place.purpose]
        if self._by_purpose[place.purpose] >= most.of_all:
            return True
        return place.is_stranger and (
            self._strangers[place.purpose] >= most.of_strangers
            or self._strangers_by_host[place.host, place.purpose] >= math.ceil(most.of_strangers / 2)
        )


def _decrease(counts: Counter[Key], key: Key) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
