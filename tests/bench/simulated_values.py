"""One simulated measurement, printed as JSON: what `tests.bench.simulated` runs for each of two builds."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable

from adsum.now import SECOND
from adsum.testing import simulate, simulate_catalog, simulate_strain
from adsum.testing.simulate_catalog import CatalogPlan
from adsum.testing.simulate_figures import Plan
from adsum.testing.simulate_strain import Strain, StrainPlan

Values = dict[str, float]


def updates(nodes: int, duration_ns: int) -> Values:
    figures = simulate.simulate(Plan(nodes, duration_ns=duration_ns))
    return {
        "99 of 100, mean": figures.update_99.mean_s,
        "99 of 100, worst": figures.update_99.max_s,
        "all, mean": figures.update_all.mean_s,
        "all, worst": figures.update_all.max_s,
        "late": figures.updates_late,
        "messages a second": figures.messages_per_s.mean,
        "bytes a second": figures.bytes_per_s.mean,
        "false verdicts": figures.false_verdicts,
    }


def catalog(nodes: int) -> Values:
    figures = simulate_catalog.simulate(CatalogPlan(nodes, duration_ns=30 * SECOND))
    return {
        "p50": figures.p50_s,
        "p99": figures.p99_s,
        "worst": figures.max_s,
        "never shown": figures.unseen,
        "gossip bytes a second": figures.gossip_bytes_per_s,
        "exchange bytes a second": figures.call_bytes_per_s,
    }


def strain(strain: Strain, nodes: int) -> Values:
    figures = simulate_strain.simulate(StrainPlan(strain, nodes))
    ages = {"p50": figures.p50_s, "p99": figures.p99_s, "worst": figures.max_s}
    after_s = figures.equal_after_s
    return {
        **(ages if strain is not Strain.JOINS else {}),
        "all equal after": after_s if after_s is not None else float("inf"),
        "gossip bytes a second": figures.bytes_per_s,
        "exchange bytes a second": figures.call_bytes_per_s,
        "messages a second": figures.datagrams_per_s,
        "most datagrams of one in a second": figures.second_datagrams,
        "most bytes of one in a second": figures.second_bytes,
        "dropped from full queues": figures.queue_drops,
    }


MEASUREMENTS: dict[str, Callable[[int], Values]] = {
    "updates of 1000": lambda nodes: updates(nodes, 120 * SECOND),
    "updates of 3000": lambda nodes: updates(3 * nodes, 42 * SECOND),
    "catalog": catalog,
    "strain flips": lambda nodes: strain(Strain.FLIPS, nodes),
    "strain joins": lambda nodes: strain(Strain.JOINS, nodes),
    "strain loss": lambda nodes: strain(Strain.LOSS, nodes),
}


def main(name: str, nodes: int) -> None:
    print(json.dumps(MEASUREMENTS[name](nodes)))
    sys.stdout.flush()
    os._exit(0)  # to free a million members takes minutes
