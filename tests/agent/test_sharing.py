"""What an agent does about itself when others know better: through the whole composite, by literal bytes."""

from __future__ import annotations

from adsum.agent.sharing import RENEWED_EVERY_NS
from adsum.catalog.replication.deltas import push
from adsum.catalog.replication.items import Item, term
from adsum.gossip.effects import CarriedHeard
from adsum.now import SECOND
from adsum.testing.cluster import Cluster


def foreign_push(cluster: Cluster, version: int) -> bytes:
    state = cluster.agent(0).roll.sharing.replication.publisher.state
    item = Item(1, version, b"x")
    return push(state.owner, state.generation, version, term(item), [item])


def hear(cluster: Cluster, payload: bytes) -> None:
    sharing = cluster.agent(0).roll.sharing
    sharing.carried(cluster.now, CarriedHeard(cluster.hosts[1].profile.short, (payload,)))
    cluster.hosts[0].deadline_ns = -1
    sharing.settled(cluster.now)


def generation(cluster: Cluster) -> int:
    return cluster.agent(0).roll.sharing.replication.publisher.state.generation


def test_what_i_never_said_of_myself_is_outdone_at_once_and_then_once_a_minute() -> None:
    cluster = Cluster(2)
    cluster.join_all()
    cluster.run_for(5 * SECOND)
    first = generation(cluster)
    hear(cluster, foreign_push(cluster, 100))
    assert generation(cluster) == first + 1
    for version in range(200, 210):
        hear(cluster, foreign_push(cluster, version))
    assert generation(cluster) == first + 1
    cluster.run_for(RENEWED_EVERY_NS + SECOND)
    assert generation(cluster) == first + 2
    cluster.run_for(3 * RENEWED_EVERY_NS)
    assert generation(cluster) == first + 2
