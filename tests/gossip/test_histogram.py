"""Fading counts."""

from __future__ import annotations

import math
from random import Random

import pytest

from adsum.gossip.histogram import Histogram
from adsum.now import MINUTE


def test_a_quantile_is_right_within_a_bin() -> None:
    histogram, random = Histogram(1e-4, 10, 10 * MINUTE), Random(1)
    for _ in range(5_000):
        histogram.add(0, random.expovariate(1.0))
    assert histogram.quantile(0.5) == pytest.approx(math.log(2), rel=0.25)
    assert histogram.quantile(0.99) == pytest.approx(math.log(100), rel=0.25)
    assert histogram.survival(1.0) == pytest.approx(math.exp(-1), abs=0.08)
    assert 0 < histogram.survival(40.0) < 1e-3


def test_old_samples_fade_by_half_lives() -> None:
    histogram = Histogram(1e-4, 10, MINUTE)
    for _ in range(100):
        histogram.add(0, 0.001)
    for _ in range(10):
        histogram.add(20 * MINUTE, 1.0)
    assert histogram.quantile(0.5) > 0.9
    histogram.add(100 * MINUTE, 1.0)
    assert histogram.quantile(0.01) > 0.9
