"""Nodes without an agent: registered through a client agent, answered for by every agent, also without a
server."""

from __future__ import annotations

from collections.abc import Iterator

import dns.message
import dns.query
import dns.rcode
import pytest

from tests.system.agents import adsum_program, until
from tests.system.clusters import Cluster, Member, emptied, joining, loopbacks
from tests.system.test_client_keys import LEADER_S_MAX, leader_of
from tests.system.test_sessions import created

SEEN_S_MAX = 15.0
PRINTER = {
    "Node": "printer-1",
    "Address": "10.9.0.1",
    "NodeMeta": {"external-node": "true"},
    "Service": {"ID": "lpd-1", "Service": "lpd", "Port": 515, "Tags": ["color"]},
    "Check": {"CheckID": "up", "Name": "answers", "Status": "passing", "ServiceID": "lpd-1"},
}


@pytest.fixture(name="cluster", scope="module")
def made_cluster() -> Iterator[Cluster]:
    """The last two members are clients."""
    places = loopbacks(5)
    with emptied(Cluster(adsum_program())) as cluster:
        for place in places[:3]:
            cluster.add(place, {"server": True, "bootstrap_expect": 3, **joining(places[0])})
        for place in places[3:]:
            cluster.add(place, joining(places[0]))
        cluster.wait_for_one_view()
        assert until(lambda: leader_of(cluster.members[3]), within_s=LEADER_S_MAX)
        yield cluster


def test_a_node_without_an_agent_is_on_every_agent_and_stays_without_servers(cluster: Cluster) -> None:
    client, other = cluster.members[3:]
    assert client.agent.put("/v1/catalog/register", PRINTER) == (200, b"true")
    for member in cluster.members:
        assert until(lambda: addresses(member) == ["10.9.0.1"], within_s=SEEN_S_MAX)  # noqa: B023
        entry = member.agent.get_json("/v1/health/service/lpd?passing")[0]
        assert (entry["Node"]["Node"], entry["Service"]["Port"]) == ("printer-1", 515)
        assert [check["Status"] for check in entry["Checks"]] == ["passing"]

    failing = {**PRINTER, "Check": {**PRINTER["Check"], "Status": "critical", "Output": "no answer"}}  # type: ignore[dict-item]
    assert other.agent.put("/v1/catalog/register", failing) == (200, b"true")
    assert until(lambda: not addresses(client) and not addresses(other), within_s=SEEN_S_MAX)
    assert other.agent.put("/v1/catalog/register", PRINTER) == (200, b"true")
    assert until(lambda: addresses(client) == addresses(other) == ["10.9.0.1"], within_s=SEEN_S_MAX)

    for server in cluster.members[:3]:
        server.kill()
    assert addresses(client) == addresses(other) == ["10.9.0.1"]
    for server in cluster.members[:3]:
        server.restart()
    gone = {"Node": "printer-1"}
    assert until(
        lambda: client.agent.put("/v1/catalog/deregister", gone) == (200, b"true"), within_s=LEADER_S_MAX
    )
    assert until(lambda: is_unknown(client) and is_unknown(other), within_s=SEEN_S_MAX)


def test_a_node_with_more_sessions_than_one_entry_ends_takes_all_of_them_along(cluster: Cluster) -> None:
    client = cluster.members[3]
    node = {"Node": "crowded", "Address": "10.9.0.2"}
    assert until(
        lambda: client.agent.put("/v1/catalog/register", node) == (200, b"true"), within_s=LEADER_S_MAX
    )
    crowded: dict[str, object] = {"Node": "crowded", "NodeChecks": []}
    assert until(lambda: created(client, crowded), within_s=SEEN_S_MAX)
    assert all(created(client, crowded) for _ in range(1_100))
    assert client.agent.put("/v1/catalog/deregister", {"Node": "crowded"}) == (200, b"true")
    assert until(
        lambda: client.agent.put("/v1/catalog/register", node) == (200, b"true"), within_s=SEEN_S_MAX
    )
    assert client.agent.get_json("/v1/session/node/crowded") == []


def test_what_agents_have_of_servers_that_lost_all_goes_when_these_are_founded_anew() -> None:
    with emptied(Cluster(adsum_program())) as cluster:
        places = loopbacks(2)
        server = cluster.add(places[0], {"server": True, "bootstrap": True})
        client = cluster.add(places[1], joining(places[0]))
        cluster.wait_for_one_view()
        assert until(
            lambda: client.agent.put("/v1/catalog/register", PRINTER) == (200, b"true"), within_s=LEADER_S_MAX
        )
        assert until(lambda: addresses(client) == ["10.9.0.1"], within_s=SEEN_S_MAX)
        server.kill()
        server.lose_data()
        server.restart()
        assert until(lambda: is_unknown(client) and is_unknown(server), within_s=LEADER_S_MAX)


def addresses(member: Member) -> list[str]:
    answer = asked(member)
    return sorted(str(record.address) for each in answer.answer for record in each)


def is_unknown(member: Member) -> bool:
    return asked(member).rcode() == dns.rcode.NXDOMAIN


def asked(member: Member) -> dns.message.Message:
    question = dns.message.make_query("lpd.service.consul.", "A")
    return dns.query.udp(question, "127.0.0.1", port=member.place.ports.dns, timeout=5.0)
