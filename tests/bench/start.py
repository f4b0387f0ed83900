"""From the start of the process to its first useful DNS answer, several starts of each in turn.

What is measured is compiled to bytecode first, as pip compiles what it installs: a checkout whose sources
have just been edited would take 40 ms longer, on a machine that writes no bytecode at every start.
"""

from __future__ import annotations

import compileall
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median

import dns.message

import adsum
from tests.bench.figure import Figure, at_most, milliseconds
from tests.bench.tools import ran_ns
from tests.system.agents import Agent, AgentFailed, Program, free_ports, launch

STARTS = 21  # Consul answers after 90 or after 130 ms, as its election falls
NAME = "n1.node.consul"
PATIENCE_S = 20.0
RETRY_S = 0.002


def start_to_answer(ours: Program, consul: Program) -> list[Figure]:
    for root in adsum.__path__:
        compileall.compile_dir(root, quiet=2)
    times: dict[str, list[float]] = {"ours": [], "consul": []}
    for _ in range(STARTS):
        times["ours"].append(one_start_ms(ours))
        times["consul"].append(one_start_ms(consul))
    return [
        at_most(
            "start to first DNS answer", median(times["ours"]), median(times["consul"]), 1.5, milliseconds
        )
    ]


def one_start_ms(program: Program, *, is_server: bool = True) -> float:
    started = time.monotonic()
    with starting(program, is_server=is_server) as agent:
        wait_for_answer(agent, started + PATIENCE_S)
        return (time.monotonic() - started) * 1000


def ran_until_http_ms(program: Program, *, is_server: bool = True) -> float:
    """User and system time of the process; what it had to wait for, on a busy machine, is not in it."""
    with starting(program, is_server=is_server) as agent:
        wait_for_http(agent, time.monotonic() + PATIENCE_S)
        return ran_ns(agent.pid) / 1e6


@contextmanager
def starting(program: Program, *, is_server: bool) -> Iterator[Agent]:
    folder = Path(tempfile.mkdtemp(prefix="start-"))
    if is_server:
        agent = launch(program, folder, free_ports(), {}, ("-dev",))
    else:
        agent = launch(program, folder, free_ports(), {"data_dir": str(folder / "data")}, ())
    try:
        yield agent
    finally:
        agent.kill()
        shutil.rmtree(folder, ignore_errors=True)


def wait_for_http(agent: Agent, deadline: float) -> None:
    """Connects as soon as somebody listens, which is long before anybody answers, and asks once."""
    while time.monotonic() < deadline:
        with suppress(ConnectionError):
            agent.call("GET", "/v1/status/leader")
            return
        time.sleep(RETRY_S)
    raise AgentFailed(f"{agent.program.name} gave no HTTP answer in {PATIENCE_S:.0f} s:\n{agent.log_tail()}")


def wait_for_answer(agent: Agent, deadline: float) -> None:
    """Asks again and again; a connected socket learns at once that nobody listens yet."""
    query = dns.message.make_query(NAME, "A").to_wire()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.connect(("127.0.0.1", agent.ports.dns))
        asker.settimeout(0.05)
        while time.monotonic() < deadline:
            if has_answer(asker, query):
                return
            time.sleep(RETRY_S)
    raise AgentFailed(f"{agent.program.name} gave no DNS answer in {PATIENCE_S:.0f} s:\n{agent.log_tail()}")


def has_answer(asker: socket.socket, query: bytes) -> bool:
    try:
        asker.send(query)
        return len(dns.message.from_wire(asker.recv(4096)).answer) > 0
    except OSError:
        return False
