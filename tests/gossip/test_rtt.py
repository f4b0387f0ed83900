"""How long answers take."""

from __future__ import annotations

from random import Random

from adsum.gossip.coordinates import Vivaldi
from adsum.gossip.rtt import Path, RoundTrips
from adsum.now import MILLISECOND, SECOND


def test_helpers_are_asked_at_the_measured_99th_percentile() -> None:
    trips, path = RoundTrips(Vivaldi(Random(1))), Path()
    assert trips.indirect_after_ns(path, 500 * MILLISECOND) == 500 * MILLISECOND
    for number in range(200):
        trips.observe(number * SECOND, path, 20 * MILLISECOND + number % 10 * MILLISECOND)
    assert 25 * MILLISECOND < trips.indirect_after_ns(path, 500 * MILLISECOND) < 60 * MILLISECOND
    for number in range(200):
        trips.observe((200 + number) * SECOND, path, MILLISECOND // 2)
    assert trips.indirect_after_ns(path, 500 * MILLISECOND) >= 10 * MILLISECOND
