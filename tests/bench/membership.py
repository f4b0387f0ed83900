"""Fifteen agents of ours beside fifteen of Consul's, all on this machine. Entered by `make bench-membership`.

    python -m tests.bench.membership [WORD …]    only the measurements whose name contains one of the words:
                                                 idle crash pauses cable churn
    --churn-minutes 2 --rounds 3                 for trials; targets are meant for the full run
    --self                                       Consul against itself: how near 1 the ratios are says how far
                                                 to trust them

Each side is one server and fourteen clients with the same configuration keys, no encryption and nothing
registered; both are up together, and rounds alternate between them. What is said of one agent is the mean
over its side. Memory is resident memory (VmRSS), which is what a host with one agent spends; what fifteen
on one machine share makes the proportional figure (Pss) smaller, and that only informs.

The exit status is 1 when a figure falls short of its target.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random

from tests.bench.cable import pulled_cable
from tests.bench.churn import churn
from tests.bench.figure import Figure, heading, summary
from tests.bench.idleness import idleness
from tests.bench.sides import Sides, Trial
from tests.bench.verdicts import crashes, pauses
from tests.system.agents import AgentFailed, Program, adsum_program, consul_program
from tests.system.clusters import gathered, loopbacks

AGENTS = 15

Measurement = Callable[[Sides, Trial], list[Figure]]
TOGETHER: dict[str, Measurement] = {"idle": idleness, "crash": crashes, "pauses": pauses, "churn": churn}


@dataclass(slots=True)
class Report:
    """What was found so far; each figure is printed when it is known, for the whole takes half an hour."""

    figures: list[Figure]
    broken: list[str]

    def measure(self, name: str, measurement: Callable[[], list[Figure]]) -> None:
        try:
            found = measurement()
        except AgentFailed as failure:
            self.broken.append(name)
            print(f"{name}: could not be measured: {failure}", flush=True)
            return
        self.figures += found
        print("\n".join(figure.line() for figure in found), flush=True)


def main() -> int:
    options = parsed()
    consul = consul_program()
    if consul is None:
        print("Skipped: no real Consul to measure beside. Set PEERS, or see ../shared/peers/get.")
        return 0
    ours = Program("again", consul.command) if options.self else adsum_program()
    trial = Trial(options.rounds, options.churn_minutes * 60, Random(options.seed))
    started, report = time.monotonic(), Report([], [])
    print(heading())
    chosen = {name: measurement for name, measurement in TOGETHER.items() if is_chosen(name, options.words)}
    if chosen:
        with both(ours, consul) as sides:
            for name, measurement in chosen.items():
                report.measure(name, partial(measurement, sides, trial))
    if is_chosen("cable", options.words):
        report.measure("cable", partial(pulled_cable, ours, consul, trial))
    print(summary(report.figures, report.broken, time.monotonic() - started))
    return int(bool(report.broken) or any(figure.reached is False for figure in report.figures))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.membership", description="Adsum's roll beside Consul's"
    )
    parser.add_argument("words", nargs="*", help="measurements whose name contains one of these")
    parser.add_argument("--rounds", type=int, default=6, help="of crashes, pauses and pulled cables")
    parser.add_argument("--churn-minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=1, help="decides who is killed and stopped")
    parser.add_argument("--self", action="store_true", help="measure Consul beside itself")
    return parser.parse_args()


def is_chosen(name: str, words: list[str]) -> bool:
    return not words or any(word in name for word in words)


@contextmanager
def both(ours: Program, consul: Program) -> Iterator[Sides]:
    places = loopbacks(2 * AGENTS)
    with gathered(consul, places[AGENTS:]) as theirs, gathered(ours, places[:AGENTS]) as mine:
        for cluster in (mine, theirs):
            cluster.wait_for_one_view()
        yield Sides(mine, theirs)


if __name__ == "__main__":
    sys.exit(main())
