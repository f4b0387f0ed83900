"""Three etcd servers on loopback, and puts through the HTTP gateway of their leader."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.bench.proposers import ENTRY_BYTES
from tests.bench.raft_members import free_ports
from tests.bench.tools import WRK_RATE, LoadFailed, found, run
from tests.system.agents import consul_program

START_S_MAX = 20.0
STOP_S_MAX = 10.0
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True, slots=True)
class Puts:
    per_second: float
    p50_s: float
    p99_s: float


def etcd_program() -> Path | None:
    """Beside the Consul that other benches use."""
    consul = consul_program()
    program = Path(consul.command[0]).with_name("etcd") if consul is not None else None
    return program if program is not None and program.exists() else None


class Etcd:
    def __init__(self, program: Path, folder: Path) -> None:
        self._script = folder / "put.lua"
        self._script.write_text(put_script())
        peers, clients = free_ports(6)[:3], free_ports(6)[3:]
        self._urls = [f"http://127.0.0.1:{port}" for port in clients]
        cluster = ",".join(f"n{number}=http://127.0.0.1:{port}" for number, port in enumerate(peers))
        self._processes = [
            subprocess.Popen(
                [
                    str(program),
                    *(
                        "--name",
                        f"n{number}",
                        "--data-dir",
                        str(folder / str(number)),
                        "--log-level",
                        "error",
                    ),
                    *("--listen-peer-urls", f"http://127.0.0.1:{peers[number]}"),
                    *("--initial-advertise-peer-urls", f"http://127.0.0.1:{peers[number]}"),
                    *("--listen-client-urls", url, "--advertise-client-urls", url),
                    *("--initial-cluster", cluster),
                ],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for number, url in enumerate(self._urls)
        ]

    def leader(self) -> str:
        """The URL of its gateway."""
        deadline_s = time.monotonic() + START_S_MAX
        while time.monotonic() < deadline_s:
            for url in self._urls:
                if is_leader(url):
                    return url
            time.sleep(0.05)
        raise LoadFailed("etcd elected no leader")

    def put(self, url: str, connections: int, seconds: float) -> Puts:
        script = str(self._script)
        output = run("wrk", "-t1", f"-c{connections}", f"-d{seconds:.0f}s", "--latency", "-s", script, url)
        if "Non-2xx" in output or "Socket errors" in output:
            raise LoadFailed(f"wrk: {output}")
        return Puts(float(found(WRK_RATE, output)), percentile(output, 50), percentile(output, 99))

    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def running_etcd(program: Path, folder: Path | None) -> Iterator[Etcd]:
    base = Path(tempfile.mkdtemp(prefix="etcd-", dir=folder))
    etcd = Etcd(program, base)
    try:
        yield etcd
    finally:
        etcd.stop()
        shutil.rmtree(base, ignore_errors=True)


def is_leader(url: str) -> bool:
    request = urllib.request.Request(f"{url}/v3/maintenance/status", data=b"{}", method="POST")
    try:
        with urllib.request.urlopen(request, timeout=2) as response:
            status = json.load(response)
    except (OSError, urllib.error.URLError, ValueError):
        return False
    return bool(status.get("leader")) and status["leader"] == status["header"]["member_id"]


def put_script() -> str:
    """64 keys in turn, each put as long as our entries are."""
    value = base64.b64encode(b"x" * ENTRY_BYTES).decode()
    keys = ",".join(f'"{base64.b64encode(b"key%03d" % number).decode()}"' for number in range(64))
    return f"""
local keys = {{{keys}}}
local bodies = {{}}
local turn = 0
function init()
  wrk.headers["Content-Type"] = "application/json"
  for i, key in ipairs(keys) do
    bodies[i] = wrk.format("POST", "/v3/kv/put", nil, '{{"key":"' .. key .. '","value":"{value}"}}')
  end
end
function request()
  turn = turn % #bodies + 1
  return bodies[turn]
end
"""


def percentile(output: str, which: int) -> float:
    value = found(re.compile(rf"^\s+{which}%\s+(\S+)$", re.MULTILINE), output)
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", value).groups()  # type: ignore[union-attr]  # wrk's own format
    return float(number) * UNITS[unit]
