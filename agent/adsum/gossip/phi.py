"""Surprise about a member, in three parts, each at a broken expectation and never at bare silence.

- challenge: a probe is out and none of its legs has answered;
- schedule: its counter of life is older than nearly any other's;
- accusation: a suspicion is open and its refutation is overdue.

Phi is -log10 of how likely that is while the member lives: 3 is one in a thousand. It changes no state. It
is shown, travels with accusations, and through its estimators moves deadlines (`rtt`, adaptive mode),
vetoes and witnesses (`beats`). The challenge has a floor for what all legs have in common, the target
paused or we ourselves in trouble: however many legs failed, one observer's cycle is not worth more than
about 3."""

from __future__ import annotations

import math
from collections.abc import Iterable

from adsum.gossip.histogram import Histogram
from adsum.now import HOUR, SECOND

COMMON_PRIOR = 1_000.0
REFUTATION_PRIOR_S = 1.1  # the median of there and back at a thousand members, by simulation
REFUTATION_PRIOR_WEIGHT = 50
ADAPTIVE_SAMPLES_MIN = 1_000
ADAPTIVE_MARGIN = 1.5
LOWERED_SHARE_MAX = 0.1  # an hour
PHI_MAX = 16.0
LONGEST_KEPT = 64


class Phi:
    def __init__(self) -> None:
        self.cycles = 0
        self.cycles_refuted = 0  # failed, and then the target refuted: what all legs have in common
        self.latencies_s = Histogram(0.05, 3_600.0, 24 * HOUR)
        self._longest: list[tuple[int, float]] = []  # falling latencies of the last 24 h, the longest first
        self._timeout_s = 0.0
        self._timeout_at_ns = 0

    def challenge(self, unanswered: Iterable[float], health_score: int) -> float:
        floor = (self.cycles_refuted + 1) / (self.cycles + COMMON_PRIOR) * 2.0**health_score
        floor = min(1.0, floor)
        return -math.log10(floor + (1 - floor) * math.prod(unanswered))

    def accusation(self, waited_ns: int) -> float:
        """Until there are samples, refutations are taken to fall off exponentially around the prior's
        median."""
        waited_s = max(0.0, waited_ns / SECOND)
        prior = 0.5 ** (waited_s / REFUTATION_PRIOR_S)
        count = self.latencies_s.count
        seen = self.latencies_s.survival(waited_s) if count and waited_s else 1.0
        share = count / (count + REFUTATION_PRIOR_WEIGHT)
        return min(PHI_MAX, -math.log10(max(1e-16, share * seen + (1 - share) * prior)))

    def refuted(self, now_ns: int, latency_ns: int) -> None:
        latency_s = latency_ns / SECOND
        self.latencies_s.add(now_ns, latency_s)
        self._longest = [(at, held) for at, held in self._longest if held > latency_s]
        if len(self._longest) < LONGEST_KEPT:
            self._longest.append((now_ns, latency_s))

    def adaptive_min_ns(self, now_ns: int, floor_ns: int, classic_ns: int) -> int:
        """How long the pauses seen so far ask to wait: T_min is exactly the pause that is tolerated.

        Raised at once, lowered by a tenth an hour at most: a quiet day is no promise.
        """
        if self.latencies_s.count < ADAPTIVE_SAMPLES_MIN:
            return classic_ns
        day_ago_ns = now_ns - 24 * HOUR
        self._longest = [(at, held) for at, held in self._longest if at > day_ago_ns]
        longest_s = self._longest[0][1] if self._longest else 0.0
        wanted_s = max(ADAPTIVE_MARGIN * self.latencies_s.quantile(0.99), longest_s, floor_ns / SECOND)
        held_s = self._timeout_s or classic_ns / SECOND
        hours = (now_ns - self._timeout_at_ns) / HOUR if self._timeout_at_ns else 0.0
        self._timeout_s = max(wanted_s, held_s * (1 - LOWERED_SHARE_MAX) ** min(hours, 24 * 365))
        self._timeout_at_ns = now_ns
        return min(classic_ns, int(self._timeout_s * SECOND))


def push_time_s(members: int) -> float:
    """How long news takes to reach nearly everybody, at three peers each 0.2 s."""
    members = max(2, members)
    return (math.log(members, 4) + math.log(members) / 3) * 0.2


def floor_ns(members: int, interval_ns: int) -> int:
    return max(3 * interval_ns, int(2 * push_time_s(members) * SECOND) + interval_ns)
