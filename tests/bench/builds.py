"""This build beside another one of ours, so that a change that makes nothing faster makes nothing slower.

    python -m tests.bench.builds FOLDER [WORD …]    a checkout whose `make environment` was run

    start        from the start of the process to its first answers
    throughput   DNS and health reads of one agent with services; agents and load have a core each
    idle         processor time of an agent that does nothing
    consensus    64 proposers of 300-byte entries on three servers
    membership   clusters of fifteen: `kill -9` known to every survivor, and what an idle member costs
    flips        clusters of fifteen, five flips a second: seen by all, and what that costs an agent
    bursts       the same, all 300 checks at once

But for `consensus` the agents are no servers, as most are: a build from before there were servers has no
other, and what a server costs is measured beside Consul's.

Both run at once and are measured in turns, the other one first in every other round. What is printed is the
median of the rounds' ratios, and between which two ratios half of them lie: a machine that others use shows
in the interval.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from statistics import mean, median, quantiles
from typing import NamedTuple, TypeVar

from tests.bench.blocking_queries import blocking_queries
from tests.bench.bursts import burst
from tests.bench.figure import milliseconds, per_second
from tests.bench.flips import SERVICES, Freshness, WatchedChecks, checks_of, register_everywhere
from tests.bench.membership import AGENTS, both
from tests.bench.proposers import Proposers
from tests.bench.raft import PROPOSERS, WARM_UP_S, proposed
from tests.bench.raft_members import members
from tests.bench.side_by_side import MEASURES, REST_S, register_services
from tests.bench.start import one_start_ms, ran_until_http_ms
from tests.bench.tools import missing_tools, ran_ns, resident_mb
from tests.bench.verdicts import crash
from tests.bench.watchers import longest_lag_s
from tests.system.agents import Agent, Program, adsum_program, build_in, running
from tests.system.clusters import Cluster

ROUNDS = 11
ROUND_S = 3.0
IDLE_S = 10.0
THREADS_END_S = 15.0  # those of the start, with what they ran
FLIPPING_S = 6.0
WORSE_MAX = 0.05
FLIPS_COST_MAX = 0.2
GOSSIP_SENT = re.compile(r'^adsum_gossip_bytes_total\{direction="out"[^}]*\} ([\d.eE+]+)$', re.MULTILINE)

T = TypeVar("T")


class Measured(NamedTuple):
    name: str
    ratios: list[float]  # of this build to the other
    is_better_high: bool
    worse_max: float = WORSE_MAX
    told: str = ""

    def line(self) -> str:
        low, middle, high = quantiles(self.ratios, n=4)
        is_kept = middle >= 1 - self.worse_max if self.is_better_high else middle <= 1 + self.worse_max
        verdict = "PASS" if is_kept else "FALLS SHORT"
        return f"{self.name:<44} {middle:>6.3f} ×   half within {low:.3f} … {high:.3f}   {verdict}{self.told}"


def main(folder: str, words: list[str]) -> int:
    other = build_in(folder)
    if missing := missing_tools():
        print(f"Skipped: {'; '.join(missing)}")
        return 0
    measurements = {
        "start": starts,
        "throughput": throughput,
        "idle": idle,
        "consensus": lambda _ours, _other: consensus(Path(folder).resolve()),
        "membership": membership,
        "flips": flips,
        "bursts": bursts,
    }
    for name, measure in measurements.items():
        if not words or name in words:
            for measured in measure(adsum_program(), other):
                print(measured.line(), flush=True)
    print(f"Ratios of this build to {folder}, {ROUNDS} rounds each.")
    return 0


def starts(ours: Program, other: Program) -> list[Measured]:
    measures = {
        "start to first DNS answer": partial(one_start_ms, is_server=False),
        "processor time to first HTTP answer": partial(ran_until_http_ms, is_server=False),
    }
    found = []
    for name, measure in measures.items():
        for program in (ours, other):
            measure(program)
        ratios = rounds(lambda which: measure((ours, other)[which]))  # noqa: B023
        found.append(Measured(name, ratios, is_better_high=False))
    return found


def throughput(ours: Program, other: Program) -> list[Measured]:
    with client(ours) as mine, client(other) as theirs:
        pair = (mine, theirs)
        for agent in pair:
            register_services(agent)
            pin(agent)
        time.sleep(REST_S)
        found = []
        for name, measure in MEASURES.items():
            for agent in pair:
                measure(agent, ROUND_S)
            found.append(Measured(name, rounds(lambda which: measure(pair[which], ROUND_S)), True))  # noqa: B023
        memory = [resident_mb(mine.pid) / resident_mb(theirs.pid)] * ROUNDS
    return [*found, Measured("memory after that load", memory, is_better_high=False)]


@contextmanager
def client(program: Program) -> Iterator[Agent]:
    with (
        tempfile.TemporaryDirectory(prefix="build-") as folder,
        running(program, {"data_dir": folder}, ()) as agent,
    ):
        yield agent


def pin(agent: Agent) -> None:
    """To one core, and the load to the others: where the scheduler puts them moves DNS by half."""
    first, *others = sorted(os.sched_getaffinity(agent.pid))
    if others:
        for task in os.listdir(f"/proc/{agent.pid}/task"):
            os.sched_setaffinity(int(task), {first})
        os.sched_setaffinity(0, others)


def idle(ours: Program, other: Program) -> list[Measured]:
    """Both at once: what a busy machine adds, it adds to both."""
    with client(ours) as mine, client(other) as theirs:
        for agent in (mine, theirs):
            register_services(agent)
        time.sleep(REST_S)
        ratios = []
        for _ in range(ROUNDS):
            before = ran_ns(mine.pid), ran_ns(theirs.pid)
            time.sleep(IDLE_S)
            ratios.append((ran_ns(mine.pid) - before[0]) / (ran_ns(theirs.pid) - before[1]))
    return [Measured("processor time of an idle agent", ratios, is_better_high=False)]


def consensus(other: Path) -> list[Measured]:
    """All six at once; those that are not measured have nothing to do but heartbeats."""
    with members(None) as mine, members(None, tree=other) as theirs:
        sides = ((mine, Proposers(PROPOSERS)), (theirs, Proposers(PROPOSERS)))
        for side in sides:
            proposed(*side, WARM_UP_S)
        pairs = in_turns(lambda which: proposed(*sides[which], ROUND_S))
    return [
        Measured("committed entries", [one.per_second / two.per_second for one, two in pairs], True),
        Measured("    median of an entry", [one.p50_s / two.p50_s for one, two in pairs], False),
        Measured("    p99 of an entry", [one.p99_s / two.p99_s for one, two in pairs], False),
    ]


def membership(ours: Program, other: Program) -> list[Measured]:
    random = Random(1)
    with both(ours, other) as sides:
        everyone = (sides[0].clients, sides[1].clients)
        time.sleep(THREADS_END_S)
        idle_ratios = []
        for _ in range(ROUNDS):
            before = [[ran_ns(member.pid) for member in cluster] for cluster in everyone]
            time.sleep(IDLE_S)
            mine, theirs = (
                mean(ran_ns(member.pid) - ran for member, ran in zip(cluster, earlier, strict=True))
                for cluster, earlier in zip(everyone, before, strict=True)
            )
            idle_ratios.append(mine / theirs)
        pairs = in_turns(lambda which: crash(sides[which], random.choice(sides[which].clients)))
    return [
        Measured("processor time of an idle member", idle_ratios, is_better_high=False),
        Measured("kill -9 known to every survivor", [one.every_s / two.every_s for one, two in pairs], False),
    ]


class Flipped(NamedTuple):
    freshness: Freshness
    ran_ns: float  # a member, and a second
    gossip_bytes: float


def flips(ours: Program, other: Program) -> list[Measured]:
    with both(ours, other) as sides, blocking_queries() as queries:
        every = [checks_of(cluster, are_shared=False) for cluster in sides]
        for cluster, checks in zip(sides, every, strict=True):
            register_everywhere(cluster, queries, checks)
        watched = [
            WatchedChecks(cluster, queries, checks, Random(1))
            for cluster, checks in zip(sides, every, strict=True)
        ]
        for each in watched:
            each.flip_for(REST_S)
        pairs = in_turns(lambda which: flipped(sides[which], watched[which]))
    return [
        compared(
            "processor time of a member",
            pairs,
            lambda one: one.ran_ns / 1e6,
            "{:.1f} ms/s".format,
            FLIPS_COST_MAX,
        ),
        compared("    gossip it sent", pairs, lambda one: one.gossip_bytes, per_second, FLIPS_COST_MAX),
        compared(
            "    flip seen by all, p50", pairs, lambda one: one.freshness.by_all(0.5) * 1000, milliseconds
        ),
        compared(
            "    flip seen by all, worst", pairs, lambda one: one.freshness.by_all(1) * 1000, milliseconds
        ),
    ]


def flipped(cluster: Cluster, checks: WatchedChecks) -> Flipped:
    """Asking for counters costs a member time, so they are asked for before and after its time is read."""
    sent = sum(gossip_bytes(member.agent) for member in cluster.members)
    ran = sum(ran_ns(member.pid) for member in cluster.members)
    began_s = time.monotonic()
    freshness = checks.flip_for(FLIPPING_S)
    seconds = (time.monotonic() - began_s) * len(cluster.members)
    ran = sum(ran_ns(member.pid) for member in cluster.members) - ran
    sent = sum(gossip_bytes(member.agent) for member in cluster.members) - sent
    return Flipped(freshness, ran / seconds, sent / seconds)


def gossip_bytes(agent: Agent) -> float:
    return sum(float(value) for value in GOSSIP_SENT.findall(agent.call("GET", "/metrics")[1].decode()))


def bursts(ours: Program, other: Program) -> list[Measured]:
    with both(ours, other) as sides, blocking_queries() as queries:
        every = [checks_of(cluster, are_shared=False) for cluster in sides]
        for cluster, checks in zip(sides, every, strict=True):
            register_everywhere(cluster, queries, checks)
        time.sleep(REST_S)
        pairs = in_turns(lambda which: burst(sides[which], queries, every[which]))
        lags_ms = [max(longest_lag_s(member.agent) for member in cluster.members) * 1000 for cluster in sides]
    return [
        compared(
            f"{SERVICES * AGENTS} flips at once known to all",
            pairs,
            lambda one: one.known_s * 1000,
            milliseconds,
        ),
        compared(
            "    processor time of a member",
            pairs,
            lambda one: one.ran_ns / 1e6,
            milliseconds,
            FLIPS_COST_MAX,
        ),
        compared(
            "    loop held at most", [(lags_ms[0], lags_ms[1])] * ROUNDS, lambda lag_ms: lag_ms, milliseconds
        ),
    ]


def compared(
    name: str,
    pairs: list[tuple[T, T]],
    value: Callable[[T], float],
    unit: Callable[[float], str],
    worse_max: float = WORSE_MAX,
) -> Measured:
    """Less is better."""
    mine, theirs = ([value(pair[which]) for pair in pairs] for which in (0, 1))
    ratios = [one / two for one, two in zip(mine, theirs, strict=True)]
    told = f"   {unit(median(mine))} beside {unit(median(theirs))}"
    return Measured(name, ratios, is_better_high=False, worse_max=worse_max, told=told)


def rounds(measure: Callable[[int], float]) -> list[float]:
    return [mine / theirs for mine, theirs in in_turns(measure)]


def in_turns(measure: Callable[[int], T]) -> list[tuple[T, T]]:
    pairs = []
    for number in range(ROUNDS):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        found = {which: measure(which) for which in order}
        pairs.append((found[0], found[1]))
    return pairs


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
