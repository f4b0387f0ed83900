"""How soon a dead agent is known to all who are left, and whether a paused one is wrongly accused.

Everybody is asked for the whole roll, at the same pace on both sides: ours has no other way to be told, so
Consul gets none either.
"""

from __future__ import annotations

import time
from statistics import median
from typing import NamedTuple

from tests.bench.figure import Figure, at_most, informs, seconds
from tests.bench.sides import Sides, Trial
from tests.system.agents import AgentFailed
from tests.system.clusters import Cluster, Member, Status, sweeping

KNOWN_S_MAX = 90.0
PAUSED = 2
PAUSE_S = (2.0, 4.0)
# An accusation from the end of a pause ripens within Consul's shortest suspicion, 4.7 s for 15 members.
AFTERWARDS_S = 8.0
# Accusers are the healthier, and so the faster, the longer nothing happened to them.
REST_S = 3.0


class Crash(NamedTuple):
    first_s: float
    every_s: float
    wrong: int


def crashes(sides: Sides, trial: Trial) -> list[Figure]:
    mine, theirs = sides.alternate(
        trial.rounds, lambda cluster: crash(cluster, trial.random.choice(cluster.clients))
    )
    wrong = sum(one.wrong for one in mine), sum(one.wrong for one in theirs)
    everyone = [one.every_s for one in mine], [one.every_s for one in theirs]
    first = median(one.first_s for one in mine), median(one.first_s for one in theirs)
    return [
        at_most("kill -9 known to every survivor", median(everyone[0]), median(everyone[1]), 0.3, seconds),
        informs("  slowest round", max(everyone[0]), max(everyone[1]), seconds),
        informs("  first survivor to know", *first, seconds),
        none_wrong("  wrong verdicts about the living", *wrong),
    ]


def crash(cluster: Cluster, victim: Member) -> Crash:
    cluster.wait_for_one_view()
    time.sleep(REST_S)
    survivors = [member for member in cluster.members if member is not victim]
    living = {member.name for member in survivors}
    known_s: dict[str, float] = {}
    wrong: set[tuple[str, str]] = set()

    def all_know() -> bool:
        for survivor in survivors:
            if survivor.name in known_s:
                continue
            view = survivor.view()
            wrong.update((survivor.name, name) for name in failed(view) & living)
            if view.get(victim.name) is Status.FAILED:
                known_s[survivor.name] = time.monotonic() - killed
        return len(known_s) == len(survivors)

    killed = time.monotonic()
    victim.kill()
    if not sweeping(all_know, within_s=KNOWN_S_MAX):
        missing = ", ".join(sorted(living - known_s.keys()))
        raise AgentFailed(f"{cluster.program.name}: {missing} never noticed that {victim.name} is dead")
    victim.restart()
    cluster.wait_for_one_view()
    return Crash(min(known_s.values()), max(known_s.values()), len(wrong))


def pauses(sides: Sides, trial: Trial) -> list[Figure]:
    def one(cluster: Cluster) -> int:
        return pause(cluster, {member: trial.random.uniform(*PAUSE_S) for member in two(cluster)})

    def two(cluster: Cluster) -> list[Member]:
        return trial.random.sample(cluster.clients, PAUSED)

    mine, theirs = sides.alternate(trial.rounds, one)
    name = (
        f"wrong verdicts, {trial.rounds} rounds of {PAUSED} stopped for {PAUSE_S[0]:.0f}-{PAUSE_S[1]:.0f} s"
    )
    return [none_wrong(name, sum(mine), sum(theirs))]


def pause(cluster: Cluster, pauses_s: dict[Member, float]) -> int:
    """How many views called how many of the living dead, while they stood still and afterwards."""
    cluster.wait_for_one_view()
    wrong: set[tuple[str, str]] = set()
    started = time.monotonic()
    stopped = dict(pauses_s)
    for member in stopped:
        member.pause()

    def is_over() -> bool:
        elapsed_s = time.monotonic() - started
        for member in [member for member, pause_s in stopped.items() if elapsed_s >= pause_s]:
            member.resume()
            del stopped[member]
        for member in cluster.members:
            if member not in stopped:
                wrong.update((member.name, name) for name in failed(member.view()))
        return elapsed_s > max(pauses_s.values()) + AFTERWARDS_S

    sweeping(is_over, within_s=KNOWN_S_MAX)
    return len(wrong)


def failed(view: dict[str, Status]) -> set[str]:
    return {name for name, status in view.items() if status is Status.FAILED}


def none_wrong(name: str, ours: int, consul: int) -> Figure:
    return Figure(name, str(ours), str(consul), 0.0, "none", ours == 0)
