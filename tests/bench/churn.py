"""Does an agent grow while others come and go? Every 5 s one of each side is killed and started anew.

Those who die are half of the clients; those who are measured are the others and the server, who live through
all of it. They are measured at rest, before and after.
"""

from __future__ import annotations

import time
from statistics import mean

from tests.bench.figure import Figure, megabytes
from tests.bench.sides import Sides, Trial
from tests.bench.tools import resident_mb
from tests.system.clusters import Cluster, Member, pace

EVERY_S = 5.0
DEAD_S = 2.5
REST_S = 30.0
GROWTH_MAX = 1.1


def churn(sides: Sides, trial: Trial) -> list[Figure]:
    rest(sides)
    before = sides.each(witnesses_mb)
    began = time.monotonic()
    turn = 0
    while (elapsed_s := turn * EVERY_S) < trial.churn_s:
        turn += 1
        victims = [trial.random.choice(mortals(side)) for side in sides]
        for victim in victims:
            victim.kill()
        pace(began + elapsed_s + DEAD_S)
        for victim in victims:
            victim.restart()
        pace(began + turn * EVERY_S)
    rest(sides)
    after = sides.each(witnesses_mb)
    return [growth(f"memory after {trial.churn_s / 60:.0f} minutes of churn ({turn} deaths)", before, after)]


def mortals(cluster: Cluster) -> list[Member]:
    return cluster.clients[len(cluster.clients) // 2 :]


def witnesses_mb(cluster: Cluster) -> float:
    dying = mortals(cluster)
    return mean(resident_mb(member.pid) for member in cluster.members if member not in dying)


def rest(sides: Sides) -> None:
    for side in sides:
        side.wait_for_one_view()
    time.sleep(REST_S)


def growth(name: str, before: tuple[float, float], after: tuple[float, float]) -> Figure:
    grown, consul_grown = (late / early for late, early in zip(after, before, strict=True))
    return Figure(
        name,
        megabytes(after[0]),
        megabytes(after[1]),
        grown,
        f"at most {GROWTH_MAX} × itself: {grown:.3f} ×, Consul {consul_grown:.3f} ×",
        grown <= GROWTH_MAX,
    )
