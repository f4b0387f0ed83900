"""The Raft log beside plain `write` and `fdatasync` on a growing file, in one run on one disk.

    python -m tests.bench.raft_log [--seconds 2.5] [--folder DIR]

Ratios mean little on another disk; that is why both sides are measured here. The targets are what a bare
prototype reached: the zeros below save a journal commit at every sync, and pay for the checksums.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from adsum.raft.batch import LogChange
from adsum.raft.types import Entry, EntryKind, HardState, Term
from adsum.storage.files import OsFolder
from adsum.storage.opening import open_log

DATA = b"x" * 300
TARGETS = {1: 1.29, 16: 1.93, 128: 1.26}


def raw(folder: Path, batch: int, seconds: float) -> list[float]:
    descriptor = os.open(folder / "raw", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    content = DATA * batch

    def once() -> float:
        began = time.perf_counter()
        os.write(descriptor, content)
        os.fdatasync(descriptor)
        return time.perf_counter() - began

    times = repeat(once, seconds)
    os.close(descriptor)
    os.unlink(folder / "raw")
    return times


def log(folder: Path, batch: int, seconds: float) -> list[float]:
    door = OsFolder(folder / f"log-{batch}")
    raft_log = open_log(door, node="bench", mint_log_id=lambda: "log", mint_salt=bytes).log
    term, kind = Term(1), EntryKind.COMMAND

    def once() -> float:
        first = raft_log.last_index + 1
        entries = [Entry(index, term, kind, 1, 1, None, DATA) for index in range(first, first + batch)]
        change = LogChange(entries=entries, hard_state=HardState(term, None, first - 1))
        began = time.perf_counter()  # the entries are the core's, and made while the disk is busy
        raft_log.append([change])
        took_s = time.perf_counter() - began
        if raft_log.needs_preparing and threading.active_count() == 1:
            threading.Thread(target=raft_log.prepare_next).start()
        return took_s

    times = repeat(once, seconds)
    while threading.active_count() > 1:
        time.sleep(0.01)
    raft_log.close()
    door.close()
    return times


def repeat(once: Callable[[], float], seconds: float) -> list[float]:
    end, times = time.perf_counter() + seconds, list[float]()
    while time.perf_counter() < end:
        times.append(once())
    return times


def per_second(times: list[float], batch: int) -> float:
    return batch * len(times) / sum(times)


def p99_ms(times: list[float]) -> float:
    return 1000 * statistics.quantiles(times, n=100)[98]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the Raft log beside raw write and fdatasync.")
    parser.add_argument("--seconds", type=float, default=2.5, help="for each of the six runs")
    parser.add_argument("--folder", type=Path, default=None, help="on the disk to measure")
    asked = parser.parse_args()
    print(f"{'batch':>6} {'raw /s':>10} {'log /s':>10} {'ratio':>6} {'target':>7}   p99 ms, raw and log")
    for batch, target in TARGETS.items():
        with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
            plain = raw(Path(folder), batch, asked.seconds)
            ours = log(Path(folder), batch, asked.seconds)
        before, after = per_second(plain, batch), per_second(ours, batch)
        print(
            f"{batch:>6} {before:>10,.0f} {after:>10,.0f} {after / before:>6.2f} {target:>7.2f}"
            f"   {p99_ms(plain):.2f} {p99_ms(ours):.2f}"
        )


if __name__ == "__main__":
    main()
