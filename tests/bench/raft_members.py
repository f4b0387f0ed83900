"""Three members of consensus as processes on loopback, each with a folder on a real disk."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.bench.proposers import Closed, Door
from tests.bench.raft_machines import MACHINE

START_S_MAX = 20.0
POLL_S = 0.005

T = TypeVar("T")


class MembersFailed(Exception):
    """They did not do what they are there for."""


class Members:
    """Of the build that stands in `tree`, after its `make environment`; of this one without it."""

    def __init__(
        self, folder: Path, count: int = 3, *, machine: str = "puts", tree: Path | None = None
    ) -> None:
        self._machine = machine
        self._tree = tree
        self._python = sys.executable if tree is None else str(tree / ".venv" / "bin" / "python")
        self.folders = [folder / str(number) for number in range(count)]
        self._ports = free_ports(count)
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * count
        for each in self.folders:
            each.mkdir(parents=True)

    def start(self, *numbers: int) -> None:
        """All of them without numbers."""
        for number in numbers or range(len(self.folders)):
            command = [self._python, "-m", "tests.bench.raft_member", str(self.folders[number])]
            command += [str(number), *map(str, self._ports)]
            # A member ends with its standard input, so that none outlives a bench that was interrupted.
            environment = os.environ | {MACHINE: self._machine}  # not an argument: older builds know none
            self._processes[number] = subprocess.Popen(
                command, stdin=subprocess.PIPE, cwd=self._tree, env=environment
            )

    def kill(self, *numbers: int) -> None:
        processes = [self._processes[number] for number in numbers or range(len(self.folders))]
        for process in processes:
            if process is not None:
                process.kill()
        for process in processes:
            if process is not None:
                process.wait()
                assert process.stdin is not None, "it was made as a pipe"
                process.stdin.close()

    def wipe(self, number: int) -> None:
        """It is killed, and all that it had is gone."""
        self.kill(number)
        shutil.rmtree(self.folders[number] / "raft")

    def resident_most_mb(self) -> list[float]:
        """The most that each has had."""
        return [resident_most_mb(self._process(number).pid) for number in range(len(self.folders))]

    def send(self, number: int, which: signal.Signals) -> None:
        self._process(number).send_signal(which)

    def wait(self, number: int) -> int:
        """Its exit code."""
        process = self._process(number)
        code = process.wait(START_S_MAX)
        assert process.stdin is not None, "it was made as a pipe"
        process.stdin.close()
        return code

    def door(self, number: int) -> Door:
        """Once it is there."""
        return self._until(lambda: self._try_door(number), f"member {number} does not open its door")

    def leader(self, *, besides: int | None = None) -> tuple[int, Door]:
        """Whoever says so at the moment; it may be wrong."""
        numbers = [number for number in range(len(self.folders)) if number != besides]
        return self._until(lambda: self._find_leader(numbers), "there is no leader")

    def standings(self, letter: bytes = b"S") -> list[dict[str, Any]]:
        standings = []
        for number in range(len(self.folders)):
            door = self.door(number)
            standings.append(door.ask(letter))
            door.close()
        return standings

    def until_equal(self, letter: bytes = b"S") -> list[dict[str, Any]]:
        """All have applied the same."""

        def equal() -> list[dict[str, Any]] | None:
            try:
                found = self.standings(letter)
            except Closed:
                return None
            return found if len({(each["applied"], each["hash"]) for each in found}) == 1 else None

        return self._until(equal, "the members do not come to the same state")

    def _process(self, number: int) -> subprocess.Popen[bytes]:
        process = self._processes[number]
        assert process is not None, "it was started"
        return process

    def _find_leader(self, numbers: list[int]) -> tuple[int, Door] | None:
        for number in numbers:
            door = self._try_door(number)
            if door is None:
                continue
            try:
                if door.ask(b"S")["is_leader"]:
                    return number, door
            except Closed:
                pass
            door.close()
        return None

    def _try_door(self, number: int) -> Door | None:
        try:
            return Door(self.folders[number])
        except Closed:
            return None

    def _until(self, find: Callable[[], T | None], otherwise: str) -> T:
        deadline_s = time.monotonic() + START_S_MAX
        while not (found := find()):
            if time.monotonic() > deadline_s:
                raise MembersFailed(f"{otherwise} within {START_S_MAX:.0f} s")
            time.sleep(POLL_S)
        return found


@contextmanager
def members(folder: Path | None, machine: str = "puts", *, tree: Path | None = None) -> Iterator[Members]:
    """`folder` is on the disk that is meant; all is removed afterwards."""
    base = Path(tempfile.mkdtemp(prefix="raft-", dir=folder))
    made = Members(base, machine=machine, tree=tree)
    try:
        made.start()
        yield made
    finally:
        made.kill()
        shutil.rmtree(base, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    try:
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()


def resident_most_mb(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024
