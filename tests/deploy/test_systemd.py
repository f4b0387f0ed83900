from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXPOSURE_MAX = 2.0  # Consul's own unit has 9.2


@pytest.fixture
def unit(root: Path) -> Path:
    return root / "deploy/systemd/adsum.service"


def test_unit_is_what_systemd_understands(
    unit: Path, tmp_path: Path, debian_tool: Callable[[str], str]
) -> None:
    """With a program that exists here in the place of ours, whose absence is all it may complain about."""
    copy = tmp_path / "adsum.service"
    copy.write_text(unit.read_text().replace("/opt/adsum/bin/adsum", "/bin/true"))
    command = [debian_tool("systemd-analyze"), "verify", "--man=no", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_agent_that_cannot_start_is_started_again_for_as_long_as_it_takes(unit: Path) -> None:
    lines = unit.read_text().splitlines()
    head = lines[: lines.index("[Service]")]
    assert "StartLimitIntervalSec=0" in head
    assert {"Restart=on-failure", "RestartSec=5"} <= set(lines)


def test_unit_is_hardened(unit: Path, debian_tool: Callable[[str], str]) -> None:
    command = [debian_tool("systemd-analyze"), "security", "--offline=true", "--no-pager", str(unit)]
    report = subprocess.run(command, capture_output=True, text=True).stdout
    overall = re.search(r"Overall exposure level for adsum\.service: ([\d.]+)", report)
    assert overall is not None, report
    assert float(overall[1]) <= EXPOSURE_MAX, report


def test_what_the_agent_needs_is_not_filtered_away(unit: Path, debian_tool: Callable[[str], str]) -> None:
    """Script checks fork and execute; the agent raises its file limit; asyncio and trio wait with epoll."""
    denied = set(re.findall(r"@[a-z-]+", "".join(re.findall(r"SystemCallFilter=~(.*)", unit.read_text()))))
    assert denied == {"@privileged", "@resources"}
    denied_calls = {call for name in denied for call in system_calls(debian_tool("systemd-analyze"), name)}
    assert denied_calls.isdisjoint({"clone", "clone3", "vfork", "execve", "kill", "prlimit64", "epoll_pwait"})


def system_calls(analyze: str, name: str) -> set[str]:
    command = [analyze, "syscall-filter", name]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    words = {line.strip() for line in listing.splitlines()} - {name}
    groups = {word for word in words if word.startswith("@")}
    return words.union(*(system_calls(analyze, group) for group in groups))


def test_python_and_our_dependencies_run_without_writable_executable_memory() -> None:
    """What MemoryDenyWriteExecute=yes does, asked from the kernel directly (Linux 6.3 or newer)."""
    program = """
import ctypes, mmap, sys
PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN = 65, 1
if ctypes.CDLL(None).prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != 0:
    sys.exit("no such prctl")
try:
    mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    sys.exit("not in force")
except PermissionError:
    pass
import cbor2, h2, h11, httptools, msgspec, prometheus_client, ssl, trio
ssl.create_default_context()
trio.run(trio.run_process, ["/bin/true"])
print("fine")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    if done.stderr.strip() == "no such prctl":
        pytest.skip("this kernel cannot deny writable executable memory on request: Linux 6.3 can")
    assert (done.stdout, done.stderr) == ("fine\n", "")
