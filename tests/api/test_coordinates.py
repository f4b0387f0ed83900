"""/v1/coordinate and `near=`: where members are, and what is listed by the way to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import trio
import trio.testing

from adsum.api.coordinates import LOOK_S
from tests.api.agents import CONFIG, Asker, FakeAgent, decoded, header, index_of, refused


@pytest.fixture
def asker() -> Asker:
    """n1 here, near 10 ms away, far 90 ms, and one that nobody has measured."""
    asker = Asker()
    for number, (name, x_s) in enumerate((("far", 0.09), ("near", 0.01))):
        asker.agent.meet(name, f"10.0.0.{number}")
        asker.agent.place(name, x_s)
    asker.agent.meet("a-stranger", "10.0.0.9")
    return asker


ORIGIN = {"Vec": [0.0] * 8, "Error": 1.5, "Adjustment": 0.0, "Height": 1e-05}


def place(name: str, x_s: float) -> dict[str, object]:
    vector = [x_s, *[0.0] * 7]
    return {
        "Node": name,
        "Segment": "",
        "Coord": {"Vec": vector, "Error": 0.1, "Adjustment": 0.0, "Height": 1e-05},
    }


async def rows(asker: Asker, target: str, *path: str) -> list[Any]:
    found = await asker.json(target)
    assert isinstance(found, list)
    for step in path:
        found = [row[step] for row in found]
    return found


# Coordinates.


async def test_everybody_measured_is_on_the_map_by_name(asker: Asker) -> None:
    """Literal: Consul's fields in Consul's order."""
    response = await asker.ask("/v1/coordinate/nodes")
    assert decoded(response) == [place("far", 0.09), place("n1", 0.0), place("near", 0.01)]
    assert header(response, "X-Consul-Knownleader") == "true"
    assert header(response, "X-Consul-Effective-Consistency") is None


async def test_one_node_is_found_in_any_case_and_the_unknown_is_404_with_nothing(asker: Asker) -> None:
    assert await asker.json("/v1/coordinate/node/NEAR") == [place("near", 0.01)]
    for name in ("zz", "", "a-stranger", "near?segment=s"):
        response = await asker.ask(f"/v1/coordinate/node/{name}")
        assert (response.status, response.body.plain) == (404, b"")
    assert await asker.json("/v1/coordinate/nodes?segment=s") == []


async def test_whoever_left_is_nowhere_and_whoever_failed_still_is(asker: Asker) -> None:
    far, near = asker.agent.meet("far", "10.0.0.0"), asker.agent.meet("near", "10.0.0.1")
    asker.agent.fail(far, near)
    assert await rows(asker, "/v1/coordinate/nodes", "Node") == ["far", "n1", "near"]
    await asker.put("/v1/agent/force-leave/far")
    assert await rows(Asker(asker.agent), "/v1/coordinate/nodes", "Node") == ["n1", "near"]


async def test_servers_are_the_map_of_datacenters() -> None:
    server = Asker()
    assert decoded(await server.ask("/v1/coordinate/datacenters")) == [
        {
            "Datacenter": "dc1",
            "AreaID": "wan",
            "Coordinates": [
                {
                    "Node": "n1",
                    "Segment": "",
                    "Coord": ORIGIN,
                }
            ],
        }
    ]
    client = Asker(FakeAgent(replace(CONFIG, is_server=False, bootstrap=False)))
    client.agent.meet("s1", is_server=True)
    (places,) = await rows(client, "/v1/coordinate/datacenters", "Coordinates")
    assert places == [{"Node": "s1", "Segment": "", "Coord": ORIGIN}]
    client.agent.place("s1", 0.01)
    (places,) = await rows(client, "/v1/coordinate/datacenters", "Coordinates")
    assert places == [place("s1", 0.01)]


async def test_a_client_waits_until_somebody_has_moved(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    first = await asker.ask("/v1/coordinate/nodes")
    begun = trio.current_time()
    waited = await asker.ask(f"/v1/coordinate/nodes?index={index_of(first)}&wait=30s")
    assert trio.current_time() - begun == pytest.approx(30)
    assert index_of(waited) == index_of(first)
    asker.agent.place("near", 0.02)
    moved = await asker.ask(f"/v1/coordinate/nodes?index={index_of(first)}&wait=30s")
    assert trio.current_time() - begun <= 30 + LOOK_S
    assert index_of(moved) > index_of(first)


async def test_an_index_from_elsewhere_is_held_a_second(
    asker: Asker, autojump_clock: trio.testing.MockClock
) -> None:
    begun = trio.current_time()
    response = await asker.ask(f"/v1/coordinate/nodes?index={2**53}&wait=30s")
    assert trio.current_time() - begun == pytest.approx(1)
    assert index_of(response) < 2**53


async def test_the_place_of_another_node_cannot_be_set(asker: Asker) -> None:
    status, sentence = refused(await asker.put("/v1/coordinate/update", {"Node": "near", "Coord": {}}))
    assert (status, sentence.startswith("Adsum takes coordinates from agents only")) == (404, True)


async def test_other_datacenters_have_no_map_here(asker: Asker) -> None:
    assert refused(await asker.ask("/v1/coordinate/nodes?dc=zz")) == (500, "No path to datacenter")


# near=


@pytest.mark.parametrize(
    ("near", "expected"),
    [
        ("_agent", ["n1", "near", "far", "a-stranger"]),
        ("FAR", ["far", "near", "n1", "a-stranger"]),
        ("zz", ["a-stranger", "far", "n1", "near"]),
        ("a-stranger", ["a-stranger", "far", "n1", "near"]),
        ("", ["a-stranger", "far", "n1", "near"]),
    ],
)
async def test_nodes_come_by_the_way_to_them_and_the_unmeasured_last(
    asker: Asker, near: str, expected: list[str]
) -> None:
    assert await rows(asker, f"/v1/catalog/nodes?near={near}", "Node") == expected


@pytest.mark.parametrize("target", ["/v1/health/state/any", "/v1/health/state/passing"])
async def test_checks_come_by_the_way_to_their_nodes(asker: Asker, target: str) -> None:
    assert await rows(asker, f"{target}?near=far", "Node") == ["far", "near", "n1", "a-stranger"]


async def test_instances_come_by_the_way_to_their_nodes(asker: Asker) -> None:
    for number, name in enumerate(("far", "n1", "near")):
        asker.agent.put_elsewhere(name, f"web{number}", "web")
    by_way = ["near", "n1", "far"]
    assert await rows(asker, "/v1/catalog/service/web?near=near", "Node") == by_way
    assert await rows(asker, "/v1/health/service/web?near=near", "Node", "Node") == by_way
    assert await rows(asker, "/v1/health/service/web", "Node", "Node") == ["far", "n1", "near"]


async def test_the_order_follows_the_map_and_the_index_does_not(asker: Asker) -> None:
    target = "/v1/catalog/nodes?near=_agent"
    before = await asker.ask(target)
    asker.agent.place("far", 0.001)
    after = await asker.ask(target)
    assert await rows(asker, target, "Node") == ["n1", "far", "near", "a-stranger"]
    assert before.body.plain != after.body.plain
    assert index_of(before) == index_of(after)
