"""What the HTTP server costs for a PUT, from its bytes to its answer, without a store behind it.

    python -m tests.bench.http_put [SECONDS]

Processor time of the server's thread, user and system, for a request: 64 connections put 100 bytes on one
of 5,000 keys. In the store's place stands what answers all requests of a round in the next round of the loop,
as the driver of consensus does. Entered by hand; the bench of all agents puts a store there.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import trio

from adsum.http.limits import HttpCounters, HttpLimits
from adsum.http.listeners import bind_tcp
from adsum.http.request import Request
from adsum.http.response import TRUE, Response
from adsum.http.router import Answered, Route, Router
from adsum.http.server import serve
from tests.bench.figure import Figure, heading, limit, microseconds, summary
from tests.bench.tools import WRK_RATE, LoadFailed, found, missing_tools, ran_ns, run
from tests.system.agents import ROOT

CONNECTIONS = 64
ROUNDS = 5
ROUND_S = 3.0
WARM_UP_S = 1.0
# On a machine where an empty PUT through the server of 2026-11 cost 54.
TASK_US_MAX = 38.0
BEGUN_US_MAX = 25.0
SCRIPT = """
local number = 0
local body = string.rep("x", 100)
request = function()
  number = (number * 1103515245 + 12345) % 2147483648
  return wrk.format("PUT", string.format("/v1/kv/bench/%04d", number % 5000), nil, body)
end
"""


class RoundKeeper:
    """Answers in the next round of the loop."""

    def __init__(self) -> None:
        self._waiting: list[trio.lowlevel.Task] = []
        self._begun: list[Answered] = []
        self._sleeper: trio.lowlevel.Task | None = None

    def begin(self, _request: Request, _rest: str, answered: Answered) -> bool:
        self._begun.append(answered)
        self._stir()
        return True

    async def put(self, _request: Request, _rest: str) -> Response:
        self._waiting.append(trio.lowlevel.current_task())
        self._stir()
        await trio.lowlevel.wait_task_rescheduled(lambda _raise: trio.lowlevel.Abort.SUCCEEDED)
        return TRUE

    def _stir(self) -> None:
        if self._sleeper is not None:
            trio.lowlevel.reschedule(self._sleeper)
            self._sleeper = None

    async def keep(self) -> None:
        while True:
            self._sleeper = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(lambda _raise: trio.lowlevel.Abort.SUCCEEDED)
            waiting, self._waiting = self._waiting, []
            for task in waiting:
                trio.lowlevel.reschedule(task)
            begun, self._begun = self._begun, []
            for answered in begun:
                answered(TRUE)


async def serve_puts(way: str) -> None:
    keeper = RoundKeeper()
    counters = HttpCounters()
    begin = keeper.begin if way == "begun" else None
    router = Router([Route(("PUT",), "/v1/kv/", keeper.put, rest=True, begin=begin)], counters=counters)
    listener = bind_tcp("127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.keep)
        await nursery.start(serve, [listener], router.answer, HttpLimits(), counters, None, router.begin)
        print(listener.getsockname()[1], flush=True)


@contextmanager
def server(way: str) -> Iterator[tuple[int, int]]:
    """The number of its process and its port."""
    command = [sys.executable, "-m", "tests.bench.http_put", "serve", way]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.pid, int(process.stdout.readline())
        finally:
            process.kill()


def price_us(pid: int, port: int, script: str, seconds: float) -> float:
    before_ns = ran_ns(pid)
    words = f"-t1 -c{CONNECTIONS} -d{seconds:.0f}s -s {script} http://127.0.0.1:{port}"
    output = run("wrk", *words.split())
    if "Non-2xx" in output or "Socket errors" in output:
        raise LoadFailed(f"wrk: {output}")
    return (ran_ns(pid) - before_ns) / 1000 / (float(found(WRK_RATE, output)) * seconds)


def measured(seconds: float) -> list[Figure]:
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(SCRIPT)
        script.flush()
        with server("by task") as by_task, server("begun") as begun:
            for pid, port in (by_task, begun):
                price_us(pid, port, script.name, WARM_UP_S)
            prices = [
                [price_us(pid, port, script.name, seconds) for pid, port in (by_task, begun)]
                for _round in range(ROUNDS)
            ]
    task_us, begun_us = (min(column) for column in zip(*prices, strict=True))
    return [
        limit("a PUT that wakes a task", task_us, TASK_US_MAX, microseconds),
        limit("a PUT that is begun without one", begun_us, BEGUN_US_MAX, microseconds),
    ]


def main(seconds: float) -> int:
    if missing := missing_tools():
        print(f"Skipped: {'; '.join(missing)}")
        return 0
    started = time.monotonic()
    print(heading())
    figures = measured(seconds)
    print("\n".join(figure.line() for figure in figures))
    print(summary(figures, [], time.monotonic() - started))
    return int(not all(figure.reached for figure in figures))


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        trio.run(serve_puts, sys.argv[2])
    else:
        sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else ROUND_S))
