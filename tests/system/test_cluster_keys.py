"""The key of gossip is changed while a cluster runs, and whoever has another key stays outside."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from tests.system.agents import adsum_program, until
from tests.system.clusters import Cluster, Member, Status, emptied, gathered, joining, loopbacks, sweeping

AGENTS = 5
OLD, NEW, FOREIGN = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2, 3))
KNOWN_S_MAX = 15.0
FAILED_S_MAX = 40.0
# Longer than the shortest suspicion of five agents (4 s): who cannot be heard is called dead by then.
WATCHED_S = 7.0
TRIES_S = 4.0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with gathered(adsum_program(), loopbacks(AGENTS), {"encrypt": OLD}) as cluster:
        cluster.wait_for_one_view()
        yield cluster


@contextmanager
def newcomer(cluster: Cluster, key: str) -> Iterator[Member]:
    config = {**joining(cluster.members[0].place), "encrypt": key}
    with emptied(Cluster(cluster.program)) as beside:
        yield beside.add(loopbacks(1)[0], config, name="newcomer")


def test_key_is_rotated_while_every_member_stays_alive(cluster: Cluster) -> None:
    server = cluster.members[0]
    for method, key, expected in (
        ("POST", NEW, {OLD: AGENTS, NEW: AGENTS}),
        ("PUT", NEW, {OLD: AGENTS, NEW: AGENTS}),
        ("DELETE", OLD, {NEW: AGENTS}),
    ):
        status, body = server.agent.call(method, "/v1/operator/keyring", json.dumps({"Key": key}).encode())
        assert (status, body) == (200, b"")
        assert until(partial(has_keys, server, expected), within_s=KNOWN_S_MAX)
        assert cluster.has_one_view()
    assert not sweeping(lambda: not cluster.has_one_view(), within_s=WATCHED_S)


def test_agent_with_the_key_of_yesterday_stays_outside_and_one_with_todays_comes_in(cluster: Cluster) -> None:
    server = cluster.members[0]
    for method, key in (("POST", NEW), ("PUT", NEW), ("DELETE", OLD)):
        server.agent.call(method, "/v1/operator/keyring", json.dumps({"Key": key}).encode())
    with newcomer(cluster, OLD) as stranger:
        assert stays_outside(stranger, cluster)
    with newcomer(cluster, NEW) as friend:
        assert sweeping(lambda: knows_all(friend, cluster), within_s=KNOWN_S_MAX)


def test_agent_with_a_foreign_key_stays_outside(cluster: Cluster) -> None:
    with newcomer(cluster, FOREIGN) as stranger:
        assert stays_outside(stranger, cluster)
    assert cluster.has_one_view()


def test_member_that_was_down_while_the_key_was_changed_is_heard_again(cluster: Cluster) -> None:
    server, *_, away = cluster.members
    change(server, "POST", NEW)
    away.kill()
    assert sweeping(lambda: server.view()[away.name] is Status.FAILED, within_s=FAILED_S_MAX)
    change(server, "PUT", NEW)
    change(server, "DELETE", OLD)
    away.restart()
    assert sweeping(cluster.has_one_view, within_s=KNOWN_S_MAX)
    assert sweeping(lambda: "missed a change of keys" in away.agent.log(), within_s=KNOWN_S_MAX)
    unheard = {member.name: dropped_for_its_key(member) for member in cluster.members}
    assert not sweeping(lambda: not cluster.has_one_view(), within_s=WATCHED_S)
    assert {member.name: dropped_for_its_key(member) for member in cluster.members} == unheard


def change(server: Member, method: str, key: str) -> None:
    body = json.dumps({"Key": key}).encode()
    assert server.agent.call(method, "/v1/operator/keyring", body) == (200, b"")


def dropped_for_its_key(member: Member) -> str:
    page = member.agent.call("GET", "/metrics")[1].decode()
    line = 'adsum_gossip_receive_dropped_total{reason="unknown_key"} '
    return next(each.removeprefix(line) for each in page.splitlines() if each.startswith(line))


def stays_outside(stranger: Member, cluster: Cluster) -> bool:
    """It runs, it tries, and nobody of them ever lists it, nor it them."""

    def has_slipped_in() -> bool:
        return len(stranger.view()) > 1 or any(stranger.name in member.view() for member in cluster.members)

    assert until(stranger.view, within_s=KNOWN_S_MAX)
    return not sweeping(has_slipped_in, within_s=TRIES_S)


def knows_all(friend: Member, cluster: Cluster) -> bool:
    everyone = cluster.names | {friend.name}
    return all(set(member.view()) == everyone for member in [friend, *cluster.members])


def has_keys(server: Member, expected: dict[str, int]) -> bool:
    """How many members of the local pool hold each key."""
    pools = server.agent.get_json("/v1/operator/keyring")
    return [pool["Keys"] for pool in pools if not pool["WAN"]] == [expected]
