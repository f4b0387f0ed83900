"""Checks that flip while every agent is asked about them, by blocking queries: when did each show it?

Every agent has twenty services, shared by all agents or its own, and every agent is asked for all instances
of those whose checks flip. They flip one after the other, at a steady pace, and none flips again before all
have seen the last time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median
from typing import NamedTuple

from tests.bench.blocking_queries import BlockingQueries
from tests.bench.tools import LoadFailed
from tests.system.clusters import Cluster, Member, sweeping

SERVICES = 20
FLIPS_PER_SECOND = 5
AGAIN_S_MIN = 8.0  # between two flips of one check
LATE_S_MAX = 10.0  # after the last flip, who has not seen it by then never did
SETTLED_S_MAX = 60.0
PASSING = "/v1/health/state/passing"
STATUS = b'"Status":"'


class Check(NamedTuple):
    owner: Member
    service: str

    @property
    def instance(self) -> str:
        return f"{self.service}-of-{self.owner.name}"


@dataclass(slots=True)
class Flip:
    check: Check
    left_s: float
    is_failing: bool
    waiting: dict[Member, None]
    seen_after_s: list[float] = field(default_factory=list)

    def is_shown_in(self, body: bytes) -> bool:
        """Without a look at the forty other instances: a check's id comes before its status."""
        row = body.find(f'"CheckID":"service:{self.check.instance}"'.encode())
        status = body.find(STATUS, row) + len(STATUS)
        return body.startswith(b"critical" if self.is_failing else b"passing", status)

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


def checks_of(cluster: Cluster, *, are_shared: bool) -> list[Check]:
    """Shared services have as many instances as there are agents, the others one."""
    return [
        Check(member, f"svc-{number:02}" if are_shared else f"svc-{number:02}-{member.name}")
        for number in range(SERVICES)
        for member in cluster.members
    ]


def register_everywhere(cluster: Cluster, queries: BlockingQueries, checks: Sequence[Check]) -> None:
    """One at each agent at a time; everybody has heard of all of them in the end."""
    for first in range(0, len(checks), len(cluster.members)):
        for check in checks[first : first + len(cluster.members)]:
            body = json.dumps(definition(check)).encode()
            queries.put(check.owner, "/v1/agent/service/register", body)
        if not queries.run_until(time.monotonic() + SETTLED_S_MAX, lambda: not queries.unanswered):
            raise LoadFailed(f"{cluster.program.name} left registrations unanswered")
    pending = list(cluster.members)

    def all_list_all() -> bool:
        while pending and pending[-1].ask(PASSING).count(b'"CheckID":"service:') == len(checks):
            pending.pop()
        return not pending

    if not sweeping(all_list_all, within_s=SETTLED_S_MAX):
        raise LoadFailed(f"{cluster.program.name}: {pending[-1].name} does not list what was registered")


def definition(check: Check) -> dict[str, object]:
    return {
        "Name": check.service,
        "ID": check.instance,
        "Port": 8000,
        "Tags": ["bench", "v1"],
        "Check": {"TTL": "1h", "Status": "passing"},
    }


class WatchedChecks:
    """Some of them, and blocking queries of every agent for their services."""

    def __init__(
        self, cluster: Cluster, queries: BlockingQueries, checks: Sequence[Check], random: Random
    ) -> None:
        self._cluster = cluster
        self._queries = queries
        self._checks = random.sample(checks, int(AGAIN_S_MIN * FLIPS_PER_SECOND))
        self._pending: dict[str, list[Flip]] = {check.service: [] for check in self._checks}
        self._failing: dict[Check, bool] = {}
        self._turn = self._answers = 0
        for service in self._pending:
            for member in cluster.members:
                self._watch(member, service)
        wanted = len(self._pending) * len(cluster.members)
        if not queries.run_until(time.monotonic() + SETTLED_S_MAX, lambda: self._answers >= wanted):
            raise LoadFailed(f"{cluster.program.name} left queries unanswered")

    def _watch(self, member: Member, service: str) -> None:
        flips = self._pending[service]

        def seen(body: bytes, heard_s: float) -> None:
            self._answers += 1
            for flip in flips:
                if flip.is_shown_in(body):
                    flip.see(member, heard_s)

        self._queries.watch(member, f"/v1/health/service/{service}", seen)

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
        check = self._checks[self._turn % len(self._checks)]
        self._turn += 1
        is_failing = self._failing[check] = not self._failing.get(check, False)
        flip = Flip(check, time.monotonic(), is_failing, dict.fromkeys(self._cluster.members))
        pending = self._pending[check.service]
        pending[:] = [each for each in pending if each.waiting and each.check != check] + [flip]
        verb = "fail" if is_failing else "pass"
        self._queries.put(check.owner, f"/v1/agent/check/{verb}/service:{check.instance}")
        return flip

    def _freshness(self, flips: list[Flip], now_s: float) -> Freshness:
        unseen = sum(len(flip.waiting) for flip in flips)
        for flip in flips:
            flip.seen_after_s += [now_s - flip.left_s] * len(flip.waiting)
        by_each_s = sorted(after_s for flip in flips for after_s in flip.seen_after_s)
        return Freshness(by_each_s, sorted(max(flip.seen_after_s) for flip in flips), unseen)
