"""The disk of a simulated host: the files of an agent, and in `blocks` the folder under a server's log.

It loses what was not synced when the power goes, fills up, and may be mounted read-only.

It tells two losses apart: a killed process leaves every completed change, a power loss only the durable ones.
A test against `OsDisk` holds the two to the same behaviour while the power stays on.
"""

from __future__ import annotations

import errno
import os
from random import Random

from adsum.effects import FileChange, WriteFile
from adsum.storage.memory import MemoryDisk
from adsum.testing.block_disk import BlockDisk


class SimulatedDisk(MemoryDisk):
    def __init__(self, seed: str = "") -> None:
        super().__init__()
        self.is_read_only = False
        self.room_bytes: int | None = None  # for new content, old included, as both lie beside each other
        self._durable: dict[str, bytes] = {}
        self.blocks = BlockDisk(Random(seed))

    def change(self, changes: tuple[FileChange, ...]) -> None:
        written = [change for change in changes if isinstance(change, WriteFile)]
        removed = [change for change in changes if change not in written and change.path in self.files]
        self._check(sum(len(change.content) for change in written), is_change=bool(written or removed))
        super().change(changes)
        for change in changes:
            if isinstance(change, WriteFile):
                self._durable[change.path] = change.content
            else:
                self._durable.pop(change.path, None)

    def replace(self, path: str, content: bytes) -> None:
        self._check(len(content), is_change=True)
        super().replace(path, content)

    def set_aside(self, path: str) -> str:
        if self.is_read_only:
            return path
        aside = super().set_aside(path)
        if path in self._durable:
            self._durable[aside] = self._durable.pop(path)
        return aside

    def _check(self, new_bytes: int, *, is_change: bool) -> None:
        if is_change and self.is_read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        used_bytes = sum(map(len, self.files.values()))
        if new_bytes and self.room_bytes is not None and used_bytes + new_bytes > self.room_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    # What happens to it.

    def fill(self) -> None:
        self.room_bytes = 0

    def lose_power(self) -> None:
        self.files = dict(self._durable)
        self.blocks.lose_power()

    def rot(self, path: str) -> None:
        """One bit of a file turns over."""
        content = self.files[path]
        self.files[path] = self._durable[path] = content[:-1] + bytes([content[-1] ^ 1])
