"""All checks of a cluster at once, as when a rack or what they all depend on goes and returns."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.bench.blocking_queries import BlockingQueries
from tests.bench.flips import Check
from tests.bench.tools import LoadFailed, ran_ns
from tests.system.clusters import Cluster, Member

CRITICAL = "/v1/health/state/critical"
KNOWN_S_MAX = 30.0


class Burst(NamedTuple):
    known_s: float  # from the first request until all list all
    ran_ns: float  # a member


def burst(cluster: Cluster, queries: BlockingQueries, checks: Sequence[Check]) -> Burst:
    """There and back, and the slower of the two counts."""
    before = sum(ran_ns(member.pid) for member in cluster.members)
    known_s = max(turned(cluster, queries, checks, verb) for verb in ("fail", "pass"))
    ran = sum(ran_ns(member.pid) for member in cluster.members) - before
    return Burst(known_s, ran / len(cluster.members))


def turned(cluster: Cluster, queries: BlockingQueries, checks: Sequence[Check], verb: str) -> float:
    wanted = len(checks) if verb == "fail" else 0
    asked: dict[Member, None] = {}
    knows_s: dict[Member, float] = {}

    def watch(member: Member) -> Callable[[], None]:
        def seen(body: bytes, heard_s: float) -> None:
            asked[member] = None
            if body.count(b'"CheckID"') == wanted:
                knows_s.setdefault(member, heard_s)

        return queries.watch(member, CRITICAL, seen)

    ends = [watch(member) for member in cluster.members]
    everybody = len(cluster.members)
    queries.run_until(time.monotonic() + KNOWN_S_MAX, lambda: len(asked) == everybody)
    left_s = time.monotonic()
    for check in checks:
        queries.put(check.owner, f"/v1/agent/check/{verb}/service:{check.instance}")
    if not queries.run_until(left_s + KNOWN_S_MAX, lambda: len(knows_s) == everybody):
        raise LoadFailed(f"{cluster.program.name}: not all know of a burst after {KNOWN_S_MAX:.0f} s")
    for end in ends:
        end()
    return max(knows_s.values()) - left_s
