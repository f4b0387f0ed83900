"""What a simulation measures, and the figures made of it.

Times are kept one by one until the end, so that runs of several seeds are put together exactly. All figures
are plain numbers: a p95 of few events is only the worst of them, so their count stands beside it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from adsum.gossip.settings import GossipSettings
from adsum.now import MINUTE, SECOND
from adsum.testing.network import Conditions

LAN = GossipSettings()
USUAL = Conditions()


class Scenario(enum.Enum):
    QUIET = "quiet"
    CRASH = "crash"  # the process; its host resets connections
    HOST_LOSS = "host-loss"
    PAUSE = "pause"
    PARTITION = "partition"
    RESTART = "restart"  # announced, and back within seconds
    SLOW_MEMBERS = "slow-members"
    COLD_START = "cold-start"
    ALL_RESTART = "all-restart"  # all killed at once, and started again
    ONE_WAY = "one-way"
    FLIP_FLOP = "flip-flop"


@dataclass(frozen=True, slots=True)
class Plan:
    nodes: int
    scenario: Scenario = Scenario.QUIET
    loss: float = 0.05
    duration_ns: int = 10 * MINUTE
    seed: int = 1
    settings: GossipSettings = LAN
    latency_ns: int = USUAL.latency_ns
    jitter_ns: int = USUAL.jitter_ns


@dataclass(slots=True, eq=False)
class Watch:
    """One thing that everybody who runs should come to know; who goes down meanwhile need not."""

    began_ns: int
    waiting: dict[int, None]
    heard_ns: list[int] = field(default_factory=list)

    def hear(self, time_ns: int, observer: int) -> None:
        if observer in self.waiting:
            del self.waiting[observer]
            self.heard_ns.append(time_ns)

    def after_s(self, unheard: int) -> float | None:
        """Until all but so many knew; None when it never came to that."""
        wanted = len(self.heard_ns) + len(self.waiting) - unheard
        if not 0 < wanted <= len(self.heard_ns):
            return None
        return (self.heard_ns[wanted - 1] - self.began_ns) / SECOND

    @property
    def first_s(self) -> float | None:
        return (self.heard_ns[0] - self.began_ns) / SECOND if self.heard_ns else None

    @property
    def half_s(self) -> float | None:
        return self.after_s((len(self.heard_ns) + len(self.waiting)) // 2)

    @property
    def most_s(self) -> float | None:
        return self.after_s((len(self.heard_ns) + len(self.waiting)) // 100)

    @property
    def all_s(self) -> float | None:
        return self.after_s(0)


@dataclass(slots=True)
class Measured:
    """One run."""

    plan: Plan
    updates: list[Watch] = field(default_factory=list)
    losses: list[Watch] = field(default_factory=list)  # members lost, each a thing to be known
    undetected: int = 0
    false_by_healthy: int = 0
    false_by_slow: int = 0
    one_view_s: float | None = None
    messages_per_s: list[float] = field(default_factory=list)  # by member
    bytes_per_s: list[float] = field(default_factory=list)
    flaps: int = 0
    queue_drops: int = 0
    socket_drops: int = 0
    events: int = 0
    digest: int = 0


@dataclass(frozen=True, slots=True)
class Spread:
    """Of one kind of durations, in seconds; zeros when there were none."""

    count: int
    mean_s: float
    p95_s: float
    max_s: float


@dataclass(frozen=True, slots=True)
class Rate:
    """Of what members send in a second."""

    mean: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True)
class Figures:
    plan: Plan
    seeds: int
    updates: int
    update_99: Spread  # until 99 in 100 members had an update
    update_all: Spread
    updates_late: int  # not with everybody by the end
    losses: int
    verdict_first: Spread
    verdict_half: Spread
    verdict_99: Spread
    verdict_all: Spread
    undetected: int  # lost for long enough, and nobody had noticed
    false_verdicts: int
    false_by_healthy: int  # whose first accuser was in no trouble itself
    false_by_slow: int
    flaps: int  # failed and alive again within a minute, as members saw each other
    one_view_after_s: float | None  # the latest of all seeds; None when views still differed at an end
    messages_per_s: Rate
    bytes_per_s: Rate
    queue_drops: int
    socket_drops: int
    events: int
    digest: int


def figures_of(runs: Sequence[Measured]) -> Figures:
    """Of one run, or of several that differ in their seeds only."""
    updates = [each for run in runs for each in run.updates]
    losses = [each for run in runs for each in run.losses]
    views_s = [run.one_view_s for run in runs if run.one_view_s is not None]
    digest = 0
    for run in runs:
        digest ^= run.digest
    return Figures(
        plan=runs[0].plan,
        seeds=len(runs),
        updates=len(updates),
        update_99=_spread(updates, lambda each: each.most_s),
        update_all=_spread(updates, lambda each: each.all_s),
        updates_late=sum(bool(each.waiting) for each in updates),
        losses=len(losses),
        verdict_first=_spread(losses, lambda each: each.first_s),
        verdict_half=_spread(losses, lambda each: each.half_s),
        verdict_99=_spread(losses, lambda each: each.most_s),
        verdict_all=_spread(losses, lambda each: each.all_s),
        undetected=sum(run.undetected for run in runs),
        false_verdicts=sum(run.false_by_healthy + run.false_by_slow for run in runs),
        false_by_healthy=sum(run.false_by_healthy for run in runs),
        false_by_slow=sum(run.false_by_slow for run in runs),
        flaps=sum(run.flaps for run in runs),
        one_view_after_s=max(views_s) if len(views_s) == len(runs) else None,
        messages_per_s=_rate(each for run in runs for each in run.messages_per_s),
        bytes_per_s=_rate(each for run in runs for each in run.bytes_per_s),
        queue_drops=sum(run.queue_drops for run in runs),
        socket_drops=sum(run.socket_drops for run in runs),
        events=sum(run.events for run in runs),
        digest=digest,
    )


def _spread(watches: list[Watch], time_of: Callable[[Watch], float | None]) -> Spread:
    ordered = sorted(time_s for each in watches if (time_s := time_of(each)) is not None)
    if not ordered:
        return Spread(0, 0.0, 0.0, 0.0)
    return Spread(len(ordered), sum(ordered) / len(ordered), _at(ordered, 0.95), ordered[-1])


def _rate(values: Iterable[float]) -> Rate:
    ordered = sorted(values)
    return Rate(sum(ordered) / len(ordered), _at(ordered, 0.99), ordered[-1])


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
