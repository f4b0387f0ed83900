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
from adsum.http.router import Route, Router
from adsum.http.server import serve
from tests.bench.figure import Figure, heading, limit, microseconds, summary
from tests.bench.tools import WRK_RATE, LoadFailed, found, missing_tools, ran_ns, run
from tests.system.agents import ROOT

CONNECTIONS = 64
ROUNDS = 5
ROUND_S = 3.0
WARM_UP_S = 1.0
# Where each PUT wakes a task of its own.
TASK_US_MAX = 38.0
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
        self._sleeper: trio.lowlevel.Task | None = None

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


async def serve_puts() -> None:
    keeper = RoundKeeper()
    counters = HttpCounters()
    router = Router([Route(("PUT",), "/v1/kv/", keeper.put, rest=True)], counters=counters)
    listener = bind_tcp("127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.keep)
        await nursery.start(serve, [listener], router.answer, HttpLimits(), counters)
        print(listener.getsockname()[1], flush=True)


@contextmanager
def server() -> Iterator[tuple[int, int]]:
    """The number of its process and its port."""
    command = [sys.executable, "-m", "tests.bench.http_put", "serve"]
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
        with server() as (pid, port):
            price_us(pid, port, script.name, WARM_UP_S)
            best = min(price_us(pid, port, script.name, seconds) for _ in range(ROUNDS))
    return [limit("a PUT that wakes a task", best, TASK_US_MAX, microseconds)]


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
    if sys.argv[1:] == ["serve"]:
        trio.run(serve_puts)
    else:
        sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else ROUND_S))
