"""What answers say of their age, and what `?consistent` waits for. Three agents that hear each other."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from adsum.address import Address
from adsum.agent.cluster_state import NOBODY_TO_ASK
from adsum.agent.saved_catalog import SavedCopy, SavedOwner
from adsum.catalog.replication.confirming import NOT_COMPARED
from adsum.gossip.claims import Profile
from adsum.now import HOUR, MILLISECOND
from tests.api.agents import NODE, Asker, FakeAgent, header, index_of, refused
from tests.api.linked import Three, formed, has, until

WEB, ANY = "/v1/health/service/web", "/v1/catalog/nodes"


@pytest.fixture
async def three(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> Three:
    three = await formed(nursery)
    three.b.put_service("web1", "web")
    await until(lambda: all(has(each, "b", "web1") for each in three.all))
    await trio.sleep(5)
    return three


async def age_ms(asker: Asker, target: str = WEB) -> int:
    return int(header(await asker.ask(target), "X-Consul-Lastcontact") or -1)


async def staleness(asker: Asker) -> set[str | None]:
    return {
        header(await asker.ask(target), "X-Adsum-Stale") for target in (WEB, ANY, "/v1/catalog/service/web")
    }


async def test_alone_and_among_others_what_is_current_is_nought_old_and_not_stale(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    for asker in (Asker(), three.on_a, three.on_b, three.on_c):
        assert await age_ms(asker) == 0
        assert await staleness(asker) == {None}
        assert header(await asker.ask(WEB), "X-Consul-Effective-Consistency") == "stale"


async def test_a_copy_that_others_seem_to_be_ahead_of_tells_for_how_long(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    before = await three.on_c.ask(WEB)
    three.network.cut_off.add(three.c.address)
    for _ in range(5):
        await trio.sleep(0.2)
        sender, replication = three.a.introduction.subject, three.c.cluster.sharing.replication
        replication.root_heard(three.c.now(), sender, b"otherwise")
    after = await three.on_c.ask(WEB)
    assert int(header(after, "X-Consul-Lastcontact") or 0) == pytest.approx(800, abs=120)
    assert after.body is before.body, "another head needs no other body"
    assert index_of(after) == index_of(before)


async def test_what_is_shown_because_nobody_can_be_heard_is_stale_in_every_answer(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    three.network.cut_off.add(three.c.address)
    await until(lambda: three.c.cluster.staleness(three.c.now()) == "isolated", within_s=60)
    await trio.sleep(3)
    assert await staleness(three.on_c) == {"isolated"}
    assert await age_ms(three.on_c) >= 2_500
    assert b'"web1"' in (await three.on_c.ask(WEB)).body.plain
    stats = await three.on_c.json("/v1/agent/self")
    assert isinstance(stats, dict)
    assert stats["Stats"]["catalog"]["stale"] == "isolated"


async def test_after_a_pause_the_first_answer_of_any_kind_tells_of_it_though_nothing_else_ran(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    before = await three.on_c.ask(WEB)
    three.network.stopped.add(three.c.address)
    await trio.sleep(120)
    after = await three.on_c.ask(WEB)
    assert header(after, "X-Adsum-Stale") == "paused"
    assert 120_000 <= int(header(after, "X-Consul-Lastcontact") or 0) < 121_000
    assert after.body is before.body
    assert await staleness(three.on_c) == {"paused"}
    for others in ("/v1/agent/members", "/v1/membership", "/v1/membership/explain/b", "/v1/catalog/owners"):
        assert header(await three.on_c.ask(others), "X-Adsum-Stale") == "paused"
    for places in ("/v1/coordinate/nodes", "/v1/resolve/web.service.consul"):
        assert header(await three.on_c.ask(places), "X-Adsum-Stale") == "paused"
    assert int(header(await three.on_c.ask("/v1/coordinate/nodes"), "X-Consul-Lastcontact") or 0) >= 120_000
    found = await three.on_c.json("/v1/membership?observer")
    assert isinstance(found, dict)
    assert found["Stale"]["Reason"] == "paused"
    assert await staleness(three.on_a) == {None}


async def test_who_was_stopped_for_less_than_two_seconds_says_nothing_of_it(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    three.network.stopped.add(three.c.address)
    await trio.sleep(1.9)
    assert await staleness(three.on_c) == {None}


async def test_a_saved_copy_is_as_old_as_it_is() -> None:
    agent = FakeAgent()
    now = agent.now()
    profile = Profile(b"\7" * 16, "m7", Address("10.0.0.7", 8301), b"")
    copy = SavedCopy(now.wall_ms - HOUR // MILLISECOND, (SavedOwner(profile, ()),))
    agent.cluster.restore(now, copy)
    asker = Asker(agent)
    assert await staleness(asker) == {"saved copy"}
    assert await age_ms(asker) == pytest.approx(HOUR // MILLISECOND, abs=1_000)


async def test_a_saved_copy_with_another_agent_of_this_one_s_name_does_not_take_its_node() -> None:
    agent = FakeAgent()
    now, own = agent.now(), agent.cluster.membership.me
    namesake = Profile(b"\7" * 16, own.name.upper(), Address("10.0.0.7", 8301), b"")
    agent.cluster.restore(now, SavedCopy(now.wall_ms, (SavedOwner(namesake, ()),)))
    agent.cluster.sharing.forget_saved(now)
    (host,) = agent.view.nodes()
    assert (host.name, host.node.value.address) == (NODE.name, NODE.address)


# ?consistent.


async def test_consistent_answers_show_what_no_push_has_brought(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    three.network.are_pushes_lost = True
    three.b.put_service("web2", "web")
    await trio.sleep(0.1)
    assert not has(three.a, "b", "web2")
    plain = await three.on_a.ask(f"{WEB}?stale")
    consistent = await three.on_a.ask(f"{WEB}?consistent")
    assert b'"web2"' not in plain.body.plain
    assert b'"web2"' in consistent.body.plain
    assert header(consistent, "X-Consul-Effective-Consistency") == "stale"


async def test_every_consistent_answer_is_compared_anew(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    tally = three.a.cluster.sharing.replication.tally
    before = tally.confirmations
    for _ in range(3):
        await three.on_a.ask(f"{WEB}?consistent")
    assert tally.confirmations == before + 3


async def test_consistent_without_anybody_who_answers_is_refused_within_two_seconds(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    three.network.cut_off.add(three.a.address)
    begun_s = trio.current_time()
    response = await three.on_a.ask(f"{WEB}?consistent")
    assert refused(response) == (500, NOT_COMPARED)
    assert trio.current_time() - begun_s <= 2.2
    assert header(response, "X-Consul-Index") == "1"
    assert (await three.on_a.ask(WEB)).status == 200


async def test_a_saved_copy_alone_is_not_consistent() -> None:
    agent = FakeAgent()
    now = agent.now()
    profile = Profile(b"\7" * 16, "m7", Address("10.0.0.7", 8301), b"")
    agent.cluster.restore(now, SavedCopy(now.wall_ms, (SavedOwner(profile, ()),)))
    expected = (500, NOBODY_TO_ASK.format("saved copy"))
    assert refused(await Asker(agent).ask(f"{WEB}?consistent")) == expected
