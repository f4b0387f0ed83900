"""What an agent does about itself when others know better: through the whole composite, by literal bytes."""

from __future__ import annotations

from dataclasses import replace

from adsum.agent.catalog_sync import RENEWED_EVERY_NS
from adsum.agent.commands import RegisterCheck, RegisterService, ReportTtl
from adsum.catalog.definitions import CheckDefinition, CheckStatus
from adsum.catalog.replication.deltas import push
from adsum.catalog.replication.items import Item, term
from adsum.gossip.commands import ForceLeave, Join
from adsum.gossip.effects import Send
from adsum.gossip.wire import HEADER_BYTES, decode
from adsum.now import HOUR, MILLISECOND, SECOND
from adsum.testing.cluster import AgentCluster
from adsum.testing.samples import TTL_CHECK, WEB


def foreign_push(cluster: AgentCluster, version: int) -> bytes:
    state = cluster.agent(0).cluster.sharing.replication.publisher.state
    item = Item(1, version, b"x")
    return push(state.owner, state.generation, version, term(item), [item])


def hear(cluster: AgentCluster, payload: bytes) -> None:
    sharing = cluster.agent(0).cluster.sharing
    sharing.replication.hear(cluster.now, cluster.hosts[1].profile.short, (payload,))
    cluster.hosts[0].deadline_ns = -1
    sharing.settled(cluster.now)


def services_seen(cluster: AgentCluster, seen_by: int, index: int) -> int:
    name = cluster.hosts[index].profile.name
    instances = cluster.agent(seen_by).core.view.instances("web")
    return sum(each.host.name == name for each in instances)


def test_one_that_others_had_leave_is_back_with_its_services_however_far_they_were_ahead() -> None:
    """Of a copied data folder the catalog's generation is far beyond the roll's."""
    cluster = AgentCluster(3)
    cluster.join_all()
    cluster.give(0, RegisterService(WEB))
    cluster.run_for(5 * SECOND)
    state = cluster.agent(0).cluster.sharing.replication.publisher.state
    hear(cluster, push(state.owner, state.generation + 1_000, 1, 0, []))
    cluster.run_for(5 * SECOND)
    assert services_seen(cluster, 1, 0) == 1
    cluster.give(1, ForceLeave(cluster.hosts[0].profile.name))
    cluster.run_for(5 * SECOND)
    assert [services_seen(cluster, seen_by, 0) for seen_by in (1, 2)] == [1, 1]


def test_one_whose_clock_was_years_ahead_is_let_in_with_its_services() -> None:
    cluster = AgentCluster(3)
    cluster.join_all()
    cluster.run_for(5 * SECOND)
    cluster.kill(0)
    cluster.run_for(5 * SECOND)
    cluster.hosts[0].generation = cluster.now.wall_ms + 10 * 365 * 24 * HOUR // MILLISECOND
    cluster.start(0)
    cluster.give(0, RegisterService(WEB))
    cluster.command(0, Join((cluster.hosts[1].address,)))
    cluster.run_for(5 * SECOND)
    assert [services_seen(cluster, seen_by, 0) for seen_by in (1, 2)] == [1, 1]


def generation(cluster: AgentCluster) -> int:
    return cluster.agent(0).cluster.sharing.replication.publisher.state.generation


def test_what_i_never_said_of_myself_is_outdone_at_once_and_then_once_a_minute() -> None:
    cluster = AgentCluster(2)
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


def test_what_an_alias_repeats_is_published_with_what_it_repeats() -> None:
    cluster = AgentCluster(2)
    cluster.join_all()
    cluster.give(0, RegisterService(replace(WEB, checks=(TTL_CHECK,))))
    cluster.give(0, RegisterCheck(CheckDefinition(check_id="alias", name="alias", alias_service="web1")))
    cluster.run_for(5 * SECOND)
    cluster.give(0, ReportTtl("service:web1", CheckStatus.PASSING, ""))
    cluster.run_for(SECOND // 2)
    seen = {row.value.check_id: row.value.status for _host, row in cluster.agent(1).core.view.checks()}
    assert (seen["service:web1"], seen["alias"]) == (CheckStatus.PASSING, CheckStatus.PASSING)


def test_what_changed_is_published_and_pushed_by_one_tick() -> None:
    """A turn of the loop between the two is a turn of everything else that is due."""
    cluster = AgentCluster(3)
    cluster.join_all()
    cluster.give(0, RegisterService(replace(WEB, checks=(TTL_CHECK,))))
    cluster.run_for(30 * SECOND)
    core, now = cluster.agent(0).core, cluster.now
    core.command(now, 1, ReportTtl(TTL_CHECK.check_id, CheckStatus.PASSING, "back"))
    sent = [decode(each.message[HEADER_BYTES:]) for each in core.tick(now) if isinstance(each, Send)]
    assert [len(packet.carried) for packet in sent] == [1, 1]
