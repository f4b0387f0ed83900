"""The two clusters of one run, and how a measurement takes turns between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import NamedTuple, TypeVar

from tests.system.clusters import Cluster

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Trial:
    """How much is asked of this run."""

    rounds: int
    churn_s: float
    random: Random


class Sides(NamedTuple):
    ours: Cluster
    consul: Cluster

    def alternate(self, rounds: int, measure: Callable[[Cluster], T]) -> tuple[list[T], list[T]]:
        """Every other round begins with the other side."""
        found: tuple[list[T], list[T]] = ([], [])
        for number in range(rounds):
            for which in (0, 1) if number % 2 == 0 else (1, 0):
                found[which].append(measure(self[which]))
        return found

    def each(self, measure: Callable[[Cluster], T]) -> tuple[T, T]:
        return measure(self.ours), measure(self.consul)
