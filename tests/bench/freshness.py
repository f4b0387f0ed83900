"""How soon every agent of a cluster knows of a change: flips among forty agents, new services among sixty.

Three servers, the others their clients, each on a host of its own (a network namespace), so that the kernel
counts what its cable carries. One cluster after the other, for both at once would share two cores; the same
requests at the same pace for both, from this process, and all agents are asked by blocking queries.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import mean, median

from tests.bench.blocking_queries import BlockingQueries, blocking_queries
from tests.bench.cluster import three_servers_and_clients
from tests.bench.figure import Figure, at_most, informs, milliseconds, per_second, seconds
from tests.bench.flips import Check, Freshness, WatchedChecks, checks_of, definition, register_everywhere
from tests.bench.tools import LoadFailed, ran_ns
from tests.bench.watchers import CONNECTIONS_ALLOWED
from tests.system.agents import Program
from tests.system.clusters import Cluster, Member
from tests.system.namespaces import network, why_no_namespaces

FLIPPING_AGENTS = 40
REST_S = 25.0  # after registrations, and after flips: news of them is told for a while
IDLE_S = 10.0
FLIPPING_S = 40.0
WARM_UP_S = 2.0

REGISTERING_AGENTS = 60
ROUNDS = 20
ROUND_S_MAX = 30.0
PAUSE_S = 0.5


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one agent in a second."""

    processor_s: float
    busiest_s: float
    sent_bytes: float
    datagrams: float


@dataclass(frozen=True, slots=True)
class Flipping:
    freshness: Freshness
    idle: Cost
    flipping: Cost


def freshness_of_flips(ours: Program, consul: Program) -> list[Figure]:
    return flips_in(f"seen by all {FLIPPING_AGENTS}", ours, consul, are_shared=False)


def freshness_of_shared_flips(ours: Program, consul: Program) -> list[Figure]:
    """An answer has all forty instances of the service, one on each agent."""
    name = f"of {FLIPPING_AGENTS} instances seen by all {FLIPPING_AGENTS}"
    return flips_in(name, ours, consul, are_shared=True)


def flips_in(name: str, ours: Program, consul: Program, *, are_shared: bool) -> list[Figure]:
    if not can_measure():
        return []
    mine, theirs = (flipping(program, are_shared=are_shared) for program in (ours, consul))
    fresh, consuls = mine.freshness, theirs.freshness
    return [
        at_most(f"flip {name}: p50", fresh.by_all(0.5), consuls.by_all(0.5), 0.5, ms),
        at_most("  p99", fresh.by_all(0.99), consuls.by_all(0.99), 1.0, ms),
        informs("  worst", fresh.by_all(1), consuls.by_all(1), ms),
        informs("  seen by one agent: p50", fresh.by_each(0.5), consuls.by_each(0.5), ms),
        informs("  seen by one agent: p99", fresh.by_each(0.99), consuls.by_each(0.99), ms),
        informs("  never seen", fresh.unseen, consuls.unseen, "{:.0f}".format),
        *costs("with flips", mine.flipping, theirs.flipping),
        *costs("idle", mine.idle, theirs.idle),
    ]


def costs(when: str, ours: Cost, consul: Cost) -> list[Figure]:
    return [
        informs(
            f"processor time of an agent, {when}",
            ours.processor_s * 1000,
            consul.processor_s * 1000,
            ms_per_s,
        ),
        informs("  of the busiest", ours.busiest_s * 1000, consul.busiest_s * 1000, ms_per_s),
        informs("  bytes sent", ours.sent_bytes, consul.sent_bytes, per_second),
        informs("  datagrams sent", ours.datagrams, consul.datagrams, per_second),
    ]


def ms(value_s: float) -> str:
    return milliseconds(value_s * 1000)


def ms_per_s(value: float) -> str:
    return f"{value:.1f} ms/s"


def can_measure() -> bool:
    if sentence := why_no_namespaces():
        print(f"freshness: skipped: {sentence}", flush=True)
    return not why_no_namespaces()


