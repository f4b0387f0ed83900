"""Whose entries they are, since when they are certain, and where two agents do not agree."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from adsum.address import Address
from adsum.agent.saved_catalog import SavedCopy, SavedOwner
from adsum.catalog.replication.deltas import push
from adsum.catalog.replication.items import Item, term
from adsum.gossip.claims import Profile
from tests.api.agents import NODE_ID, Asker, FakeAgent, refused
from tests.api.linked import Three, formed, has, until


@pytest.fixture
async def three(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> Three:
    three = await formed(nursery)
    three.b.put_service("web1", "web")
    await until(lambda: all(has(each, "b", "web1") for each in three.all))
    await trio.sleep(5)
    return three


async def owners(asker: Asker) -> dict[str, Any]:
    rows = await asker.json("/v1/catalog/owners")
    assert isinstance(rows, list)
    return {row["Node"]: row for row in rows}


async def diff(asker: Asker, node: str) -> dict[str, Any]:
    found = await asker.json(f"/v1/catalog/diff/{node}")
    assert isinstance(found, dict)
    return found


async def test_an_agent_alone_owns_all_that_it_shows() -> None:
    asker = Asker()
    asker.agent.core.tick(asker.agent.now())
    (row,) = (await owners(asker)).values()
    assert (row["ID"], row["Node"], row["Source"], row["Complete"]) == (NODE_ID, "n1", "own", True)


async def test_every_owner_is_listed_with_what_is_known_of_it_and_since_when(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    here, there = await owners(three.on_a), await owners(three.on_b)
    assert list(here) == ["a", "b", "c"]
    assert [row["Source"] for row in here.values()] == ["own", "others", "others"]
    assert here["b"]["ID"] == three.b.core.local.settings.node.node_id
    assert here["b"]["Items"] == 4  # the node, the service, its check, and what that says
    assert here["b"]["Complete"] is True
    assert 0 <= here["b"]["ConfirmedMs"] <= 70_000
    for field in ("Generation", "Version", "Items", "Bytes", "Digest"):
        assert here["b"][field] == there["b"][field]


async def test_owners_of_a_saved_copy_are_said_to_be_that() -> None:
    agent = FakeAgent()
    profile = Profile(b"\7" * 16, "m7", Address("10.0.0.7", 8301), b"")
    agent.cluster.restore(agent.now(), SavedCopy(agent.wall_ms, (SavedOwner(profile, ()),)))
    row = (await owners(Asker(agent)))["m7"]
    assert (row["Source"], row["Complete"], row["ConfirmedMs"]) == ("saved copy", False, None)


async def test_an_owner_of_a_saved_copy_is_listed_with_what_is_served_of_it_and_the_age_of_the_copy() -> None:
    agent = FakeAgent()
    profile = Profile(b"\7" * 16, "m7", Address("10.0.0.7", 8301), b"")
    item = Item(1, 1, b"x")
    spans = (push(profile.short, 9, 1, term(item), [item]),)
    agent.cluster.restore(agent.now(), SavedCopy(agent.wall_ms - 60_000, (SavedOwner(profile, spans),)))
    row = (await owners(Asker(agent)))["m7"]
    assert (row["Generation"], row["Version"], row["Items"], row["ConfirmedMs"]) == (9, 1, 1, None)
    assert row["Bytes"] > 0
    assert len(row["Digest"]) == 16
    assert 60_000 <= row["SavedMs"] < 61_000


async def test_copies_that_agree_have_no_differences(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    for asker, node in ((three.on_a, "B"), (three.on_b, "c"), (three.on_c, "c")):
        found = await diff(asker, node)
        assert (found["Equal"], found["Differences"]) == (3, [])


async def test_what_only_one_has_heard_of_is_a_difference_with_both_sides(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    three.network.are_pushes_lost = True
    three.b.put_service("web2", "web")
    await trio.sleep(0.1)
    (ahead,) = (await diff(three.on_a, "b"))["Differences"]
    assert (ahead["Node"], ahead["What"]) == ("b", "behind here")
    assert ahead["Here"]["Version"] < ahead["There"]["Version"]
    (behind,) = (await diff(three.on_b, "a"))["Differences"]
    assert (behind["Node"], behind["What"]) == ("b", "behind there")


async def test_a_node_that_cannot_be_asked_is_named(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    assert refused(await three.on_a.ask("/v1/catalog/diff/nobody")) == (
        404,
        'No agent owns the node "nobody": `adsum catalog owners` lists whose agents are known here',
    )
    three.kill("b")
    status, sentence = refused(await three.on_a.ask("/v1/catalog/diff/b"))
    assert (status, sentence.split(":")[0]) == (500, 'The agent of node "b" owns this and cannot be asked')
