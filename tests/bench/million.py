"""A store of a million keys: what holds the loop of its server, and what lists and blocked reads of it cost.

One server with its log on a disk, 100 keys in each of 10,000 folders. Ten runs of ten seconds, in each of
which 64 connections read, write what is there and write new keys, while snapshots of it all are written. A
stall is a pass of the loop over 20 ms, without the time in which its thread, or another one of the process
for which it may have waited, had work and no core: that is the machine's. Where the loop was in each is told.

Lists and blocked reads are measured by themselves, in processor time: the figures that they are held to are
those of the structure they were chosen for, on another machine, so twice as much is allowed.
"""

from __future__ import annotations

import base64
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

import msgspec

from adsum.kv import KeyRecord
from adsum.observe.loop_lag import BUDGET_NS
from adsum.store.keyspace import Keyspace, Origin
from adsum.store.machine import HISTORY_BOUNDS
from adsum.store.table import end_of
from tests.bench.figure import (
    Figure,
    informs,
    limit,
    megabytes,
    microseconds,
    milliseconds,
    per_second,
    plain,
)
from tests.bench.held_agent import Held
from tests.bench.tools import WRK_RATE, LoadFailed, found, resident_mb, run
from tests.system.agents import Agent, Program, running

SCRIPT = Path(__file__).with_name("million.lua")
AGENT = Path(__file__).with_name("held_agent.py")
KEYS = 1_000_000
IN_FOLDER = 100
IN_TRANSACTION = 100
FILLERS = 4
CONNECTIONS = 64
RUNS = 10
RUN_S = 10.0
NEW_IN_RUN = 1_000_000  # more than are written
BUDGET_MS = BUDGET_NS / 1e6
PLACES_TOLD = 3
ASKED, REPEATS = 50, 9
SERVER = {
    "server": True,
    "bootstrap": True,
    "raft_snapshot_interval": "5s",
    "raft_snapshot_threshold": 1_000,
}


def million(ours: Program, _consul: Program) -> list[Figure]:
    python = Path(ours.command[0]).with_name("python")
    program = Program(ours.name, (str(python), str(AGENT)))
    with tempfile.TemporaryDirectory(prefix="million-") as folder:
        held = Path(folder) / "held"
        os.environ["HELD"] = str(held)
        with running(program, {"data_dir": folder, **SERVER}, ()) as agent:
            fill(agent)
            time.sleep(RUN_S)
            began_s = time.monotonic()
            rates = [loaded(agent, KEYS + number * NEW_IN_RUN) for number in range(RUNS)]
            size_mb = resident_mb(agent.pid)
        stalls = [each for each in stalls_in(held) if each.at_s > began_s]
    own = sorted((each for each in stalls if each.own > BUDGET_MS), key=lambda each: each.own)
    for stall in own:
        print(told(stall))
    return [
        *structure(),
        limit(f"stalls over 20 ms in {RUNS} runs, {KEYS:,} keys", len(own), 0, plain),
        informs("  the longest", own[-1].own if own else 0.0, None, milliseconds),
        informs("  passes over 20 ms with the time without a core", len(stalls), None, plain),
        informs("  requests a second, a tenth of them new keys", min(rates), None, per_second),
        informs("  memory", size_mb, None, megabytes),
    ]


def structure() -> list[Figure]:
    """Of folders of 100 and of 10,000, and of everything: lists, keys up to a separator, and the index that a
    blocked read of a prefix begins with."""
    space, puts = Keyspace("consul", HISTORY_BOUNDS), 10_000
    for first in range(0, KEYS, puts):
        origin = Origin(first + 1, "", 1)
        record = KeyRecord(bytes(100), first + 1, first + 1, 1, 1)
        space.put_all([(large_key(number), record) for number in range(first, first + puts)], origin)
        space.settle()
    small, large, below = b"tree/0042/17/", b"tree/0042/", b"tree/00"
    return [
        of_structure("list of 100 keys", 8.5, partial(listed, space, small)),
        of_structure("  of 10,000", 330.0, partial(listed, space, large)),
        of_structure("100 keys up to a separator", 169.0, lambda: list(space.table.folders(large, b"/"))),
        of_structure("index of a prefix of 10,000", 29.0, partial(space.index_below, large)),
        of_structure("  of 1,000,000", 350.0, partial(space.index_below, below)),
    ]


def large_key(number: int) -> bytes:
    return b"tree/%04d/%02d/%026d" % (number // 10_000, number // 100 % 100, number)


def listed(space: Keyspace, prefix: bytes) -> tuple[list[bytes], list[KeyRecord]]:
    keys, records = list[bytes](), list[KeyRecord]()
    for some_keys, some_records in space.table.slices(prefix, end_of(prefix)):
        keys += some_keys
        records += some_records
    return keys, records


def of_structure(name: str, reference_us: float, ask: Callable[[], object]) -> Figure:
    fastest_ns = min(timed_ns(ask) for _ in range(REPEATS))
    return limit(name, fastest_ns / 1_000, 2 * reference_us, microseconds)


def timed_ns(ask: Callable[[], object]) -> float:
    began_ns = time.thread_time_ns()
    for _ in range(ASKED):
        ask()
    return (time.thread_time_ns() - began_ns) / ASKED


def told(stall: Held) -> str:
    others = f"other threads {stall.others_ran:.0f} and {stall.others_waited:.0f}"
    parts = f"ran {stall.ran:.0f}, waited {stall.waited:.0f}, {others}"
    places = " | ".join(stall.places[:PLACES_TOLD])
    return f"  held {stall.held:.0f} ms: {parts}, collector {stall.collected:.0f}: {places}"


def fill(agent: Agent) -> None:
    with ThreadPoolExecutor(FILLERS) as filling:
        list(filling.map(lambda first: fill_from(agent, first), range(FILLERS)))


def fill_from(agent: Agent, first: int) -> None:
    connection = HTTPConnection("127.0.0.1", agent.ports.http, timeout=60)
    for start in range(first * IN_TRANSACTION, KEYS, FILLERS * IN_TRANSACTION):
        operations = [
            {"KV": {"Verb": "set", "Key": key_of(number), "Value": VALUE}}
            for number in range(start, start + IN_TRANSACTION)
        ]
        connection.request("PUT", "/v1/txn", msgspec.json.encode(operations))
        answer = connection.getresponse()
        if answer.read() and answer.status != 200:
            raise LoadFailed(f"a transaction was answered with {answer.status}")


def key_of(number: int) -> str:
    return f"folder/{number // IN_FOLDER:015}/{number:017}"


VALUE = base64.b64encode(b"x" * 100).decode()


def loaded(agent: Agent, following: int) -> float:
    url = f"http://127.0.0.1:{agent.ports.http}"
    options = ["-t1", f"-c{CONNECTIONS}", f"-d{RUN_S:.0f}s", "-s", str(SCRIPT)]
    output = run("wrk", *options, url, "--", str(KEYS), str(following))
    if "Non-2xx" in output or "Socket errors" in output:
        raise LoadFailed(f"wrk: {output}")
    return float(found(WRK_RATE, output))


def stalls_in(file: Path) -> list[Held]:
    decode = msgspec.json.Decoder(Held).decode
    return [decode(line) for line in file.read_bytes().splitlines()]
