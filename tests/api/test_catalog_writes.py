"""Registrations and deregistrations that name somebody else's node, done by whom it belongs to."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio
import trio.testing

from adsum.agent.registry import NO_OVERRIDE
from adsum.api.catalog_writes import ONLY_TAGS
from adsum.api.external_items import NO_NODE
from adsum.catalog.model import Service
from adsum.peers.owner_calls import DEREGISTER
from adsum.peers.owner_forwarding import SEEN_S
from adsum.peers.peer_handlers import SERF_HEALTH_SENTENCE
from tests.api.agents import Asker, refused
from tests.api.linked import Three, formed, has, until

DEREGISTER_PATH, REGISTER_PATH = "/v1/catalog/deregister", "/v1/catalog/register"


@pytest.fixture
async def three(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> Three:
    three = await formed(nursery)
    three.b.put_service("web1", "web", enable_tag_override=True, tags=("blue",))
    three.b.put_service("db1", "db")
    await until(lambda: all(has(each, "b", "web1") and has(each, "b", "db1") for each in three.all))
    await trio.sleep(1)  # what was told a moment ago is not told again at once
    return three


def service(three: Three, service_id: str) -> Service:
    host = three.a.view.node("b")
    instance = host.instances.get(service_id) if host is not None else None
    assert instance is not None
    return instance.service.value


async def test_another_agent_s_service_is_deregistered_and_stays_gone(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    response = await three.on_a.put(DEREGISTER_PATH, {"Node": "B", "ServiceID": "web1"})
    assert (response.status, response.body.plain) == (200, b"true")
    assert not has(three.a, "b", "web1"), "the answer comes when our own copy shows it"
    assert "web1" not in three.b.own.services
    await trio.sleep(5)
    assert not any(has(each, "b", "web1") for each in three.all)
    assert three.a.owners.counters.unseen == 0


async def test_another_agent_s_check_is_deregistered_alone(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    assert (await three.on_a.put(DEREGISTER_PATH, {"Node": "b", "CheckID": "service:web1"})).status == 200
    host = three.a.view.node("b")
    assert host is not None
    assert "service:web1" not in host.checks
    assert has(three.a, "b", "web1")


async def test_own_services_are_deregistered_the_same_way(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    assert (await three.on_b.put(DEREGISTER_PATH, {"Node": "b", "ServiceID": "web1"})).status == 200
    assert "web1" not in three.b.own.services
    assert three.network.calls == []


async def test_what_is_gone_already_is_as_gone_as_its_caller_wants_it(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    response = await three.on_a.put(DEREGISTER_PATH, {"Node": "b", "ServiceID": "nope"})
    assert (response.status, response.body.plain) == (200, b"true")


async def test_serf_health_is_nobody_s_to_deregister(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    for asker in (three.on_a, three.on_b):
        response = await asker.put(DEREGISTER_PATH, {"Node": "b", "CheckID": "serfHealth"})
        assert refused(response) == (400, SERF_HEALTH_SENTENCE)


async def test_the_node_of_a_present_agent_is_not_deregistered(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    for asker in (three.on_a, three.on_b):
        status, sentence = refused(await asker.put(DEREGISTER_PATH, {"Node": "b"}))
        assert status == 400
        assert '"b" is present' in sentence
        assert "adsum leave" in sentence
    assert has(three.a, "b", "web1")


async def test_a_dead_owner_is_named_and_its_node_can_be_deregistered_everywhere(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    three.kill("b")
    status, sentence = refused(await three.on_a.put(DEREGISTER_PATH, {"Node": "b", "ServiceID": "web1"}))
    assert status == 500
    assert sentence.startswith('The agent of node "b" owns this and cannot be asked: it has failed.')
    assert (await three.on_a.put(DEREGISTER_PATH, {"Node": "b"})).status == 200
    assert three.a.view.node("b") is None
    await until(lambda: three.c.view.node("b") is None)
    for again in ({"Node": "b"}, {"Node": "b", "ServiceID": "web1"}):
        response = await three.on_a.put(DEREGISTER_PATH, again)
        assert (response.status, response.body.plain) == (200, b"true")


async def test_an_owner_that_does_not_answer_may_have_done_it_and_the_error_says_so(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    three.network.silent.add(DEREGISTER)
    status, sentence = refused(await three.on_a.put(DEREGISTER_PATH, {"Node": "b", "ServiceID": "web1"}))
    assert status == 500
    assert "may have done it all the same" in sentence
    assert three.a.owners.counters.forward_failures == 1


async def test_what_our_copy_does_not_show_within_a_second_is_answered_and_counted(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    three.network.are_pushes_lost = True
    begun_s = trio.current_time()
    assert (await three.on_a.put(DEREGISTER_PATH, {"Node": "b", "ServiceID": "web1"})).status == 200
    assert trio.current_time() - begun_s == pytest.approx(SEEN_S, abs=0.1)
    assert has(three.a, "b", "web1")
    assert "web1" not in three.b.own.services
    assert three.a.owners.counters.unseen == 1


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, (500, NO_NODE)),
        ({"Node": "b", "Datacenter": "dc9"}, (500, "No path to datacenter")),
    ],
)
async def test_bodies_that_name_nobody_here_are_refused(
    three: Three, autojump_clock: trio.testing.MockClock, body: dict[str, str], expected: tuple[int, str]
) -> None:
    for path in (DEREGISTER_PATH, REGISTER_PATH):
        assert refused(await three.on_a.put(path, body)) == expected


async def test_bodies_that_are_none_are_refused_in_go_s_words(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    status, sentence = refused(await three.on_a.put(DEREGISTER_PATH, {"Node": 5}))
    assert status == 400
    assert sentence.startswith("Request decode failed: json: cannot unmarshal number")


async def test_another_datacenter_is_not_this_one_wherever_it_is_named(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    response = await three.on_a.put(f"{DEREGISTER_PATH}?dc=dc9", {"Node": "b", "ServiceID": "web1"})
    assert refused(response) == (500, "No path to datacenter")
    assert has(three.a, "b", "web1")


# Tags.


async def test_tags_are_applied_where_their_owner_allows_it_and_nothing_else_is(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    told = {"ID": "web1", "Service": "web", "Tags": ["green", "v2"], "Port": 9999, "Address": "1.2.3.4"}
    response = await three.on_a.put(REGISTER_PATH, {"Node": "b", "Address": "1.2.3.4", "Service": told})
    assert (response.status, response.body.plain) == (200, b"true")
    shown = service(three, "web1")
    assert shown.tags == ("green", "v2")
    assert (shown.port, shown.address) == (0, "")
    assert three.b.own.services["web1"].definition == replace(
        three.b.own.services["web1"].definition, tags=("green", "v2")
    )


async def test_a_service_whose_owner_does_not_allow_it_keeps_its_tags(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    told = {"ID": "db1", "Service": "db", "Tags": ["mine"]}
    for asker in (three.on_a, three.on_b):
        status, sentence = refused(await asker.put(REGISTER_PATH, {"Node": "b", "Service": told}))
        assert status == 400
        assert "EnableTagOverride" in sentence
    assert service(three, "db1").tags == ()


async def test_everything_but_tags_is_to_be_registered_with_its_agent(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    web = {"ID": "web1", "Service": "web", "Tags": ["green"]}
    bodies: list[dict[str, object]] = [
        {"Node": "b", "Address": "1.2.3.4"},
        {"Node": "b", "Check": {"Name": "mine", "Status": "passing"}},
        {"Node": "b", "Service": web, "Checks": [{"Name": "mine"}]},
    ]
    for body in bodies:
        assert refused(await three.on_a.put(REGISTER_PATH, body)) == (400, ONLY_TAGS)
    assert service(three, "web1").tags == ("blue",)


async def test_a_service_that_its_agent_does_not_know_is_not_made(
    three: Three, autojump_clock: trio.testing.MockClock
) -> None:
    told = {"Service": "new", "Tags": ["green"]}
    status, sentence = refused(await three.on_a.put(REGISTER_PATH, {"Node": "b", "Service": told}))
    assert (status, sentence) == (400, 'No service registered with ID "new"')


async def test_a_node_that_nobody_has_is_as_deregistered_as_its_caller_wants_it() -> None:
    bodies = [{"Node": "no.body"}, {"Node": "no.body", "ServiceID": "x"}, {"Node": "no.body", "CheckID": "x"}]
    for body in bodies:
        response = await Asker().put(DEREGISTER_PATH, body)
        assert (response.status, response.body.plain) == (200, b"true")


# Traces.


async def test_a_change_asked_for_elsewhere_is_logged_at_its_owner_and_where_it_was_asked(
    three: Three, autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "agent")
    tags = {"ID": "web1", "Service": "web", "Tags": ["m3"]}
    await three.on_a.put(DEREGISTER_PATH, {"Node": "b", "CheckID": "service:web1"})
    await three.on_a.put(REGISTER_PATH, {"Node": "b", "Service": tags})
    await three.on_a.put(DEREGISTER_PATH, {"Node": "b", "ServiceID": "web1"})
    await three.on_a.put(REGISTER_PATH, {"Node": "b", "Service": {"ID": "db1", "Tags": ["m3"]}})
    told = [record.getMessage() for record in caplog.records]
    refusal = NO_OVERRIDE.format("db1")
    assert told == [
        "done as the agent of node a asked: deregister check=service:web1",
        "done by the agent of node b, as asked here: deregister check=service:web1",
        "done as the agent of node a asked: change tags of service=web1 to ['m3']",
        "done by the agent of node b, as asked here: change tags of service=web1 to ['m3']",
        "done as the agent of node a asked: deregister service=web1",
        "done by the agent of node b, as asked here: deregister service=web1",
        f"refused what the agent of node a asked: change tags of service=db1 to ['m3']: {refusal}",
        f"not done by the agent of node b, as asked here: change tags of service=db1 to ['m3']: {refusal}",
    ]
    assert {record.levelname for record in caplog.records} == {"INFO"}
