"""Quantiles, as Consul tells them of what it times: of the last interval, in milliseconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

SHARES = (0.5, 0.9, 0.99)  # Consul's


def of_buckets(share: float, edges: Sequence[float], counts: Sequence[int]) -> float:
    """Evenly spread within a bucket, as Prometheus reckons; of what lies beyond the last edge, that edge."""
    wanted, below = share * sum(counts), 0.0
    if not wanted:
        return math.nan
    for (low, high), count in zip(pairwise((0.0, *edges)), counts, strict=False):
        if below + count >= wanted:
            return low + (high - low) * (wanted - below) / count
        below += count
    return edges[-1]


def of_values(share: float, values: Sequence[float]) -> float:
    """The smallest that so many of them do not exceed."""
    if not values:
        return math.nan
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
