"""Keys through a client agent of three servers: real processes, whose leader is killed."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.system.agents import adsum_program, until
from tests.system.clusters import Cluster, Member, emptied, joining, loopbacks

LEADER_S_MAX = 30.0
WAIT_S = 20.0


@pytest.fixture(name="cluster")
def made_cluster() -> Iterator[Cluster]:
    """The last member is the client."""
    places = loopbacks(4)
    with emptied(Cluster(adsum_program())) as cluster:
        for place in places[:3]:
            cluster.add(place, {"server": True, "bootstrap_expect": 3, **joining(places[0])})
        cluster.add(places[3], joining(places[0]))
        cluster.wait_for_one_view()
        assert until(lambda: leader_of(cluster.members[3]), within_s=LEADER_S_MAX)
        yield cluster


def test_keys_are_the_same_through_a_client_and_through_every_server(cluster: Cluster) -> None:
    client = cluster.members[3]
    assert put(client, "a/1?flags=7", b"one") == (200, b"true")
    assert put(cluster.members[0], "a/2", b"two") == (200, b"true")
    for member in cluster.members:
        body = got(member, "a/?recurse")
        assert [(each["Key"], each["Flags"]) for each in json.loads(body)] == [("a/1", 7), ("a/2", 0)]
    modified = json.loads(got(client, "a/1"))[0]["ModifyIndex"]
    assert put(client, f"a/1?cas={modified - 1}", b"late") == (200, b"false")
    assert put(client, f"a/1?cas={modified}", b"now") == (200, b"true")
    assert client.agent.call("DELETE", "/v1/kv/a/?recurse") == (200, b"true")
    assert client.agent.call("GET", "/v1/kv/a/1")[0] == 404


def test_many_who_wait_through_a_client_are_answered_by_one_change_elsewhere(cluster: Cluster) -> None:
    client = cluster.members[3]
    put(client, "k", b"old")
    index = json.loads(got(client, "k"))[0]["ModifyIndex"]
    target = f"/v1/kv/k?raw&index={index}&wait={WAIT_S:.0f}s"
    with ThreadPoolExecutor(20) as waiting:
        answers = [waiting.submit(client.agent.call, "GET", target) for _ in range(20)]
        assert put(cluster.members[1], "k", b"new") == (200, b"true")
        assert [each.result() for each in answers] == [(200, b"new")] * 20


def test_when_the_leader_is_killed_a_client_goes_on_and_without_a_majority_it_says_why_it_cannot(
    cluster: Cluster,
) -> None:
    client = cluster.members[3]
    for number in range(20):
        assert put(client, f"before/{number}", b"v") == (200, b"true")
    leader = leading(cluster, client)
    leader.kill()
    for number in range(20):
        assert put(client, f"after/{number}", b"v") == (200, b"true")
    assert len(json.loads(got(client, "?keys"))) == 40
    others = [member for member in cluster.members[:3] if member is not leader]
    others[0].kill()
    assert until(lambda: is_refused(client), within_s=60.0)
    assert len(json.loads(got(client, "?keys&stale"))) == 40
    leader.restart()
    assert until(lambda: put(client, "again", b"v") == (200, b"true"), within_s=60.0)


def is_refused(client: Member) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", client.place.ports.http, timeout=WAIT_S)
    try:
        connection.request("GET", "/v1/kv/none")
        response = connection.getresponse()
        body, reason = response.read(), response.headers["X-Adsum-Reason"] or ""
    finally:
        connection.close()
    return (response.status, body) == (500, b"No cluster leader") and "it was held for 7 s" in reason


def put(member: Member, key: str, value: bytes) -> tuple[int, bytes]:
    return member.agent.call("PUT", f"/v1/kv/{key}", value, timeout_s=WAIT_S)


def got(member: Member, key: str) -> bytes:
    status, body = member.agent.call("GET", f"/v1/kv/{key}", timeout_s=WAIT_S)
    assert status == 200, body
    return body


def leader_of(member: Member) -> str:
    return str(json.loads(member.ask("/v1/status/leader") or b'""'))


def leading(cluster: Cluster, client: Member) -> Member:
    port = leader_of(client).rpartition(":")[2]
    return next(each for each in cluster.members[:3] if str(each.place.ports.server) == port)
