"""Network coordinates: where everybody would be if round trips were distances.

Vivaldi in 8 dimensions with a height, as Serf has it, with its constants: each probe pulls our point as a
spring would, the less sure side moving more; a height stands for the way onto the backbone; the mean of the
last errors adjusts for what geometry cannot express; a weak gravity keeps the whole cloud from drifting.
"""

from __future__ import annotations

import math
import struct
from collections import deque
from random import Random

from adsum.frozen import dataclass

DIMENSIONS = 8
ERROR_MAX = 1.5
CERTAINTY = ERROR_WEIGHT = 0.25  # Vivaldi's cc and ce
WINDOW = 20
HEIGHT_MIN_S = 1e-5
GRAVITY_RHO = 150.0
RTT_MAX_S = 10.0
CONVERGED_ERROR = 0.5  # below it distances are believed

_PACKED = struct.Struct(">11f")


@dataclass(frozen=True, slots=True)
class Coordinate:
    vector: tuple[float, ...] = (0.0,) * DIMENSIONS
    error: float = ERROR_MAX
    adjustment_s: float = 0.0
    height_s: float = HEIGHT_MIN_S

    def distance_s(self, other: Coordinate) -> float:
        raw = self.raw_distance_s(other)
        adjusted = raw + self.adjustment_s + other.adjustment_s
        return adjusted if adjusted > 0 else raw

    def raw_distance_s(self, other: Coordinate) -> float:
        return math.dist(self.vector, other.vector) + self.height_s + other.height_s

    def pack(self) -> bytes:
        return _PACKED.pack(*self.vector, self.error, self.adjustment_s, self.height_s)


def unpack(packed: bytes) -> Coordinate | None:
    """None when it is no coordinate: any number in it that is not finite would poison ours."""
    if len(packed) != _PACKED.size:
        return None
    values = _PACKED.unpack(packed)
    if not all(map(math.isfinite, values)) or any(abs(value) > RTT_MAX_S * 10 for value in values):
        return None
    *vector, error, adjustment_s, height_s = values
    return Coordinate(tuple(vector), max(error, 0.0), adjustment_s, max(height_s, HEIGHT_MIN_S))


class Vivaldi:
    __slots__ = ("_adjustments", "_random", "here", "packed", "rejected")

    def __init__(self, random: Random) -> None:
        self.here = Coordinate()
        self.packed = self.here.pack()
        self.rejected = 0
        self._random = random
        self._adjustments: deque[float] = deque(maxlen=WINDOW)

    @property
    def is_converged(self) -> bool:
        return self.here.error < CONVERGED_ERROR

    def observe(self, there: Coordinate, rtt_s: float) -> None:
        if not 0 < rtt_s <= RTT_MAX_S:
            self.rejected += 1
            return
        here = self._pulled(there, rtt_s)
        self._adjustments.append(rtt_s - here.raw_distance_s(there))
        adjustment_s = sum(self._adjustments) / (2 * WINDOW)
        self.here = Coordinate(_towards_origin(here.vector), here.error, adjustment_s, here.height_s)
        self.packed = self.here.pack()

    def _pulled(self, there: Coordinate, rtt_s: float) -> Coordinate:
        here = self.here
        distance_s = here.raw_distance_s(there)
        wrongness = abs(distance_s - rtt_s) / rtt_s
        weight = here.error / max(here.error + there.error, 1e-6)
        error = ERROR_WEIGHT * weight * wrongness + here.error * (1 - ERROR_WEIGHT * weight)
        force_s = CERTAINTY * weight * (rtt_s - distance_s)
        direction, apart_s = self._direction(there)
        vector = tuple(own + force_s * step for own, step in zip(here.vector, direction, strict=True))
        height_s = here.height_s
        if apart_s > 0:
            height_s = max(HEIGHT_MIN_S, height_s + (height_s + there.height_s) * force_s / apart_s)
        return Coordinate(vector, min(error, ERROR_MAX), here.adjustment_s, height_s)

    def _direction(self, there: Coordinate) -> tuple[list[float], float]:
        """Away from the other; when both are in one place, anywhere."""
        apart = [own - other for own, other in zip(self.here.vector, there.vector, strict=True)]
        length = math.hypot(*apart)
        if length > 1e-6:
            return [step / length for step in apart], length
        anywhere = [self._random.random() - 0.5 for _ in range(DIMENSIONS)]
        length = math.hypot(*anywhere) or 1.0
        return [step / length for step in anywhere], 0.0


def _towards_origin(vector: tuple[float, ...]) -> tuple[float, ...]:
    away_s = math.hypot(*vector)
    if not away_s:
        return vector
    pull = (away_s / GRAVITY_RHO) ** 2 / away_s
    return tuple(value * (1 - pull) for value in vector)
