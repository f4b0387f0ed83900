"""Whole agents, glue included, on one simulated network: what the catalog shows of the roll."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean

from adsum.agent.commands import DeregisterService, RegisterService
from adsum.agent.saved_catalog import KEPT_NS, decode, encode
from adsum.agent.saved_files import COPY
from adsum.catalog.definitions import CheckStatus, ServiceDefinition
from adsum.catalog.model import SERF_HEALTH, Node
from adsum.catalog.records import encode_external_node
from adsum.catalog.replication.deltas import span
from adsum.catalog.replication.items import Item, term
from adsum.gossip.commands import ForceLeave, Join, Leave
from adsum.now import MILLISECOND, MINUTE, SECOND
from adsum.owners import STORE
from adsum.process.joining import read_peers
from adsum.testing.cluster import AgentCluster
from adsum.testing.network import Conditions
from adsum.testing.samples import HTTP_CHECK, WEB


def formed(members: int, *, seed: int = 1) -> AgentCluster:
    cluster = AgentCluster(members, seed=seed, conditions=Conditions(loss=0.02))
    cluster.join_all()
    cluster.run_for(15 * SECOND)
    return cluster


def health(cluster: AgentCluster, seen_by: int, index: int) -> CheckStatus | None:
    host = cluster.agent(seen_by).core.view.node(cluster.hosts[index].profile.name)
    check = host.checks.get(SERF_HEALTH) if host is not None else None
    return check.value.status if check is not None else None


def healths(cluster: AgentCluster, index: int) -> set[CheckStatus | None]:
    """As all others that run see it."""
    others = (host.index for host in cluster.hosts if host.is_up and host.index != index)
    return {health(cluster, other, index) for other in others}


def test_fifty_agents_show_each_other_after_a_cold_start() -> None:
    cluster = formed(50)
    assert cluster.is_one_view()
    for host in cluster.hosts:
        assert len(list(cluster.agent(host.index).core.view.nodes())) == 50


def test_a_dead_agent_turns_critical_everywhere_and_comes_back_by_its_peers_file() -> None:
    cluster = formed(20)
    cluster.run_for(6 * SECOND)
    cluster.kill(7)
    cluster.run_for(5 * SECOND)
    assert healths(cluster, 7) == {CheckStatus.CRITICAL}
    peers = read_peers(cluster.rejoin(7))
    assert len(peers) == 19
    cluster.start(7)
    cluster.command(7, Join(tuple(peers[:3])))
    cluster.run_for(3 * SECOND)
    assert healths(cluster, 7) == {CheckStatus.PASSING}
    assert list(cluster.agent(7).replies.values()) == [None]


def test_a_crash_soon_after_other_news_is_found_as_soon_as_any() -> None:
    """What all hear at one time lines up their ticks. Left so, nobody would send the dead a datagram for most
    of a second, and the mean of these was 1.62 s."""
    known_s = []
    for seed in range(8):
        cluster = AgentCluster(15, seed=seed)
        cluster.join_all()
        cluster.run_for(15 * SECOND)
        for victim in (3, 4, 5):
            known_s.append(crash_known_after_s(cluster, victim))
            peers = read_peers(cluster.rejoin(victim))
            cluster.start(victim)
            cluster.command(victim, Join(tuple(peers[:3])))
            cluster.run_for(4 * SECOND)
            assert healths(cluster, victim) == {CheckStatus.PASSING}
    assert mean(known_s) < 1.38


def crash_known_after_s(cluster: AgentCluster, victim: int) -> float:
    died_ns = cluster.now_ns
    cluster.kill(victim)
    assert cluster.run_until_so(
        lambda: healths(cluster, victim) == {CheckStatus.CRITICAL}, within_ns=10 * SECOND
    )
    return (cluster.now_ns - died_ns) / SECOND


def test_one_that_leaves_is_gone_everywhere_and_forgets_its_peers() -> None:
    cluster = formed(10)
    cluster.run_for(6 * SECOND)
    request = cluster.give(3, Leave())
    cluster.run_for(4 * SECOND)
    assert cluster.agent(3).replies[request] is None
    assert healths(cluster, 3) == {None}


def test_a_join_that_nobody_answers_is_refused_with_the_reason() -> None:
    cluster = AgentCluster(2)
    cluster.start(0)
    request = cluster.give(0, Join((cluster.hosts[1].address,)))
    cluster.run_for(40 * SECOND)
    refusal = cluster.agent(0).replies[request]
    assert refusal is not None
    assert refusal.sentence == "10.0.0.1:8301: connection refused"


def test_a_forced_leave_of_nobody_is_refused_and_of_a_dead_member_obeyed() -> None:
    cluster = formed(5)
    cluster.kill(4)
    cluster.run_for(5 * SECOND)
    unknown = cluster.give(0, ForceLeave("nobody"))
    forced = cluster.give(0, ForceLeave(cluster.hosts[4].profile.name))
    cluster.run_for(3 * SECOND)
    assert cluster.agent(0).replies[unknown] is not None
    assert cluster.agent(0).replies[forced] is None
    assert healths(cluster, 4) == {None}


def test_an_agent_that_is_cut_off_goes_on_showing_what_it_knew() -> None:
    cluster = formed(10)
    cluster.network.partition([0])
    cluster.run_for(MINUTE)
    assert {health(cluster, 0, index) for index in range(1, 10)} == {CheckStatus.PASSING}
    assert health(cluster, 1, 0) is CheckStatus.CRITICAL
    cluster.network.heal()
    cluster.run_for(MINUTE)
    assert cluster.is_one_view()
    assert healths(cluster, 0) == {CheckStatus.PASSING}


def test_registrations_are_made_while_the_roll_is_called() -> None:
    cluster = formed(3)
    request = cluster.give(1, RegisterService(WEB))
    cluster.run_for(SECOND)
    assert cluster.agent(1).replies[request] is None
    assert len(cluster.agent(1).core.view.instances("web")) == 1
    cluster.kill(1)
    cluster.start(1)
    assert len(cluster.agent(1).core.view.instances("web")) == 1


def test_one_seed_is_one_run() -> None:
    first, second, other = formed(8), formed(8), formed(8, seed=2)
    assert first.digest == second.digest != other.digest


# What agents tell each other of their services.


def statuses(cluster: AgentCluster, service: str) -> set[tuple[tuple[str, CheckStatus], ...]]:
    """Instances of it with their status, as each agent that runs answers."""
    return {
        tuple(
            (instance.host.name, instance.status)
            for instance in cluster.agent(host.index).core.view.instances(service)
        )
        for host in cluster.hosts
        if host.is_up
    }


def test_a_service_is_known_to_all_and_a_flip_of_its_check_too() -> None:
    cluster = formed(20)
    cluster.give(3, RegisterService(WEB))
    cluster.run_for(3 * SECOND)
    assert statuses(cluster, "web") == {(("m0003", CheckStatus.CRITICAL),)}
    cluster.run_for(12 * SECOND)
    assert statuses(cluster, "web") == {(("m0003", CheckStatus.PASSING),)}
    cluster.outcomes[3, "service:web1"] = lambda: (CheckStatus.WARNING, "slow")
    cluster.run_for(15 * SECOND)
    assert statuses(cluster, "web") == {(("m0003", CheckStatus.WARNING),)}
    (instance,) = cluster.agent(7).core.view.instances("web")
    assert [row.value.output for row in instance.checks] == ["slow"]


def test_an_agent_that_joins_later_is_told_all() -> None:
    cluster = formed(5)
    cluster.give(0, RegisterService(WEB))
    cluster.kill(4)
    cluster.run_for(20 * SECOND)
    cluster.start(4)
    cluster.command(4, Join((cluster.hosts[0].address,)))
    cluster.run_for(3 * SECOND)
    assert statuses(cluster, "web") == {(("m0000", CheckStatus.PASSING),)}


def test_a_deregistered_service_is_gone_everywhere_and_stays_gone() -> None:
    cluster = formed(5)
    cluster.give(0, RegisterService(WEB))
    cluster.run_for(15 * SECOND)
    cluster.give(0, DeregisterService("web1"))
    cluster.run_for(2 * SECOND)
    assert statuses(cluster, "web") == {()}
    cluster.run_for(2 * MINUTE)
    assert statuses(cluster, "web") == {()}


def test_instances_of_a_dead_agent_turn_critical_and_come_back_with_it() -> None:
    cluster = formed(5)
    cluster.give(2, RegisterService(WEB))
    cluster.run_for(15 * SECOND)
    cluster.kill(2)
    cluster.run_for(5 * SECOND)
    assert statuses(cluster, "web") == {(("m0002", CheckStatus.CRITICAL),)}
    cluster.start(2)
    cluster.command(2, Join((cluster.hosts[0].address,)))
    cluster.run_for(15 * SECOND)
    assert statuses(cluster, "web") == {(("m0002", CheckStatus.PASSING),)}


def test_after_restarts_all_show_what_the_owner_shows_whatever_order_it_loads_its_services_in() -> None:
    cluster = formed(4)
    for number in (3, 1, 4, 0, 2):
        cluster.give(2, RegisterService(named(f"web{number}")))
    cluster.run_for(15 * SECOND)
    for gone in ("web4", "web1"):
        cluster.give(2, DeregisterService(gone))
        cluster.run_for(2 * SECOND)
        cluster.kill(2)
        cluster.start(2)
        cluster.command(2, Join((cluster.hosts[0].address,)))
        cluster.run_for(15 * SECOND)
        assert shown_of(cluster, 0, 2) == shown_of(cluster, 1, 2) == shown_of(cluster, 2, 2)
    assert shown_of(cluster, 0, 2) == {(f"web{number}", CheckStatus.PASSING) for number in (0, 2, 3)}


def named(service_id: str) -> ServiceDefinition:
    checks = (replace(HTTP_CHECK, check_id=f"service:{service_id}", service_id=service_id),)
    return replace(WEB, service_id=service_id, checks=checks)


def shown_of(cluster: AgentCluster, seen_by: int, index: int) -> set[tuple[str, CheckStatus]]:
    """The services of a host by their ids, with their status."""
    name = cluster.hosts[index].profile.name
    instances = cluster.agent(seen_by).core.view.instances("web")
    return {(each.service.value.service_id, each.status) for each in instances if each.host.name == name}


# Between two lives.


def test_a_restarted_agent_answers_with_its_saved_copy_and_says_that_it_is_stale() -> None:
    cluster = formed(5)
    cluster.give(0, RegisterService(WEB))
    cluster.run_for(70 * SECOND)
    cluster.kill(4)
    cluster.network.partition([4])
    cluster.start(4)
    assert cluster.agent(4).cluster.staleness(cluster.now) == "saved copy"
    shown = {host.name for host in cluster.agent(4).core.view.nodes()}
    assert shown == {host.profile.name for host in cluster.hosts}
    (instance,) = cluster.agent(4).core.view.instances("web")
    assert instance.status is CheckStatus.PASSING


def test_the_saved_copy_gives_way_to_what_others_know() -> None:
    cluster = formed(5)
    cluster.give(0, RegisterService(WEB))
    cluster.run_for(70 * SECOND)
    cluster.kill(4)
    cluster.give(0, DeregisterService("web1"))
    cluster.give(1, Leave())
    cluster.run_for(30 * SECOND)
    cluster.kill(1)
    cluster.start(4)
    cluster.command(4, Join((cluster.hosts[2].address,)))
    cluster.run_for(5 * SECOND)
    agent = cluster.agent(4)
    assert agent.cluster.staleness(cluster.now) == ""
    assert agent.core.view.instances("web") == ()
    assert agent.core.view.node(cluster.hosts[1].profile.name) is None
    assert len(list(agent.core.view.nodes())) == 4


def test_one_that_had_failed_stays_hidden_after_a_restart_and_after_the_roll_tells_of_it() -> None:
    cluster = formed(3)
    cluster.give(1, RegisterService(WEB))
    cluster.run_for(70 * SECOND)
    cluster.kill(1)
    cluster.run_for(70 * SECOND)
    cluster.kill(2)
    cluster.network.partition([2])
    cluster.start(2)
    hidden = (("m0001", CheckStatus.CRITICAL),)
    assert statuses(cluster, "web") == {hidden}
    assert (health(cluster, 2, 0), health(cluster, 2, 1)) == (CheckStatus.PASSING, CheckStatus.CRITICAL)
    cluster.network.heal()
    cluster.command(2, Join((cluster.hosts[0].address,)))
    cluster.run_for(10 * SECOND)
    assert cluster.agent(2).cluster.staleness(cluster.now) == ""
    assert statuses(cluster, "web") == {hidden}
    root = cluster.agent(0).cluster.sharing.replication.root
    assert cluster.agent(2).cluster.sharing.replication.root == root


def alone_with_its_copy(cluster: AgentCluster, index: int) -> None:
    cluster.run_for(70 * SECOND)
    cluster.kill(index)
    cluster.network.partition([index])
    cluster.start(index)


def test_the_saved_copy_outlives_a_long_life_alone() -> None:
    cluster = formed(3)
    alone_with_its_copy(cluster, 2)
    kept = cluster.disk(2).read(COPY)
    cluster.run_for(3 * MINUTE)
    assert cluster.disk(2).read(COPY) == kept
    cluster.agent(2).core.stop(cluster.now)
    cluster.kill(2)
    cluster.start(2)
    assert len(list(cluster.agent(2).core.view.nodes())) == 3


def test_one_of_the_saved_copy_that_is_forced_to_leave_is_gone_and_stays_so() -> None:
    cluster = formed(3)
    cluster.give(1, RegisterService(WEB))
    alone_with_its_copy(cluster, 2)
    request = cluster.give(2, ForceLeave("M0001", is_pruned=True))
    assert cluster.agent(2).replies[request] is None
    for _ in range(2):
        view = cluster.agent(2).core.view
        assert [host.name for host in view.nodes()] == ["m0000", "m0002"]
        assert view.instances("web") == ()
        assert cluster.agent(2).cluster.staleness(cluster.now) == "saved copy"
        cluster.run_for(SECOND)
        cluster.kill(2)
        cluster.start(2)
    cluster.give(2, ForceLeave("m0000"))
    cluster.run_for(SECOND)
    assert cluster.disk(2).read(COPY) is None


def test_the_store_s_copy_ends_three_days_after_the_last_server_however_often_it_is_saved() -> None:
    cluster = formed(3)
    cluster.run_for(70 * SECOND)
    cluster.kill(2)
    disk = cluster.disk(2)
    kept = decode(disk.read(COPY) or b"")
    printer = Node(node_id="", name="printer", address="10.9.0.1", datacenter="dc1")
    item = Item(1, 1, encode_external_node(printer))
    told = span(STORE, 7, 1, term(item), [item], since=0, through=1, gc_version=0)
    gone_ms = cluster.now.wall_ms - (KEPT_NS - 3 * MINUTE) // MILLISECOND
    disk.write_durably(COPY, encode(kept._replace(store=(told,), store_gone_ms=gone_ms)))
    for _ in range(2):
        cluster.start(2)
        cluster.run_for(70 * SECOND)
        assert cluster.agent(2).cluster.staleness(cluster.now) == ""
        assert cluster.agent(2).core.view.node("printer") is not None
        cluster.kill(2)
        written = decode(disk.read(COPY) or b"")
        assert (written.wall_ms > kept.wall_ms, written.store_gone_ms) == (True, gone_ms)
    cluster.start(2)
    cluster.run_for(2 * MINUTE)
    assert cluster.agent(2).core.view.node("printer") is None


def test_one_whose_peers_are_all_gone_shows_them_for_three_days_and_no_longer() -> None:
    cluster = formed(3)
    cluster.run_for(70 * SECOND)
    cluster.kill(2)
    cluster.network.partition([2])
    disk = cluster.disk(2)
    kept = decode(disk.read(COPY) or b"")
    almost_old_ms = cluster.now.wall_ms - (KEPT_NS - MINUTE) // MILLISECOND
    disk.write_durably(COPY, encode(kept._replace(wall_ms=almost_old_ms)))
    cluster.start(2)
    cluster.run_for(50 * SECOND)
    assert len(list(cluster.agent(2).core.view.nodes())) == 3
    cluster.run_for(20 * SECOND)
    assert len(list(cluster.agent(2).core.view.nodes())) == 1
    assert cluster.agent(2).cluster.staleness(cluster.now) == ""
