"""What an agent costs that does nothing but belong to a cluster of fifteen."""

from __future__ import annotations

import re
import time
from pathlib import Path
from statistics import mean

from tests.bench.figure import Figure, at_most, informs, megabytes
from tests.bench.sides import Sides, Trial
from tests.bench.tools import cpu_s, found, resident_mb
from tests.system.clusters import Cluster, Member

# After a start both have work that is not idleness: elections, anti-entropy, garbage.
REST_S = 30.0
WATCHED_S = 60.0
PROPORTIONAL = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)


def idleness(sides: Sides, trial: Trial) -> list[Figure]:
    time.sleep(REST_S)
    before, started = sides.each(processor_s), time.monotonic()
    time.sleep(WATCHED_S)
    elapsed_s = time.monotonic() - started
    after = sides.each(processor_s)
    mine, theirs = ((late - early) / elapsed_s for late, early in zip(after, before, strict=True))
    return [
        at_most("processor time of an idle agent", mine, theirs, 1.5, per_mille),
        at_most("memory of an idle agent, resident", *sides.each(resident), 1.0, megabytes),
        informs("  proportional to what is shared", *sides.each(proportional), megabytes),
        informs(
            "  of the server, resident", *sides.each(lambda side: resident_mb(side.members[0].pid)), megabytes
        ),
    ]


def processor_s(cluster: Cluster) -> float:
    return mean(cpu_s(member.pid) for member in cluster.members)


def resident(cluster: Cluster) -> float:
    return mean(resident_mb(member.pid) for member in cluster.members)


def proportional(cluster: Cluster) -> float:
    return mean(proportional_mb(member) for member in cluster.members)


def proportional_mb(member: Member) -> float:
    return float(found(PROPORTIONAL, Path(f"/proc/{member.pid}/smaps_rollup").read_text())) / 1024


def per_mille(value: float) -> str:
    return f"{value * 1000:.1f} ms/s"
