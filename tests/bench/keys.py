"""Keys: three servers and a client agent of each, up together, load by turns.

Writes and reads at the leader, at a follower and through the client agent; then what a server needs in
memory for a hundred thousand keys.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.bench.cluster import SERVERS, client_of, three_servers_and_a_client
from tests.bench.figure import Figure, at_least, at_most, megabytes, milliseconds, per_second
from tests.bench.tools import WRK_RATE, LoadFailed, found, resident_mb, run
from tests.system.agents import Agent, AgentFailed, Program, until
from tests.system.clusters import Cluster

SCRIPT = Path(__file__).parent / "keys.lua"
CONNECTIONS = 64
ROUNDS = 5
ROUND_S = 3.0
WARM_UP_S = 1.0
KEYS = 10_000
MANY_KEYS = 100_000
ELECTED_S_MAX = 10.0
WRK_P99 = re.compile(r"99%\s+([\d.]+)(us|ms|s)")
WRK_COUNT = re.compile(r"(\d+) requests in")
TO_MS = {"us": 0.001, "ms": 1.0, "s": 1_000.0}


class Load(NamedTuple):
    rate: float
    p99_ms: float


class KeyFigure(NamedTuple):
    name: str
    of: Callable[[Cluster], Agent]
    words: tuple[str, ...]
    connections: int
    factor: float
    p99_factor: float | None = None


def leader_of(cluster: Cluster) -> Agent:
    return _by_lead(cluster, leads=True)


def follower_of(cluster: Cluster) -> Agent:
    return _by_lead(cluster, leads=False)


def _by_lead(cluster: Cluster, *, leads: bool) -> Agent:
    """Ours answers about services before it has a leader, so a new cluster may still elect one."""

    def by_role() -> dict[bool, Agent]:
        agents = [member.agent for member in cluster.members[:SERVERS]]
        return {leading(agent): agent for agent in agents}

    found_ = until(lambda: roles if True in (roles := by_role()) else None, within_s=ELECTED_S_MAX)
    if found_ is None:
        raise AgentFailed(f"{cluster.program.name} has no leader")
    return found_[leads]


def leading(server: Agent) -> bool:
    return bool(server.get_json("/v1/agent/self")["Stats"]["consul"]["leader"] == "true")


FIGURES = (
    KeyFigure("put at the leader, 64 connections", leader_of, ("PUT",), CONNECTIONS, 2.5, 0.4),
    KeyFigure("put through the client agent, 64", client_of, ("PUT",), CONNECTIONS, 2.0),
    KeyFigure("put at the leader, one connection", leader_of, ("PUT",), 1, 1.4),
    KeyFigure("get at the leader, 64", leader_of, ("GET",), CONNECTIONS, 1.5),
    KeyFigure("get ?consistent at the leader, 64", leader_of, ("GET", "?consistent"), CONNECTIONS, 2.0),
    KeyFigure("get ?stale at a follower, 64", follower_of, ("GET", "?stale"), CONNECTIONS, 1.5),
)


def keys_side_by_side(ours: Program, consul: Program) -> list[Figure]:
    with three_servers_and_a_client(ours) as mine, three_servers_and_a_client(consul) as theirs:
        pair = mine, theirs
        for cluster in pair:
            fill(leader_of(cluster), 1, KEYS)
        figures = [each for figure in FIGURES for each in measured(figure, pair)]
        for cluster in pair:
            fill(leader_of(cluster), KEYS + 1, MANY_KEYS - KEYS)
        memory = [resident_mb(leader_of(cluster).pid) for cluster in pair]
    return [*figures, at_most("memory of a server with 100,000 keys", memory[0], memory[1], 0.6, megabytes)]


def measured(figure: KeyFigure, pair: tuple[Cluster, Cluster]) -> list[Figure]:
    found_: tuple[list[Load], list[Load]] = ([], [])
    for cluster in pair:
        load(figure.of(cluster), figure, WARM_UP_S)
    for number in range(ROUNDS):
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            found_[which].append(load(figure.of(pair[which]), figure, ROUND_S))
    rates = [median(each.rate for each in loads) for loads in found_]
    figures = [at_least(figure.name, rates[0], rates[1], figure.factor, per_second)]
    if figure.p99_factor is not None:
        slow = [median(each.p99_ms for each in loads) for loads in found_]
        figures.append(at_most("  99 of 100 within", slow[0], slow[1], figure.p99_factor, milliseconds))
    return figures


def load(agent: Agent, figure: KeyFigure, seconds: float) -> Load:
    output = wrk(agent, figure.connections, seconds, *figure.words)
    match = WRK_P99.search(output)
    if match is None:
        raise LoadFailed(f"wrk: {output}")
    return Load(float(found(WRK_RATE, output)), float(match[1]) * TO_MS[match[2]])


def fill(agent: Agent, first: int, count: int) -> None:
    """One key after the other; what is begun anew is written again."""
    written = 0
    while written < count:
        output = wrk(agent, CONNECTIONS, 2.0, "PUT", "", str(first + written))
        written += int(found(WRK_COUNT, output))
        time.sleep(0.1)


def wrk(agent: Agent, connections: int, seconds: float, *words: str) -> str:
    url = f"http://127.0.0.1:{agent.ports.http}"
    options = ["-t1", f"-c{connections}", f"-d{seconds:.0f}s", "--latency", "-s", str(SCRIPT)]
    output = run("wrk", *options, url, "--", *words)
    if "Non-2xx" in output or "Socket errors" in output:
        raise LoadFailed(f"wrk: {output}")
    return output
