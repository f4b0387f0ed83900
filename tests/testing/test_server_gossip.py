"""What simulated servers are told of each other, and that the rule that ships makes the best of it."""

from __future__ import annotations

from random import Random

import pytest

from adsum.now import SECOND
from adsum.testing.raft_cluster import RaftCluster, raft_cluster
from adsum.testing.raft_server import SimulatedServer
from adsum.testing.server_gossip import ServerGossip

SEEDS = range(12)  # all ways to be wrong are among them


def led(*, has_keys: bool, strangers: int = 0) -> tuple[RaftCluster, list[SimulatedServer]]:
    cluster = raft_cluster(1, voters=3, strangers=strangers)
    cluster.gossip = ServerGossip(has_keys=has_keys)
    cluster.run_for(5 * SECOND)
    return cluster, list(cluster.on_host.values())


@pytest.mark.parametrize("has_keys", [True, False], ids=["with keys", "without keys"])
def test_members_that_have_found_each_other_go_on_whatever_gossip_says(*, has_keys: bool) -> None:
    cluster, servers = led(has_keys=has_keys)
    leaders = dict(cluster.invariants.leaders)
    ways = set()
    for seed in SEEDS:
        ways.add(cluster.gossip.mislead(servers, servers, Random(seed)))
        cluster.run_for(2 * SECOND)
    assert ways == {"nobody", "few", "nowhere", "mixed up"}
    assert cluster.invariants.leaders == leaders


def test_a_server_that_nobody_has_found_is_reached_only_where_gossip_says_it_is() -> None:
    cluster, servers = led(has_keys=True, strangers=1)
    member, *_others, stranger = servers
    assert cluster.gossip.has_line(member, stranger)
    cluster.gossip = ServerGossip(has_keys=True)
    told = next(seed for seed in SEEDS if ways_of(cluster, servers, seed) == "nobody")
    cluster.gossip.mislead(servers, servers, Random(told))
    assert not cluster.gossip.has_line(member, stranger)
    cluster.gossip.tell_the_truth()
    assert cluster.gossip.has_line(member, stranger)


def test_who_is_no_member_and_unknown_to_gossip_is_not_heard() -> None:
    cluster, servers = led(has_keys=True, strangers=1)
    member, *_others, stranger = servers
    assert cluster.gossip.has_line(stranger, member)
    told = next(seed for seed in SEEDS if ways_of(cluster, servers, seed) == "nobody")
    cluster.gossip.mislead([member], servers, Random(told))
    assert not cluster.gossip.has_line(stranger, member)


def ways_of(cluster: RaftCluster, servers: list[SimulatedServer], seed: int) -> str:
    way = cluster.gossip.mislead(servers, servers, Random(seed))
    cluster.gossip.tell_the_truth()
    return way
