"""A network between simulated servers: it delays, loses, repeats, reorders, and cuts in one direction or
both."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from adsum.now import MILLISECOND
from adsum.raft.types import MemberId

Link = tuple[MemberId, MemberId]


@dataclass(slots=True)
class Weather:
    """Chances are of each message."""

    latency_ns_min: int = MILLISECOND // 5
    latency_ns_max: int = 2 * MILLISECOND
    loss: float = 0.0
    repeat: float = 0.0
    delay: float = 0.0  # chance of being held back long enough to be overtaken by elections
    delay_ns_max: int = 3_000 * MILLISECOND


class RaftNetwork:
    def __init__(self, random: Random) -> None:
        self.weather = Weather()
        self._random = random
        self._cut: dict[Link, None] = {}

    def arrivals_ns(self, source: MemberId, target: MemberId) -> list[int]:
        """How long each copy of a message takes; none if it is lost."""
        if (source, target) in self._cut or self._random.random() < self.weather.loss:
            return []
        copies = 2 if self._random.random() < self.weather.repeat else 1
        return [self._latency_ns() for _ in range(copies)]

    def cut(self, source: MemberId, target: MemberId) -> None:
        """In this direction only."""
        self._cut[source, target] = None

    def split(self, some: list[MemberId], rest: list[MemberId]) -> None:
        for one in some:
            for other in rest:
                self.cut(one, other)
                self.cut(other, one)

    def heal(self) -> None:
        self._cut.clear()

    def _latency_ns(self) -> int:
        weather = self.weather
        if weather.delay and self._random.random() < weather.delay:
            return self._random.randint(weather.latency_ns_max, weather.delay_ns_max)
        return self._random.randint(weather.latency_ns_min, weather.latency_ns_max)
