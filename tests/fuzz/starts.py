"""The door of saved files: an agent is stopped, its data folder written to, and started again.

It starts or refuses with a sentence; it never shows a traceback; and once it runs it lives: what the files
made it believe is asked for by every list there is, it ends in order, and it starts once more with what it
wrote.
"""

from __future__ import annotations

import http.client
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from adsum.catalog.saved import CHECKS, SERVICES
from tests.fuzz.cluster import COMMON, measured_program
from tests.fuzz.participants import AGENTS_ATTACKED
from tests.fuzz.trees import Input, built
from tests.fuzz.watch import FAULTS, Finding, Watched
from tests.system.agents import Agent, AgentFailed, free_ports, launch, until

READY_S_MAX = 30.0
LOOKS = 10
NOBODYS_PORT = 9
NAME = AGENTS_ATTACKED[0].name
CONFIG = {**COMMON, "node_name": NAME, "server": True, "bootstrap": True, "data_dir": "data"}
LISTS = (
    *("/v1/catalog/nodes", "/v1/catalog/services", "/v1/catalog/owners", "/v1/health/state/any", "/metrics"),
    *("/v1/agent/services", "/v1/agent/checks", "/v1/agent/members", "/v1/agent/members?wan", "/ui/"),
    *("/v1/membership", "/v1/membership/timeline", "/v1/coordinate/nodes"),
    *("/v1/health/node/stranger-1", "/v1/health/service/web-1"),
)


def start_with(inputs: Sequence[Input], python: str = sys.executable) -> bool:
    """Whether it started; raises `Finding`."""
    folder = Path(tempfile.mkdtemp(prefix="adsum-"))
    try:
        write(folder / "data", inputs)
        agent = launch(measured_program(python), folder, free_ports(), CONFIG, ())
        try:
            is_started = run_twice(agent)
        except AgentFailed as failed:
            raise Finding(str(failed)) from failed
        finally:
            if agent.process.poll() is None:
                agent.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return is_started


def write(data: Path, inputs: Sequence[Input]) -> None:
    now = time.time_ns() // 1_000_000
    ports = {f"port{place}": NOBODYS_PORT for place in range(len(AGENTS_ATTACKED) + 1)}
    known = {"life": now, "now": now, **ports}
    for folder in (SERVICES, CHECKS):
        (data / folder).mkdir(parents=True)
    for each in inputs:
        file = built(each.content, known)
        content = file["content"]
        (data / file["path"]).write_bytes(content if isinstance(content, bytes) else repr(content).encode())


def run_twice(agent: Agent) -> bool:
    is_started = run_once(agent)
    if is_started:
        agent.start_again()
        run_once(agent)
    return is_started


def run_once(agent: Agent) -> bool:
    if not until(lambda: agent.process.poll() is not None or is_up(agent), within_s=READY_S_MAX):
        raise Finding(f"it neither starts nor refuses:\n{agent.log_tail()}")
    if agent.process.poll() is not None:
        check_refusal(agent)
        return False
    watched = Watched(agent, NAME)
    watched.begin()
    watched.log_read = 0
    for _ in range(LOOKS):
        for target in LISTS:
            ask(agent, target)
        watched.look()
    status = agent.stop()
    if status != 0 or shows_fault(agent):
        raise Finding(f"it ended with status {status}:\n{agent.log()[-3_000:]}")
    return True


def is_up(agent: Agent) -> bool:
    try:
        return agent.call("GET", "/v1/agent/self")[0] == http.client.OK
    except (OSError, http.client.HTTPException):
        return False


def ask(agent: Agent, target: str) -> None:
    try:
        agent.call("GET", target)
    except (OSError, http.client.HTTPException) as error:
        raise Finding(f"it does not answer {target}: {error!r}\n{agent.log()[-3_000:]}") from error


def check_refusal(agent: Agent) -> None:
    if agent.process.returncode != 1 or shows_fault(agent) or not agent.log().strip():
        raise Finding(f"it ended with status {agent.process.returncode}:\n{agent.log()[-3_000:]}")


def shows_fault(agent: Agent) -> bool:
    return any(mark in agent.log() for mark in FAULTS)