def flipping(program: Program, *, are_shared: bool) -> Flipping:
    with on_hosts_of_their_own(program, FLIPPING_AGENTS) as cluster, blocking_queries() as queries:
        every = checks_of(cluster, are_shared=are_shared)
        register_everywhere(cluster, queries, every)
        time.sleep(REST_S)
        checks = WatchedChecks(cluster, queries, every, Random(1))
        checks.flip_for(WARM_UP_S)
        found: list[Freshness] = []
        cost = costing(cluster, lambda: found.append(checks.flip_for(FLIPPING_S)))
        time.sleep(REST_S)
        idle = costing(cluster, lambda: time.sleep(IDLE_S))
    return Flipping(found[0], idle, cost)


@contextmanager
def on_hosts_of_their_own(program: Program, agents: int) -> Iterator[Cluster]:
    with (
        network(agents, are_neighbours_known=True) as made,
        three_servers_and_clients(program, made.hosts, CONNECTIONS_ALLOWED) as cluster,
    ):
        yield cluster


def costing(cluster: Cluster, activity: Callable[[], None]) -> Cost:
    members = cluster.members
    before, began_s = [counted(member) for member in members], time.monotonic()
    activity()
    elapsed_s = time.monotonic() - began_s
    spent = [
        [(late - early) / elapsed_s for late, early in zip(counted(member), earlier, strict=True)]
        for member, earlier in zip(members, before, strict=True)
    ]
    ran, sent_bytes, datagrams = zip(*spent, strict=True)
    return Cost(mean(ran) / 1e9, max(ran) / 1e9, mean(sent_bytes), mean(datagrams))


def counted(member: Member) -> tuple[int, int, int]:
    """Nanoseconds it ran, bytes that its cable took, datagrams that it sent."""
    net = Path(f"/proc/{member.pid}/net")
    cable = next(line for line in (net / "dev").read_text().splitlines() if line.strip().startswith("eth0:"))
    names, values = (
        line.split() for line in (net / "snmp").read_text().splitlines() if line.startswith("Udp:")
    )
    datagrams = int(values[names.index("OutDatagrams")])
    return ran_ns(member.pid), int(cable.partition(":")[2].split()[8]), datagrams


def freshness_of_registrations(ours: Program, consul: Program) -> list[Figure]:
    if not can_measure():
        return []
    mine, theirs = (registering(program) for program in (ours, consul))
    return [
        at_most(
            f"new service known to all {REGISTERING_AGENTS}, worst of {ROUNDS}",
            max(mine),
            max(theirs),
            1.0,
            ms,
        ),
        informs("  median", median(mine), median(theirs), ms),
    ]


def registering(program: Program) -> list[float]:
    random = Random(1)
    with on_hosts_of_their_own(program, REGISTERING_AGENTS) as cluster, blocking_queries() as queries:
        time.sleep(REST_S)
        return [
            known_to_all_s(cluster, queries, random.choice(cluster.members), each) for each in range(ROUNDS)
        ]


def known_to_all_s(cluster: Cluster, queries: BlockingQueries, owner: Member, number: int) -> float:
    """The service is waited for before it is there."""
    name = f"new-{number:02}"
    service = definition(Check(owner, name))
    asked: dict[Member, None] = {}
    knows_s: dict[Member, float] = {}

    def watch(member: Member) -> Callable[[], None]:
        def seen(body: bytes, heard_s: float) -> None:
            asked[member] = None
            if name.encode() in body:
                knows_s.setdefault(member, heard_s)

        return queries.watch(member, f"/v1/health/service/{name}", seen)

    ends = [watch(member) for member in cluster.members]
    everybody = len(cluster.members)
    queries.run_until(time.monotonic() + ROUND_S_MAX, lambda: len(asked) == everybody)
    queries.run_until(time.monotonic() + PAUSE_S)
    left_s = time.monotonic()
    queries.put(owner, "/v1/agent/service/register", json.dumps(service).encode())
    if not queries.run_until(left_s + ROUND_S_MAX, lambda: len(knows_s) == everybody):
        raise LoadFailed(
            f"{cluster.program.name}: a service was unknown to some after {seconds(ROUND_S_MAX)}"
        )
    for end in ends:
        end()
    return max(knows_s.values()) - left_s
