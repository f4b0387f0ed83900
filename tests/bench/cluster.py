"""A client agent of a cluster of four: what it answers about 60 instances that three servers own.

Consul's client agent asks a server for every answer; ours has its copy. Both clusters are up together, each
agent with a data folder, and load goes to the two client agents by turns, as in `side_by_side`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import mean

from tests.bench.figure import Figure, at_least, at_most, informs, megabytes, per_second
from tests.bench.side_by_side import MEASURES, REST_S, SERVICES, alternate, questions, register_instances
from tests.bench.tools import dns_rate, resident_mb
from tests.system.agents import Agent, AgentFailed, Program, until
from tests.system.clusters import Cluster, Place, emptied, loopbacks

SERVERS = 3
SOCKETS = 100
VISIBLE_S_MAX = 30.0
ONE_VIEW_S_MAX = 120.0  # of sixty who start on two cores


def clusters_side_by_side(ours: Program, consul: Program) -> list[Figure]:
    with three_servers_and_a_client(ours) as mine, three_servers_and_a_client(consul) as theirs:
        time.sleep(REST_S)
        pair = client_of(mine), client_of(theirs)
        idle = resident_mb(pair[0].pid), resident_mb(pair[1].pid)
        rates = {name: alternate(pair, measure) for name, measure in MEASURES.items()}
        apart = alternate(pair, from_many_sockets)
        loaded = resident_mb(pair[0].pid), resident_mb(pair[1].pid)
        servers = of_servers_mb(mine), of_servers_mb(theirs)
    return [
        at_least("client agent: DNS A, 20 services × 3", *rates["A"], 15, per_second),
        informs(f"  from {SOCKETS} sockets", *apart, per_second),
        at_least("client agent: DNS SRV, 20 services × 3", *rates["SRV"], 15, per_second),
        at_least("client agent: health ?passing, 32 connections", *rates["health"], 10, per_second),
        at_most("client agent: memory after that load", *loaded, 0.65, megabytes),
        informs("  before it", *idle, megabytes),
        informs("  of a server", *servers, megabytes),
    ]


def from_many_sockets(agent: Agent, seconds: float) -> float:
    """Stubs ask like this, each from a socket of its own: answers to one socket can leave together."""
    return dns_rate(agent.ports.dns, questions("A"), seconds, sockets=SOCKETS)


@contextmanager
def three_servers_and_a_client(
    program: Program, config: Mapping[str, object] | None = None
) -> Iterator[Cluster]:
    """Each server owns one instance of every service, and the client shows all of them."""
    with three_servers_and_clients(program, loopbacks(SERVERS + 1), config) as cluster:
        for instance, member in enumerate(cluster.members[:SERVERS]):
            register_instances(member.agent, instance)
        if not until(lambda: shows_all(client_of(cluster)), within_s=VISIBLE_S_MAX):
            raise AgentFailed(f"{program.name}: the client agent does not list what the servers have")
        yield cluster


@contextmanager
def three_servers_and_clients(
    program: Program, places: Sequence[Place], config: Mapping[str, object] | None = None
) -> Iterator[Cluster]:
    """With one view; the servers are the first three."""
    servers = [f"{place.address}:{place.ports.serf_lan}" for place in places[:SERVERS]]
    common = {"retry_join": servers, "retry_interval": "1s", **(config or {})}
    with emptied(Cluster(program)) as cluster:
        for place in places[:SERVERS]:
            cluster.add(place, {"server": True, "bootstrap_expect": SERVERS, **common})
        for place in places[SERVERS:]:
            cluster.add(place, common)
        cluster.wait_for_one_view(ONE_VIEW_S_MAX)
        yield cluster


def client_of(cluster: Cluster) -> Agent:
    return cluster.members[-1].agent


def shows_all(agent: Agent) -> bool:
    """Consul refuses to answer before it has a leader."""
    status, body = agent.call("GET", "/v1/health/state/passing")
    checks = SERVERS * SERVICES + SERVERS + 1  # and the nodes' own
    return status == 200 and body.count(b'"CheckID"') == checks


def of_servers_mb(cluster: Cluster) -> float:
    return mean(resident_mb(member.pid) for member in cluster.members[:SERVERS])
