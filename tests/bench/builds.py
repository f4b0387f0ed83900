"""This build beside another one of ours, so that a change that makes nothing faster makes nothing slower.

    python -m tests.bench.builds FOLDER [WORD …]    a checkout whose `make environment` was run

Both run at once, one agent each with the same services, and are measured in turns, the other one first in
every other round. What is told is the median of the rounds' ratios, and between which two ratios half of them
lie: a machine that others use shows in the interval. For throughput, agents and load have a core each.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

from tests.bench.side_by_side import MEASURES, REST_S, register_services
from tests.bench.start import one_start_ms, ran_until_http_ms
from tests.bench.tools import missing_tools, ran_ns, resident_mb
from tests.system.agents import Agent, Program, adsum_program, running

ROUNDS = 11
ROUND_S = 3.0
IDLE_S = 10.0
WORSE_MAX = 0.05


class Measured(NamedTuple):
    name: str
    ratios: list[float]  # of this build to the other
    is_better_high: bool

    def line(self) -> str:
        low, middle, high = quantiles(self.ratios, n=4)
        is_kept = middle >= 1 - WORSE_MAX if self.is_better_high else middle <= 1 + WORSE_MAX
        verdict = "PASS" if is_kept else "FALLS SHORT"
        return f"{self.name:<44} {middle:>6.3f} ×   half within {low:.3f} … {high:.3f}   {verdict}"


def main(folder: str, words: list[str]) -> int:
    other = Program("other", (str(Path(folder) / ".venv" / "bin" / "adsum"),))
    if missing := missing_tools():
        print(f"Skipped: {'; '.join(missing)}")
        return 0
    for name, measure in (("start", starts), ("throughput", throughput), ("idle", idle)):
        if not words or name in words:
            for measured in measure(adsum_program(), other):
                print(measured.line(), flush=True)
    print(f"Ratios of this build to {folder}, {ROUNDS} rounds each.")
    return 0


def starts(ours: Program, other: Program) -> list[Measured]:
    measures = {
        "start to first DNS answer": one_start_ms,
        "processor time to first HTTP answer": ran_until_http_ms,
    }
    found = []
    for name, measure in measures.items():
        for program in (ours, other):
            measure(program)
        ratios = rounds(lambda which: measure((ours, other)[which]))  # noqa: B023
        found.append(Measured(name, ratios, is_better_high=False))
    return found


def throughput(ours: Program, other: Program) -> list[Measured]:
    with running(ours) as mine, running(other) as theirs:
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


def pin(agent: Agent) -> None:
    """To one core, and the load to the others: where the scheduler puts them moves DNS by half."""
    first, *others = sorted(os.sched_getaffinity(agent.pid))
    if others:
        for task in os.listdir(f"/proc/{agent.pid}/task"):
            os.sched_setaffinity(int(task), {first})
        os.sched_setaffinity(0, others)


def idle(ours: Program, other: Program) -> list[Measured]:
    """Both at once: what a busy machine adds, it adds to both."""
    with running(ours) as mine, running(other) as theirs:
        for agent in (mine, theirs):
            register_services(agent)
        time.sleep(REST_S)
        ratios = []
        for _ in range(ROUNDS):
            before = ran_ns(mine.pid), ran_ns(theirs.pid)
            time.sleep(IDLE_S)
            ratios.append((ran_ns(mine.pid) - before[0]) / (ran_ns(theirs.pid) - before[1]))
    return [Measured("processor time of an idle agent", ratios, is_better_high=False)]


def rounds(measure: Callable[[int], float]) -> list[float]:
    ratios = []
    for number in range(ROUNDS):
        order = (0, 1) if number % 2 == 0 else (1, 0)
        found = {which: measure(which) for which in order}
        ratios.append(found[0] / found[1])
    return ratios


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
