"""dnsperf and wrk: Debian's packages, installed when we may, asked for when we may not."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.system.agents import ROOT

TOOLS = ("dnsperf", "wrk")
DNSPERF_RATE = re.compile(r"Queries per second:\s+([\d.]+)")
DNSPERF_LOST = re.compile(r"Queries lost:\s+(\d+)")
DNSPERF_CODES = re.compile(r"Response codes:\s+(.*)")
WRK_RATE = re.compile(r"Requests/sec:\s+([\d.]+)")


class LoadFailed(Exception):
    """The tool ran, but what it measured is not the answer we meant: the figure would be worthless."""


def missing_tools() -> list[str]:
    """Sentences about what could not be found or installed. Who starts a bench as root wants it to run."""
    environment = os.environ | {"ADSUM_INSTALL": "1"}
    sentences = []
    for tool in TOOLS:
        command = [sys.executable, str(ROOT / "tools" / "debian_tool.py"), tool]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode != 0:
            sentences.append(done.stderr.strip().splitlines()[-1])
    return sentences


def dns_rate(port: int, questions: Sequence[str], seconds: float, *, sockets: int = 1) -> float:
    """Answers a second to one client with 100 questions outstanding, cycling through `questions`."""
    with tempfile.NamedTemporaryFile("w", suffix=".dnsperf") as file:
        file.write("\n".join(questions) + "\n")
        file.flush()
        words = f"-s 127.0.0.1 -p {port} -d {file.name} -l {seconds:.0f} -c {sockets}"
        output = run("dnsperf", *words.split())
    codes = found(DNSPERF_CODES, output)
    if not codes.startswith("NOERROR") or "100.00%" not in codes or int(found(DNSPERF_LOST, output)) > 0:
        raise LoadFailed(f"dnsperf: lost {found(DNSPERF_LOST, output)}, answers {codes}")
    return float(found(DNSPERF_RATE, output))


def http_rate(port: int, target: str, connections: int, seconds: float) -> float:
    url = f"http://127.0.0.1:{port}{target}"
    output = run("wrk", "-t1", f"-c{connections}", f"-d{seconds:.0f}s", url)
    if "Non-2xx" in output or "Socket errors" in output:
        raise LoadFailed(f"wrk: {output}")
    return float(found(WRK_RATE, output))


def run(tool: str, *arguments: str) -> str:
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        raise LoadFailed(f"{tool} ended with {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


def found(pattern: re.Pattern[str], output: str) -> str:
    match = pattern.search(output)
    if match is None:
        raise LoadFailed(f"no {pattern.pattern!r} in {output[-500:]!r}")
    return match[1]


def resident_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return float(found(re.compile(r"VmRSS:\s+(\d+) kB"), status)) / 1024


def cpu_s(pid: int) -> float:
    """User and system time so far. The second field is the name, which may hold spaces and brackets."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ran_ns(pid: int) -> int:
    """Of all its threads, from the scheduler: an idle agent runs less than a clock tick a second."""
    return sum(int(task.read_text().split()[0]) for task in Path(f"/proc/{pid}/task").glob("*/schedstat"))
