"""What 2,000 HTTP checks at 10 s cost an agent, against a target in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.bench.figure import Figure, cores, limit
from tests.bench.tools import cpu_s
from tests.system.agents import ROOT, Agent, AgentFailed, Program, running, until

CHECKS = 2_000
INTERVAL_S = 10
MEASURED_S = 20.0
CPU_SHARE_MAX = 0.5


def many_checks(ours: Program, _consul: Program) -> list[Figure]:
    with target() as port, running(ours) as agent:
        for number in range(CHECKS):
            register_check(agent, number, port)
        everything = CHECKS + 1  # and the node's own
        if not until(lambda: passing(agent) >= everything, within_s=4 * INTERVAL_S):
            raise AgentFailed(f"only {passing(agent)} of {everything} checks pass:\n{agent.log_tail()}")
        before, started = cpu_s(agent.pid), time.monotonic()
        time.sleep(MEASURED_S)
        share = (cpu_s(agent.pid) - before) / (time.monotonic() - started)
        if passing(agent) < everything:
            raise AgentFailed(f"checks fell over while measured: {passing(agent)} of {everything} pass")
    return [limit(f"{CHECKS:,} HTTP checks at {INTERVAL_S} s", share, CPU_SHARE_MAX, cores)]


def register_check(agent: Agent, number: int, port: int) -> None:
    status, body = agent.put(
        "/v1/agent/check/register",
        {
            "Name": f"check-{number}",
            "HTTP": f"http://127.0.0.1:{port}/{number}",
            "Interval": f"{INTERVAL_S}s",
            "Timeout": "5s",
        },
    )
    if status != 200:
        raise AgentFailed(f"a check was refused: {status} {body!r}")


def passing(agent: Agent) -> int:
    # Asking for 2,000 checks is work for the agent; once a second is enough.
    time.sleep(1.0)
    return len(agent.get_json("/v1/health/state/passing"))


@contextmanager
def target() -> Iterator[int]:
    command = [sys.executable, "-m", "tests.bench.target"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()
