"""Whole agents, of which some are servers: gossip, catalog and consensus in one process on each host, on one
clock, one network and one disk.
"""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random

import pytest

from adsum.agent.commands import RegisterService
from adsum.agent.server_agent import ConsistentRead, Proposal
from adsum.effects import RefusalCause
from adsum.gossip.commands import Join
from adsum.gossip.order import MemberStatus
from adsum.now import SECOND
from adsum.raft.types import Role
from adsum.testing.checkers import check_witness
from adsum.testing.cluster import AgentCluster
from adsum.testing.linearizability import HistoryVerdict, verdict
from adsum.testing.network import Conditions
from adsum.testing.raft_clients import Clients
from adsum.testing.raft_machine import ClientCall
from adsum.testing.raft_nemesis import Nemesis
from adsum.testing.raft_server import SimulatedServer
from adsum.testing.samples import WEB

HOSTS, SERVERS = 5, 3
PAUSED_NS = 20 * SECOND
ELECTED_NS = 6 * SECOND


def formed(seed: int = 1, *, loss: float = 0.0) -> AgentCluster:
    cluster = AgentCluster(HOSTS, servers=SERVERS, seed=seed, conditions=Conditions(loss=loss))
    cluster.form()
    assert cluster.run_until_so(lambda: len(cluster.raft.leaders()) == 1, within_ns=ELECTED_NS)
    cluster.run_for(2 * SECOND)
    return cluster


def writes(cluster: AgentCluster, host: int, value: str) -> int:
    return cluster.give(host, Proposal(ClientCall("set", "k", value).encoded()))


def values(cluster: AgentCluster) -> list[str]:
    return [server.machine.get("k") for server in cluster.raft.up()]


def others(server: SimulatedServer) -> list[int]:
    return [index for index in range(SERVERS) if index != server.host.index]


