"""How far apart members are, in Consul's words."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Adsum
from tests.cli.fake_agent import FakeAgent


def place(node: str, x_s: float, adjustment_s: float = 0.0) -> dict[str, object]:
    coord = {"Vec": [x_s, 0, 0, 0, 0, 0, 0, 0], "Error": 0.1, "Adjustment": adjustment_s, "Height": 1e-5}
    return {"Node": node, "Segment": "", "Coord": coord}


@pytest.fixture
def placed(agent: FakeAgent) -> FakeAgent:
    places = [place("c1", 0.0), place("c2", 0.001), place("c3", 0.002, -0.5)]
    agent.answers["GET /v1/coordinate/nodes"] = places
    agent.answers["GET /v1/agent/self"] = {"Config": {"NodeName": "c1", "Datacenter": "dc1"}}
    area = {"Datacenter": "dc1", "AreaID": "wan", "Coordinates": [place("s1", 0.0), place("s2", 0.003)]}
    agent.answers["GET /v1/coordinate/datacenters"] = [area]
    return agent


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["c1", "c2"], "Estimated c1 <-> c2 rtt: 1.020 ms (using LAN coordinates)"),
        (["C2"], "Estimated C2 <-> c1 rtt: 1.020 ms (using LAN coordinates)"),
        (["c1"], "Estimated c1 <-> c1 rtt: 0.020 ms (using LAN coordinates)"),
        (["c1", "c3"], "Estimated c1 <-> c3 rtt: 2.020 ms (using LAN coordinates)"),
        (["-wan", "s1.dc1", "s2.dc1"], "Estimated s1.dc1 <-> s2.dc1 rtt: 3.020 ms (using WAN coordinates)"),
    ],
)
def test_round_trips_are_estimated_as_consul_s_are(
    adsum: Adsum, placed: FakeAgent, words: list[str], line: str
) -> None:
    """The third has an adjustment that would make the distance negative: then it does not count."""
    assert adsum("rtt", *words) == (0, f"{line}\n", "")


def test_who_has_no_place_is_named_with_what_to_look_at(adsum: Adsum, placed: FakeAgent) -> None:
    for words in (["zz"], ["c1", "zz"], ["-wan", "s1.dc1", "s1.dc2"]):
        status, out, err = adsum("rtt", *words)
        assert (status, out) == (3, "")
        assert err.startswith(f'adsum: Could not find a coordinate for node "{words[-1]}"')
        assert "adsum members" in err


def test_one_or_two_nodes_are_named_and_with_wan_their_datacenters(adsum: Adsum, placed: FakeAgent) -> None:
    assert adsum("rtt").status == 2
    assert adsum("rtt", "a", "b", "c").status == 2
    status, _, err = adsum("rtt", "-wan", "s1", "s2.dc1")
    assert (status, "NODE.DATACENTER" in err) == (2, True)
