"""Where values of one kind usually lie: counts in logarithmic bins, the old ones fading by half-lives.

64 bins over a wide range keep a quantile within some 15 %, which is all that timeouts need, in half a
kilobyte. Fading costs nothing per sample: later samples weigh more, and now and then all weights are scaled
back."""

from __future__ import annotations

import math

BINS = 64
WEIGHT_MAX = 2.0**40


class Histogram:
    __slots__ = ("_bins", "_half_life_ns", "_low", "_per_unit", "_started_ns", "_width", "count")

    def __init__(self, low: float, high: float, half_life_ns: int) -> None:
        self._low = math.log(low)
        self._width = (math.log(high) - self._low) / BINS
        self._per_unit = 1 / self._width
        self._half_life_ns = half_life_ns
        self._started_ns = 0
        self._bins: list[float] = []  # made with the first sample: most histograms never see one
        self.count = 0

    def add(self, now_ns: int, value: float) -> None:
        if not self._bins:
            self._bins = [0.0] * BINS
            self._started_ns = now_ns
        weight = 2.0 ** ((now_ns - self._started_ns) / self._half_life_ns)
        if weight > WEIGHT_MAX:
            self._bins = [held / weight for held in self._bins]
            self._started_ns, weight = now_ns, 1.0
        self._bins[self._bin(value)] += weight
        self.count += 1

    def quantile(self, share: float) -> float:
        """The upper edge of the bin it falls into: timeouts err on the patient side."""
        wanted = share * sum(self._bins)
        passed = 0.0
        for index, held in enumerate(self._bins):
            passed += held
            if passed >= wanted:
                return self._edge(index + 1)
        return self._edge(BINS)

    def survival(self, value: float) -> float:
        """The share of samples above the value; beyond the last one it goes on falling as the last bins
        did."""
        total = sum(self._bins)
        if not total:
            return 1.0
        above = sum(self._bins[self._bin(value) + 1 :])
        if above:
            return above / total
        tail = self.quantile(0.999)
        scale = max(tail - self.quantile(0.9), tail / 16) / math.log(100)
        return 0.001 * math.exp(-max(0.0, value - tail) / scale)

    def _bin(self, value: float) -> int:
        if value <= 0:
            return 0
        return min(BINS - 1, max(0, int((math.log(value) - self._low) * self._per_unit)))

    def _edge(self, index: int) -> float:
        return math.exp(self._low + index * self._width)
