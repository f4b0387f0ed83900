"""Checks that flip while every agent is asked about them, by blocking queries: when did each show it?

Every agent has twenty services, and a few of each are watched on all agents. Watched checks flip one after
the other, at a steady pace, so that none flips again before all have seen the last time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median

from tests.bench.blocking_queries import BlockingQueries
from tests.bench.tools import LoadFailed
from tests.system.clusters import Cluster, Member, sweeping

SERVICES = 20
FLIPS_PER_SECOND = 5
AGAIN_S_MIN = 8.0  # between two flips of one check
LATE_S_MAX = 10.0  # after the last flip, who has not seen it by then never did
SETTLED_S_MAX = 60.0


@dataclass(slots=True)
class Flip:
    left_s: float
    is_failing: bool
    waiting: dict[Member, None]
    seen_after_s: list[float] = field(default_factory=list)

    def see(self, member: Member, heard_s: float) -> None:
        if member in self.waiting:
            del self.waiting[member]
            self.seen_after_s.append(heard_s - self.left_s)


@dataclass(frozen=True, slots=True)
class Freshness:
    """In seconds from the request that flips; who never saw it counts with all the time there was."""

    by_each_s: Sequence[float]
    by_all_s: Sequence[float]
    unseen: int

    def by_all(self, share: float) -> float:
        return at(self.by_all_s, share)

    def by_each(self, share: float) -> float:
        return at(self.by_each_s, share)


def at(ordered: Sequence[float], share: float) -> float:
    return median(ordered) if share == 0.5 else ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def register_everywhere(cluster: Cluster, queries: BlockingQueries) -> None:
    """Twenty services at each, one at each at a time, which everybody has heard of in the end."""
    for number in range(SERVICES):
        for member in cluster.members:
            body = json.dumps(definition(member, number)).encode()
            queries.put(member, "/v1/agent/service/register", body)
        if not queries.run_until(time.monotonic() + SETTLED_S_MAX, lambda: not queries.unanswered):
            raise LoadFailed(f"{cluster.program.name} left registrations unanswered")
    names = {name_of(member, number) for member in cluster.members for number in range(SERVICES)}
    pending = list(cluster.members)

    def all_list_all() -> bool:
        while pending and names <= json.loads(pending[-1].ask("/v1/catalog/services") or b"{}").keys():
            pending.pop()
        return not pending

    if not sweeping(all_list_all, within_s=SETTLED_S_MAX):
        raise LoadFailed(f"{cluster.program.name}: {pending[-1].name} does not list what was registered")


def name_of(member: Member, number: int) -> str:
    return f"{member.name}-{number:02}"


def definition(member: Member, number: int) -> dict[str, object]:
    return {
        "Name": name_of(member, number),
        "Port": 8000 + number,
        "Tags": ["bench", "v1"],
        "Check": {"TTL": "1h", "Status": "passing"},
    }


class WatchedChecks:
    """Blocking queries of every agent for some services of every agent."""

    def __init__(self, cluster: Cluster, queries: BlockingQueries, random: Random) -> None:
        self._cluster = cluster
        self._queries = queries
        each = -(-int(AGAIN_S_MIN * FLIPS_PER_SECOND) // len(cluster.members))
        self._checks = [(member, number) for member in cluster.members for number in range(each)]
        random.shuffle(self._checks)
        self._last: dict[tuple[Member, int], Flip] = {}
        self._turn = self._answers = 0
        for check in self._checks:
            for member in cluster.members:
                self._watch(member, check)
        wanted = len(self._checks) * len(cluster.members)
        if not queries.run_until(time.monotonic() + SETTLED_S_MAX, lambda: self._answers >= wanted):
            raise LoadFailed(f"{cluster.program.name} left queries unanswered")

    def _watch(self, member: Member, check: tuple[Member, int]) -> None:
        def seen(body: bytes, heard_s: float) -> None:
            self._answers += 1
            flip = self._last.get(check)
            if flip is not None and flip.is_failing is (b'"critical"' in body):
                flip.see(member, heard_s)

        self._queries.watch(member, f"/v1/health/service/{name_of(*check)}", seen)

    def flip_for(self, duration_s: float) -> Freshness:
        flips: list[Flip] = []
        began_s = time.monotonic()
        for number in range(int(duration_s * FLIPS_PER_SECOND)):
            self._queries.run_until(began_s + number / FLIPS_PER_SECOND)
            flips.append(self._flip())
        end_s = began_s + duration_s
        self._queries.run_until(end_s)
        self._queries.run_until(end_s + LATE_S_MAX, lambda: not any(flip.waiting for flip in flips))
        return self._freshness(flips, time.monotonic())

    def _flip(self) -> Flip:
        rounds, which = divmod(self._turn, len(self._checks))
        self._turn += 1
        check = self._checks[which]
        owner, number = check
        flip = Flip(time.monotonic(), rounds % 2 == 0, dict.fromkeys(self._cluster.members))
        self._last[check] = flip
        verb = "fail" if flip.is_failing else "pass"
        self._queries.put(owner, f"/v1/agent/check/{verb}/service:{name_of(owner, number)}")
        return flip

    def _freshness(self, flips: list[Flip], now_s: float) -> Freshness:
        unseen = sum(len(flip.waiting) for flip in flips)
        for flip in flips:
            flip.seen_after_s += [now_s - flip.left_s] * len(flip.waiting)
        by_each_s = sorted(after_s for flip in flips for after_s in flip.seen_after_s)
        return Freshness(by_each_s, sorted(max(flip.seen_after_s) for flip in flips), unseen)
