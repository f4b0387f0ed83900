"""Where members are."""

from __future__ import annotations

import math
from random import Random

import pytest

from adsum.gossip import coordinates
from adsum.gossip.coordinates import Coordinate, Vivaldi


def test_coordinates_learn_distances() -> None:
    places = [(0.0, 0.0), (0.04, 0.0), (0.0, 0.03), (0.04, 0.03)]
    nodes = [Vivaldi(Random(20 + number)) for number in range(4)]
    random = Random(2)
    for _ in range(4_000):
        one, other = random.sample(range(4), 2)
        nodes[one].observe(nodes[other].here, math.dist(places[one], places[other]) + 0.001)
    for one in range(4):
        for other in range(one):
            expected = math.dist(places[one], places[other]) + 0.001
            assert nodes[one].here.distance_s(nodes[other].here) == pytest.approx(expected, rel=0.15)
    assert all(node.is_converged for node in nodes)


def test_a_coordinate_travels_in_44_bytes_and_nonsense_is_refused() -> None:
    coordinate = Coordinate((0.5,) * 8, 0.25, 0.125, 0.0625)
    assert coordinates.unpack(coordinate.pack()) == coordinate
    assert len(coordinate.pack()) == 44
    assert coordinates.unpack(b"") is None
    assert coordinates.unpack(Coordinate((math.nan,) * 8).pack()) is None
    assert coordinates.unpack(Coordinate((math.inf,) * 8).pack()) is None
    assert coordinates.unpack(Coordinate((1e6,) * 8).pack()) is None


@pytest.mark.parametrize("rtt_s", [-1.0, 0.0, 10.1, math.nan])
def test_an_impossible_round_trip_moves_nothing(rtt_s: float) -> None:
    vivaldi = Vivaldi(Random(1))
    vivaldi.observe(Coordinate(), rtt_s)
    assert vivaldi.here == Coordinate()
    assert vivaldi.rejected == 1
