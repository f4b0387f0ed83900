"""Consensus on this machine's disk, beside etcd in the same run. Entered by `make bench-raft`.

    python -m tests.bench.raft [WORD …] [--rounds 50] [--seconds 3] [--folder DIR]

    throughput   64 proposers of 300-byte entries on three servers, in turns with 64 connections to the HTTP
                 gateway of etcd's leader, which put values of the same size
    leader       `kill -9` of the leader, again and again: how long until the next acknowledged entry
    power        all three killed in mid-write, again and again: do they come back with everything
    proposal     what one proposal costs the loop, core and driver alone
    memory       10,000 writes of 512 KiB: what does each member take, and is that within its bound
    wipe         a follower of three with a million entries loses its disk: what do writers notice

Our proposers share one connection, as the writes that an agent forwards do; etcd's are driven by wrk, which
costs next to nothing. Both clusters are up all the time and idle while the other one is measured. The exit
status is 1 when a figure falls short.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.bench.etcd import Puts, etcd_program, running_etcd
from tests.bench.figure import (
    Figure,
    at_least,
    at_most,
    heading,
    informs,
    limit,
    milliseconds,
    per_second,
    plain,
    summary,
)
from tests.bench.proposers import Closed, Proposers
from tests.bench.raft_members import Members, members
from tests.bench.raft_memory import memory
from tests.bench.raft_proposal import proposal
from tests.bench.raft_wipe import wipe
from tests.bench.tools import LoadFailed, missing_tools

PROPOSERS = 64
THROUGHPUT_ROUNDS = 5
WARM_UP_S = 1.0
CHANGE_PROPOSERS = 4
CHANGE_QUIET_S = 0.3  # of ordinary work between two murders
LEADER_MEDIAN_MS_MAX, LEADER_P95_MS_MAX = 1_500.0, 2_500.0
POWER_S_MIN, POWER_S_MAX = 0.05, 0.3


@dataclass(frozen=True, slots=True)
class Asked:
    rounds: int
    seconds: float
    folder: Path | None


def throughput(asked: Asked) -> list[Figure]:
    program = etcd_program()
    if program is None:
        raise LoadFailed("no etcd to measure beside: set PEERS, or see ../shared/peers/get")
    if missing := missing_tools():
        raise LoadFailed("; ".join(missing))
    with running_etcd(program, asked.folder) as etcd, members(asked.folder) as ours:
        url, proposers = etcd.leader(), Proposers(PROPOSERS)
        measures: list[Callable[[float], Puts]] = [
            lambda seconds: proposed(ours, proposers, seconds),
            lambda seconds: etcd.put(url, PROPOSERS, seconds),
        ]
        for measure in measures:
            measure(WARM_UP_S)
        found: tuple[list[Puts], list[Puts]] = ([], [])
        for number in range(THROUGHPUT_ROUNDS):
            for which in (0, 1) if number % 2 == 0 else (1, 0):
                found[which].append(measures[which](asked.seconds))
        standings = ours.until_equal()
    lost = lost_of(proposers, standings)
    mine, theirs = (medians(rounds) for rounds in found)
    return [
        at_least("committed entries, 64 proposers", mine.per_second, theirs.per_second, 2.5, per_second),
        informs("    median", mine.p50_s * 1e3, theirs.p50_s * 1e3, milliseconds),
        at_most("    p99", mine.p99_s * 1e3, theirs.p99_s * 1e3, 0.5, milliseconds),
        limit("    acknowledged and lost", lost, 0, plain),
    ]


def proposed(ours: Members, proposers: Proposers, seconds: float) -> Puts:
    _number, door = ours.leader()
    proposers.latencies_s = []
    began_s = time.perf_counter()
    count = proposers.run(door, began_s + seconds)
    rate = count / (time.perf_counter() - began_s)
    door.close()
    cuts = statistics.quantiles(proposers.latencies_s, n=100)
    return Puts(rate, cuts[49], cuts[98])


def medians(rounds: list[Puts]) -> Puts:
    return Puts(
        statistics.median(each.per_second for each in rounds),
        statistics.median(each.p50_s for each in rounds),
        statistics.median(each.p99_s for each in rounds),
    )


def leader_change(asked: Asked) -> list[Figure]:
    proposers, times_ms = Proposers(CHANGE_PROPOSERS), list[float]()
    with members(asked.folder) as ours:
        for _ in range(asked.rounds):
            number, door = ours.leader()
            propose(ours, proposers, CHANGE_QUIET_S)
            number, door = ours.leader()
            ours.kill(number)
            door.close()
            began_s = time.perf_counter()
            propose_once(ours, proposers, besides=number)
            times_ms.append((time.perf_counter() - began_s) * 1e3)
            ours.start(number)
            standings = ours.until_equal()
        lost = lost_of(proposers, standings)
    cuts = statistics.quantiles(times_ms, n=20)
    return [
        limit("leader killed: next entry, median", cuts[9], LEADER_MEDIAN_MS_MAX, milliseconds),
        limit("    p95", cuts[18], LEADER_P95_MS_MAX, milliseconds),
        limit("    acknowledged and lost", lost, 0, plain),
    ]


def propose(ours: Members, proposers: Proposers, seconds: float) -> None:
    """For so long, through whoever leads."""
    end_s = time.perf_counter() + seconds
    while (left_s := end_s - time.perf_counter()) > 0:
        _number, door = ours.leader()
        try:
            proposers.run(door, time.perf_counter() + left_s)
        except Closed:
            pass
        finally:
            door.close()


def propose_once(ours: Members, proposers: Proposers, *, besides: int | None = None) -> None:
    """Until one more is acknowledged."""
    while True:
        _number, door = ours.leader(besides=besides)
        try:
            if proposers.run(door, 0.0):
                return
        except Closed:
            pass
        finally:
            door.close()


def power(asked: Asked) -> list[Figure]:
    proposers, random, lost, back_ms = Proposers(PROPOSERS), Random(1), 0, list[float]()
    with members(asked.folder) as ours:
        for _ in range(asked.rounds):
            propose_once(ours, proposers)
            kill_in_mid_write(ours, proposers, random.uniform(POWER_S_MIN, POWER_S_MAX))
            began_s = time.perf_counter()
            ours.start()
            propose_once(ours, proposers)
            back_ms.append((time.perf_counter() - began_s) * 1e3)
            lost = max(lost, lost_of(proposers, ours.until_equal()))
    return [
        limit(f"all three killed in mid-write, {asked.rounds} times: lost", lost, 0, plain),
        informs(
            "    processes started to next entry, median", statistics.median(back_ms), None, milliseconds
        ),
    ]


def kill_in_mid_write(ours: Members, proposers: Proposers, after_s: float) -> None:
    _number, door = ours.leader()
    try:
        proposers.run(door, time.perf_counter() + after_s)
    except Closed:
        pass
    finally:
        ours.kill()  # the last round's entries are on their way
        door.close()


def lost_of(proposers: Proposers, standings: list[dict[str, object]]) -> int:
    """Acknowledged entries that some member does not have, or has skipped."""
    lost = 0
    for standing in standings:
        sequences, gaps = standing["sequences"], standing["gaps"]
        assert isinstance(sequences, dict), "as the member tells it"
        assert isinstance(gaps, int), "as the member tells it"
        lost += gaps
        for proposer, acknowledged in enumerate(proposers.acknowledged):
            lost += max(0, acknowledged - sequences.get(str(proposer), 0))
    return lost


MEASUREMENTS: dict[str, Callable[[Asked], list[Figure]]] = {
    "throughput": throughput,
    "leader": leader_change,
    "power": power,
    "wipe": lambda asked: wipe(asked.folder),
    "proposal": lambda asked: proposal(asked.folder),
    "memory": lambda asked: memory(asked.folder),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.raft", description="Consensus beside etcd")
    parser.add_argument("words", nargs="*", help="measurements whose name contains one of these")
    parser.add_argument("--rounds", type=int, default=50, help="how often servers are killed")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each round of throughput")
    parser.add_argument("--folder", type=Path, help="on the disk to measure")
    options = parser.parse_args()
    asked = Asked(options.rounds, options.seconds, options.folder)
    figures: list[Figure] = []
    broken: list[str] = []
    started_s = time.monotonic()
    print(heading("etcd"))
    for name, measurement in MEASUREMENTS.items():
        if options.words and not any(word in name for word in options.words):
            continue
        try:
            found = measurement(asked)
        except LoadFailed as failure:
            broken.append(name)
            print(f"{name}: could not be measured: {failure}", flush=True)
            continue
        figures += found
        print("\n".join(figure.line() for figure in found), flush=True)
    print(summary(figures, broken, time.monotonic() - started_s, name="bench-raft"))
    return int(bool(broken) or any(figure.reached is False for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
