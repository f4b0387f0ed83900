"""Bytes on disk, behind a door small enough to simulate.

Paths are relative to the data folder, with "/" between parts. `write_durably` and `remove_durably` return
when the change survives a power loss: the file is synced under another name, renamed over the old one, and
its folder synced. `replace` renames without syncing: the change survives the end of the process; what a power
loss leaves of it is up to the file system, so such files carry a checksum.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

TEMPORARY_SUFFIX = ".new"
DAMAGED_SUFFIX = ".damaged"


class Disk(Protocol):
    def read(self, path: str) -> bytes | None: ...

    def names(self, folder: str) -> list[str]:
        """Files in a folder, in order; none where there is no folder."""

    def write_durably(self, path: str, content: bytes) -> None: ...

    def remove_durably(self, path: str) -> None: ...

    def replace(self, path: str, content: bytes) -> None: ...

    def set_aside(self, path: str) -> str:
        """Keeps a damaged file under another name for whoever wants to look; says which."""


class OsDisk:
    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, path: str) -> bytes | None:
        try:
            return (self._root / path).read_bytes()
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        try:
            entries = sorted(os.listdir(self._root / folder))
        except FileNotFoundError:
            return []
        return [name for name in entries if not name.endswith((TEMPORARY_SUFFIX, DAMAGED_SUFFIX))]

    def write_durably(self, path: str, content: bytes) -> None:
        target = self._root / path
        self._make_folder(target.parent)
        temporary = _written(target, content, is_synced=True)
        os.replace(temporary, target)
        _sync_folder(target.parent)

    def remove_durably(self, path: str) -> None:
        target = self._root / path
        target.unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):  # no folder, nothing in it
            _sync_folder(target.parent)

    def replace(self, path: str, content: bytes) -> None:
        target = self._root / path
        self._make_folder(target.parent)
        os.replace(_written(target, content, is_synced=False), target)

    def set_aside(self, path: str) -> str:
        aside = path + DAMAGED_SUFFIX
        os.replace(self._root / path, self._root / aside)
        return str(self._root / aside)

    def _make_folder(self, folder: Path) -> None:
        """A new folder is durable only when its parent knows of it."""
        missing = list(_missing(folder))
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for made in missing:
            _sync_folder(made.parent)


def _missing(folder: Path) -> Iterator[Path]:
    while not folder.exists():
        yield folder
        folder = folder.parent


def _written(target: Path, content: bytes, *, is_synced: bool) -> Path:
    temporary = target.with_name(target.name + TEMPORARY_SUFFIX)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        if is_synced:
            os.fsync(file.fileno())
    return temporary


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
