"""Real agents as processes: Adsum's and Consul's, started side by side on loopback and ended by their own
pid.

Both read the same configuration file, because that is what the compatibility promise says. Ports come from
the kernel (bind to 0, note, close), so another process could in theory take one in between; a start that
fails for that reason says so in its log, whose tail is part of the error.

Waiting for another process means polling: `until` is the one place that does it.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parent.parent.parent
PEERS_SCRIPT = ROOT.parent / "shared" / "peers" / "get"
CLOCKS = Path(__file__).with_name("clocks")
PEERS_FOLDER = Path.home() / ".cache" / "peers"
POLL_S = 0.01
START_S_MAX = 30.0
STOP_S_MAX = 15.0
CALL_S_MAX = 20.0
LOG_TAIL_LINES = 15
PORTS_GIVEN: set[int] = set()

T = TypeVar("T")


class AgentFailed(Exception):
    """The process ended, never became ready, or did not end: the fault is the program's or the machine's."""


@dataclass(frozen=True, slots=True)
class Program:
    """What to run: everything before the word `agent`, and what people call it."""

    name: str
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ports:
    http: int
    dns: int
    serf_lan: int
    serf_wan: int
    server: int

    def as_config(self) -> dict[str, int]:
        return {
            "http": self.http,
            "dns": self.dns,
            "serf_lan": self.serf_lan,
            "serf_wan": self.serf_wan,
            "server": self.server,
            "grpc": -1,
        }


@dataclass(slots=True)
class Agent:
    """A started process. `stop` is polite and returns the exit code; `kill` is not."""

    program: Program
    ports: Ports
    folder: Path
    config: Mapping[str, object]
    arguments: tuple[str, ...]
    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.send(number)
        return self.wait_for_end()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(STOP_S_MAX)

    def start_again(self, config: Mapping[str, object] | None = None) -> None:
        """The same folder, ports and arguments in a new process, after the old one has ended."""
        assert self.process.poll() is not None
        self.config = self.config if config is None else config
        self.process = spawn(self.program, self.folder, self.ports, self.config, self.arguments)
        wait_until_ready(self)

    def wait_for_end(self) -> int:
        try:
            return self.process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AgentFailed(f"{self.program.name} did not end within {STOP_S_MAX:.0f} s") from None

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def log_tail(self) -> str:
        return "\n".join(self.log().splitlines()[-LOG_TAIL_LINES:])

    def get_json(self, target: str) -> Any:
        status, body = self.call("GET", target)
        if status != http.client.OK:
            raise AgentFailed(f"{self.program.name}: GET {target} answered {status} {body[:200]!r}")
        return json.loads(body)

    def put(self, target: str, body: object = None) -> tuple[int, bytes]:
        return self.call("PUT", target, b"" if body is None else json.dumps(body).encode())

    def call(
        self, method: str, target: str, body: bytes = b"", *, timeout_s: float = CALL_S_MAX
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.ports.http, timeout=timeout_s)
        try:
            connection.request(method, target, body)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


def adsum_program() -> Program:
    """The entry point that the environment of the running interpreter installed."""
    return Program("Adsum", (str(Path(sys.executable).with_name("adsum")),))


def build_in(folder: str) -> Program:
    """Of another checkout, whose environment was made."""
    return Program("other", (str(Path(folder).resolve() / ".venv" / "bin" / "adsum"),))


def with_clock(program: Program, ahead_s: int) -> Program:
    """The same on a host whose clock is wrong by so much. It has to be written in Python."""
    variables = (f"PYTHONPATH={CLOCKS}", f"CLOCK_AHEAD_S={ahead_s}")
    return Program(program.name, ("env", *variables, *program.command))


def consul_program() -> Program | None:
    """Real Consul from $PEERS, or where the script beside the repository unpacks it; None without either."""
    asked = os.environ.get("PEERS")
    binary = Path(asked or PEERS_FOLDER) / "usr" / "bin" / "consul"
    if not asked and not binary.exists() and PEERS_SCRIPT.exists():
        subprocess.run([str(PEERS_SCRIPT)], stdout=subprocess.DEVNULL, check=False)
    return Program("Consul", (str(binary),)) if binary.exists() else None


@contextmanager
def running(
    program: Program,
    config: Mapping[str, object] | None = None,
    arguments: Sequence[str] = ("-dev",),
) -> Iterator[Agent]:
    """One agent with a folder of its own, ready to answer; ended and its folder removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=f"{program.name.lower()}-"))
    agent = launch(program, folder, free_ports(), config or {}, tuple(arguments))
    try:
        wait_until_ready(agent)
        yield agent
    finally:
        if agent.process.poll() is None:
            agent.kill()
        shutil.rmtree(folder, ignore_errors=True)


def launch(
    program: Program,
    folder: Path,
    ports: Ports,
    config: Mapping[str, object],
    arguments: tuple[str, ...],
) -> Agent:
    """Starts the process and returns at once."""
    process = spawn(program, folder, ports, config, arguments)
    return Agent(program, ports, folder, config, arguments, process)


def spawn(
    program: Program,
    folder: Path,
    ports: Ports,
    config: Mapping[str, object],
    arguments: tuple[str, ...],
) -> subprocess.Popen[bytes]:
    write_config(folder, ports, config)
    command = [*program.command, "agent", *arguments, f"-config-file={folder / 'config.json'}"]
    with open(folder / "log", "ab") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=folder
        )


def write_config(folder: Path, ports: Ports, config: Mapping[str, object]) -> None:
    whole = {
        "node_name": "n1",
        "bind_addr": "127.0.0.1",
        "ports": ports.as_config(),
        "log_level": "WARN",
        "disable_update_check": True,
        **config,
    }
    (folder / "config.json").write_text(json.dumps(whole))


def wait_until_ready(agent: Agent) -> None:
    """Ready: if it is a server it has a leader, and its own node's health is in the catalog, which takes
    Consul longer."""
    is_server = bool({"-dev", "-server"}.intersection(agent.arguments) or agent.config.get("server"))

    def is_ready() -> bool:
        if agent.process.poll() is not None:
            raise AgentFailed(
                f"{agent.program.name} ended with {agent.process.returncode}:\n{agent.log_tail()}"
            )
        try:
            has_leader = not is_server or agent.get_json("/v1/status/leader")
            return bool(has_leader and agent.get_json("/v1/health/state/passing"))
        except (OSError, http.client.HTTPException, AgentFailed, ValueError):
            return False

    if not until(is_ready, within_s=START_S_MAX):
        agent.kill()
        raise AgentFailed(
            f"{agent.program.name} was not ready after {START_S_MAX:.0f} s:\n{agent.log_tail()}"
        )


def until(condition: Callable[[], T], *, within_s: float) -> T:
    """Polls; returns the first true result, or the last false one when the time is up."""
    deadline = time.monotonic() + within_s
    while not (result := condition()) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return result


def free_ports() -> Ports:
    """Numbers free for both TCP and UDP, and none that was given before: whoever got that may not listen
    yet."""
    held: list[socket.socket] = []
    numbers: list[int] = []
    try:
        while len(numbers) < 5:
            stream = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            datagram = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            held += [stream, datagram]
            stream.bind(("127.0.0.1", 0))
            try:
                datagram.bind(stream.getsockname())
            except OSError:
                continue
            number = stream.getsockname()[1]
            if number not in PORTS_GIVEN:
                PORTS_GIVEN.add(number)
                numbers.append(number)
    finally:
        for each in held:
            each.close()
    return Ports(*numbers)
