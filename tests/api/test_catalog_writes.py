"""Registrations and deregistrations that name somebody else's node, done by whom it belongs to."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio
import trio.testing

from adsum.agent.own_answers import DEREGISTER, SERF_HEALTH_SENTENCE
from adsum.agent.owners import SEEN_S
from adsum.api.absent import EXTERNAL_SENTENCE
from adsum.api.catalog_writes import NO_NODE, ONLY_TAGS
from adsum.catalog.model import Service
from tests.api.agents import Asker, refused
from tests.api.linked import Network, Trio, has, until

DEREGISTER_PATH, REGISTER_PATH = "/v1/catalog/deregister", "/v1/catalog/register"


@pytest.fixture
async def trio_of(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> Trio:
    three = Trio(Network())
    nursery.start_soon(three.network.run)
    three.b.put_service("web1", "web", enable_tag_override=True, tags=("blue",))
    three.b.put_service("db1", "db")
    await until(lambda: all(has(each, "b", "web1") and has(each, "b", "db1") for each in three.all))
    return three


def service(three: Trio, service_id: str) -> Service:
    host = three.a.view.node("b")
    instance = host.instances.get(service_id) if host is not None else None
    assert instance is not None
    return instance.service.value


async def test_another_agent_s_service_is_deregistered_and_stays_gone(trio_of: Trio) -> None:
    response = await trio_of.on_a.put(DEREGISTER_PATH, {"Node": "B", "ServiceID": "web1"})
    assert (response.status, response.body.plain) == (200, b"true")
    assert not has(trio_of.a, "b", "web1"), "the answer comes when our own copy shows it"
    assert "web1" not in trio_of.b.own.services
    await trio.sleep(5)
    assert not any(has(each, "b", "web1") for each in trio_of.all)
    assert trio_of.a.owners.counters.unseen == 0


async def test_another_agent_s_check_is_deregistered_alone(trio_of: Trio) -> None:
    assert (await trio_of.on_a.put(DEREGISTER_PATH, {"Node": "b", "CheckID": "service:web1"})).status == 200
    host = trio_of.a.view.node("b")
    assert host is not None
    assert "service:web1" not in host.checks
    assert has(trio_of.a, "b", "web1")


async def test_own_services_are_deregistered_the_same_way(trio_of: Trio) -> None:
    assert (await trio_of.on_b.put(DEREGISTER_PATH, {"Node": "b", "ServiceID": "web1"})).status == 200
    assert "web1" not in trio_of.b.own.services
    assert trio_of.network.calls == []


async def test_what_is_gone_already_is_as_gone_as_its_caller_wants_it(trio_of: Trio) -> None:
    response = await trio_of.on_a.put(DEREGISTER_PATH, {"Node": "b", "ServiceID": "nope"})
    assert (response.status, response.body.plain) == (200, b"true")


async def test_serf_health_is_nobody_s_to_deregister(trio_of: Trio) -> None:
    for asker in (trio_of.on_a, trio_of.on_b):
        response = await asker.put(DEREGISTER_PATH, {"Node": "b", "CheckID": "serfHealth"})
        assert refused(response) == (400, SERF_HEALTH_SENTENCE)


async def test_the_node_of_a_present_agent_is_not_deregistered(trio_of: Trio) -> None:
    for asker in (trio_of.on_a, trio_of.on_b):
        status, sentence = refused(await asker.put(DEREGISTER_PATH, {"Node": "b"}))
        assert status == 400
        assert '"b" is present' in sentence
        assert "adsum leave" in sentence
    assert has(trio_of.a, "b", "web1")


async def test_a_dead_owner_is_named_and_its_node_can_be_deregistered_everywhere(trio_of: Trio) -> None:
    trio_of.kill("b")
    status, sentence = refused(await trio_of.on_a.put(DEREGISTER_PATH, {"Node": "b", "ServiceID": "web1"}))
    assert status == 500
    assert sentence.startswith('The agent of node "b" owns this and cannot be asked: it has failed.')
    assert (await trio_of.on_a.put(DEREGISTER_PATH, {"Node": "b"})).status == 200
    assert trio_of.a.view.node("b") is None
    await until(lambda: trio_of.c.view.node("b") is None)


async def test_an_owner_that_does_not_answer_may_have_done_it_and_the_error_says_so(trio_of: Trio) -> None:
    trio_of.network.silent.add(DEREGISTER)
    status, sentence = refused(await trio_of.on_a.put(DEREGISTER_PATH, {"Node": "b", "ServiceID": "web1"}))
    assert status == 500
    assert "may have done it all the same" in sentence
    assert trio_of.a.owners.counters.forward_failures == 1


async def test_what_our_copy_does_not_show_within_a_second_is_answered_and_counted(trio_of: Trio) -> None:
    trio_of.network.are_pushes_lost = True
    begun_s = trio.current_time()
    assert (await trio_of.on_a.put(DEREGISTER_PATH, {"Node": "b", "ServiceID": "web1"})).status == 200
    assert trio.current_time() - begun_s == pytest.approx(SEEN_S, abs=0.1)
    assert has(trio_of.a, "b", "web1")
    assert "web1" not in trio_of.b.own.services
    assert trio_of.a.owners.counters.unseen == 1


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, (500, NO_NODE)),
        ({"Node": "nobody", "ServiceID": "x"}, (404, EXTERNAL_SENTENCE)),
        ({"Node": "b", "Datacenter": "dc9"}, (500, "No path to datacenter")),
    ],
)
async def test_bodies_that_name_nobody_here_are_refused(
    trio_of: Trio, body: dict[str, str], expected: tuple[int, str]
) -> None:
    for path in (DEREGISTER_PATH, REGISTER_PATH):
        assert refused(await trio_of.on_a.put(path, body)) == expected


async def test_bodies_that_are_none_are_refused_in_go_s_words(trio_of: Trio) -> None:
    status, sentence = refused(await trio_of.on_a.put(DEREGISTER_PATH, {"Node": 5}))
    assert status == 400
    assert sentence.startswith("Request decode failed: json: cannot unmarshal number")


# Tags.


async def test_tags_are_applied_where_their_owner_allows_it_and_nothing_else_is(trio_of: Trio) -> None:
    told = {"ID": "web1", "Service": "web", "Tags": ["green", "v2"], "Port": 9999, "Address": "1.2.3.4"}
    response = await trio_of.on_a.put(REGISTER_PATH, {"Node": "b", "Address": "1.2.3.4", "Service": told})
    assert (response.status, response.body.plain) == (200, b"true")
    shown = service(trio_of, "web1")
    assert shown.tags == ("green", "v2")
    assert (shown.port, shown.address) == (0, "")
    assert trio_of.b.own.services["web1"].definition == replace(
        trio_of.b.own.services["web1"].definition, tags=("green", "v2")
    )


async def test_a_service_whose_owner_does_not_allow_it_keeps_its_tags(trio_of: Trio) -> None:
    told = {"ID": "db1", "Service": "db", "Tags": ["mine"]}
    for asker in (trio_of.on_a, trio_of.on_b):
        status, sentence = refused(await asker.put(REGISTER_PATH, {"Node": "b", "Service": told}))
        assert status == 400
        assert "EnableTagOverride" in sentence
    assert service(trio_of, "db1").tags == ()


async def test_everything_but_tags_is_to_be_registered_with_its_agent(trio_of: Trio) -> None:
    web = {"ID": "web1", "Service": "web", "Tags": ["green"]}
    bodies: list[dict[str, object]] = [
        {"Node": "b", "Address": "1.2.3.4"},
        {"Node": "b", "Check": {"Name": "mine", "Status": "passing"}},
        {"Node": "b", "Service": web, "Checks": [{"Name": "mine"}]},
    ]
    for body in bodies:
        assert refused(await trio_of.on_a.put(REGISTER_PATH, body)) == (400, ONLY_TAGS)
    assert service(trio_of, "web1").tags == ("blue",)


async def test_a_service_that_its_agent_does_not_know_is_not_made(trio_of: Trio) -> None:
    told = {"Service": "new", "Tags": ["green"]}
    status, sentence = refused(await trio_of.on_a.put(REGISTER_PATH, {"Node": "b", "Service": told}))
    assert (status, sentence) == (400, 'No service registered with ID "new"')


async def test_nodes_without_an_agent_come_with_the_store() -> None:
    for path in (DEREGISTER_PATH, REGISTER_PATH):
        assert refused(await Asker().put(path, {"Node": "db.example"})) == (404, EXTERNAL_SENTENCE)
