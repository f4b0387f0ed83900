"""A disk of its own for one agent: small, so that it can be filled, and mounted where only the agent sees it.

It is a tmpfs in a mount namespace that a waiting process holds open; agents are started in there. The test
reaches its files through that process, and whatever happens to the test, nothing stays mounted.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.system.agents import Program, adsum_program

SIZE_BYTES = 1024 * 1024
HOLD = 'mount -t tmpfs -o size=$1 none "$2" && echo mounted && read -r _'


def why_no_small_disk() -> str | None:
    """A sentence for whoever skips, or None where they can be made."""
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        return "no mount namespaces without unshare and nsenter: apt-get install util-linux"
    if os.geteuid() != 0:
        return "a disk of its own needs root"
    done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
    return f"no mount namespaces here: {done.stderr.strip()}" if done.returncode else None


@dataclass(frozen=True, slots=True)
class SmallDisk:
    path: Path
    """Where agents find it."""
    holder: int

    @property
    def files(self) -> Path:
        """Where the test does."""
        return Path(f"/proc/{self.holder}/root{self.path}")

    @property
    def program(self) -> Program:
        """Adsum, on this disk."""
        adsum = adsum_program()
        return Program(adsum.name, ("nsenter", f"--target={self.holder}", "--mount", *adsum.command))

    def fill(self) -> None:
        with (self.files / "filler").open("ab", buffering=0) as filler:
            for size in (4_096, 1):
                with suppress(OSError):
                    while True:
                        filler.write(b"x" * size)

    def make_room(self) -> None:
        (self.files / "filler").unlink()

    def mount_read_only(self) -> None:
        """By a mount over it: what is open for writing would keep the disk itself from becoming read-only."""
        self._mount("--bind", str(self.path), str(self.path))
        self._mount("-o", "remount,bind,ro", str(self.path))

    def mount_writable(self) -> None:
        self._mount("-o", "remount,bind,rw", str(self.path))

    def _mount(self, *arguments: str) -> None:
        subprocess.run(["nsenter", f"--target={self.holder}", "--mount", "mount", *arguments], check=True)


@contextmanager
def small_disk(path: Path) -> Iterator[SmallDisk]:
    path.mkdir()
    command = ["unshare", "--mount", "sh", "-c", HOLD, "sh", str(SIZE_BYTES), str(path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"mounted\n"
        yield SmallDisk(path, holder.pid)
    finally:
        holder.stdin.close()
        holder.wait(10)
        holder.stdout.close()
