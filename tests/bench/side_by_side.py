"""Throughput and memory: both agents up at once, 20 services of 3 instances, rounds that alternate between
them.

Load generator and servers share the same cores, and nothing is pinned: a round is short, every other round
begins with the other agent, and the median of the rounds is taken.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

from tests.bench.figure import Figure, at_least, at_most, megabytes, per_second
from tests.bench.tools import dns_rate, http_rate, resident_mb
from tests.system.agents import Agent, AgentFailed, Program, running, until

SERVICES = 20
INSTANCES = 3
ROUNDS = 5
ROUND_S = 3.0
WARM_UP_S = 1.0
CONNECTIONS = 32
# Both have background work just after registrations; idle memory is read when it is over.
REST_S = 3.0
HEALTH = "/v1/health/service/svc-07?passing"

Measure = Callable[[Agent, float], float]


def side_by_side(ours: Program, consul: Program) -> list[Figure]:
    with running(ours) as mine, running(consul) as theirs:
        pair = (mine, theirs)
        for agent in pair:
            register_services(agent)
        time.sleep(REST_S)
        idle = resident_mb(mine.pid), resident_mb(theirs.pid)
        rates = {name: alternate(pair, measure) for name, measure in MEASURES.items()}
        loaded = resident_mb(mine.pid), resident_mb(theirs.pid)
    return [
        at_least("DNS A, 20 services × 3", *rates["A"], 2.5, per_second),
        at_least("DNS SRV, 20 services × 3", *rates["SRV"], 2.5, per_second),
        at_least("/v1/health/service/x?passing, 32 connections", *rates["health"], 1.5, per_second),
        at_most("memory after that load", *loaded, 0.65, megabytes),
        at_most("memory idle", *idle, 1.0, megabytes),
    ]


def register_services(agent: Agent) -> None:
    for instance in range(INSTANCES):
        register_instances(agent, instance)
    if not until(lambda: len(agent.get_json(HEALTH)) == INSTANCES, within_s=10):
        raise AgentFailed(f"{agent.program.name} does not list what was registered")


def register_instances(agent: Agent, instance: int) -> None:
    """One of each service."""
    for number in range(SERVICES):
        status, body = agent.put(
            "/v1/agent/service/register",
            {
                "Name": f"svc-{number:02}",
                "ID": f"svc-{number:02}-{instance}",
                "Address": f"10.0.{number}.{instance + 1}",
                "Port": 8000 + number,
                "Tags": ["bench", f"v{instance}"],
                "Check": {"TTL": "1h", "Status": "passing"},
            },
        )
        if status != 200:
            raise AgentFailed(f"{agent.program.name} refused a registration: {status} {body!r}")


def alternate(pair: tuple[Agent, Agent], measure: Measure) -> tuple[float, float]:
    rates: tuple[list[float], list[float]] = ([], [])
    for agent in pair:
        measure(agent, WARM_UP_S)
    for number in range(ROUNDS):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        for which in order:
            rates[which].append(measure(pair[which], ROUND_S))
    return median(rates[0]), median(rates[1])


def questions(kind: str) -> list[str]:
    return [f"svc-{number:02}.service.consul {kind}" for number in range(SERVICES)]


MEASURES: dict[str, Measure] = {
    "A": lambda agent, seconds: dns_rate(agent.ports.dns, questions("A"), seconds),
    "SRV": lambda agent, seconds: dns_rate(agent.ports.dns, questions("SRV"), seconds),
    "health": lambda agent, seconds: http_rate(agent.ports.http, HEALTH, CONNECTIONS, seconds),
}