def leader_is_paused(seed: int) -> AgentCluster:
    """For longer than its host is suspected; the others go on without it, and then it is back."""
    cluster = formed(seed, loss=0.02)
    old = cluster.raft.leaders()[0]
    paused, (other, _third) = old.host.index, others(old)
    request = writes(cluster, other, "before")
    cluster.run_for(SECOND)
    assert cluster.agent(other).values[request] == b"yes"

    cluster.raft.pause(old.me, PAUSED_NS)
    cluster.run_for(ELECTED_NS)
    new = next(server for server in cluster.raft.leaders() if server is not old)
    cluster.run_for(PAUSED_NS - ELECTED_NS - SECOND)
    assert cluster.views(paused) == {MemberStatus.FAILED: HOSTS - 1}
    request = writes(cluster, other, "meanwhile")
    cluster.run_for(SECOND // 2)
    assert cluster.agent(other).values[request] == b"yes"
    assert old.machine.get("k") == "before"

    cluster.run_for(20 * SECOND)
    assert cluster.views(paused) == {MemberStatus.ALIVE: HOSTS - 1}
    assert cluster.is_one_view()
    assert cluster.raft.leaders() == [new]
    assert old.raft.replica.role is Role.FOLLOWER
    assert old.raft.replica.leader == new.me
    assert values(cluster) == ["meanwhile"] * SERVERS
    return cluster


def trace_of(cluster: AgentCluster) -> tuple[int, int]:
    return cluster.digest, cluster.raft.told_digest


def test_a_leader_whose_host_stands_still_is_called_failed_and_replaced_and_follows_when_it_is_back() -> None:
    leader_is_paused(1)


def test_a_seed_is_one_run_in_every_process() -> None:
    told = [trace_of(leader_is_paused(seed)) for seed in (3, 3, 4)]
    assert told[0] == told[1]
    assert told[0] != told[2]
    program = "from tests.simulation.test_servers import *; print(trace_of(leader_is_paused(3)))"
    again = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert again.stdout.strip() == str(told[0])


def test_clients_are_served_by_whichever_server_they_ask() -> None:
    cluster = formed()
    asked = [(host, writes(cluster, host, f"by {host}")) for host in range(SERVERS)]
    cluster.run_for(SECOND)
    assert [cluster.agent(host).values[request] for host, request in asked] == [b"yes"] * SERVERS
    reads = [(host, cluster.give(host, ConsistentRead())) for host in range(SERVERS)]
    cluster.run_for(SECOND)
    applied = cluster.raft.leaders()[0].machine.index
    assert [cluster.agent(host).values[request] for host, request in reads] == [applied] * SERVERS


def test_without_a_quorum_a_write_is_refused_and_the_catalog_goes_on() -> None:
    cluster = formed()
    leader = cluster.raft.leaders()[0]
    left, *lost = [leader.host.index, *others(leader)]
    for index in lost:
        cluster.raft.crash(cluster.raft.on_host[index].me)
    request = writes(cluster, left, "alone")
    registered = cluster.give(left, RegisterService(WEB))
    cluster.run_for(10 * SECOND)
    refusal = cluster.agent(left).replies[request]
    assert refusal is not None
    assert refusal.cause is RefusalCause.UNCERTAIN  # it is in the log, and may yet be committed
    assert cluster.agent(left).replies[registered] is None
    assert [len(cluster.agent(index).core.view.instances("web")) for index in (3, 4)] == [1, 1]


def test_when_the_power_of_all_goes_what_was_acknowledged_is_there_in_log_and_catalog() -> None:
    cluster = formed()
    writes(cluster, 1, "kept")
    cluster.give(1, RegisterService(WEB))
    cluster.run_for(2 * SECOND)
    servers = cluster.raft.up()
    for server in servers:
        cluster.raft.crash(server.me)
    cluster.run_for(SECOND)
    for server in servers:
        cluster.raft.boot(server.me)
    assert cluster.run_until_so(lambda: values(cluster) == ["kept"] * SERVERS, within_ns=ELECTED_NS)
    assert len(cluster.agent(1).core.view.instances("web")) == 1


def test_a_server_whose_disk_is_lost_is_a_stranger_to_the_others_who_go_on() -> None:
    cluster = formed()
    victim, other = others(cluster.raft.leaders()[0])
    cluster.kill(victim)
    cluster.lose_folder(victim)
    cluster.start(victim)
    cluster.command(victim, Join((cluster.hosts[other].address,)))
    request = writes(cluster, other, "without it")
    cluster.run_for(10 * SECOND)
    assert cluster.agent(other).values[request] == b"yes"
    stranger = cluster.raft.on_host[victim]
    assert (stranger.raft.replica.configuration.voters, stranger.machine.get("k")) == ((), "")
    assert cluster.views(victim) == {MemberStatus.ALIVE: HOSTS - 1}


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_to_whole_servers_their_clients_hear_of_one_history(seed: int) -> None:
    """The faults and the judges of the swarm, on agents that gossip meanwhile."""
    cluster = formed(seed)
    clients = Clients(cluster.raft, Random(f"clients {seed}"), count=3)
    nemesis = Nemesis(cluster.raft, Random(f"nemesis {seed}"))
    nemesis.begin(["crash", "crash_leader", "pause", "loss", "split_leader", "slow_disk"])
    cluster.run_for(20 * SECOND)
    clients.is_done = True
    nemesis.end()
    for index in range(SERVERS):  # as the daemon does at its start, by the peers that it saved
        cluster.command(index, Join((cluster.hosts[SERVERS].address,)))
    cluster.run_for(40 * SECOND)
    assert len({server.machine.dump() for server in cluster.raft.up()}) == 1
    happened = check_witness(clients.history, cluster.raft.invariants.log)
    assert any(operation.answer is not None for operation in happened)
    assert verdict(happened) is HistoryVerdict.LINEARIZABLE
    assert [len(cluster.views(index)) for index in range(HOSTS)] == [1] * HOSTS
    assert cluster.is_one_view()
