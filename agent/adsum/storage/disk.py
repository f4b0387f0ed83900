"""Bytes on disk, behind a door small enough to simulate.

Paths are relative to the data folder, with "/" between parts. `change` returns when all of it survives a
power loss: each file is synced under another name, and when all are, they are renamed over the old ones, in
order, and their folders synced. So what refuses (no room, read-only, not allowed) does so before anything has
changed, and is an `OSError`; past that point it is `StorageFailed`. `replace` renames without syncing: the
change survives the end of the process; what a power loss leaves of it is up to the file system, so such files
carry a checksum.

Each folder is synced once for a whole change, a new one's parent too, and after all renames: a file system
with a journal writes that in one go.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Protocol

from adsum.effects import FileChange, WriteFile
from adsum.logs.system_errors import OUT_OF_ROOM
from adsum.storage.failures import StorageFailed

TEMPORARY_SUFFIX = ".new"
DAMAGED_SUFFIX = ".damaged"


class Disk(Protocol):
    def read(self, path: str) -> bytes | None: ...

    def names(self, folder: str) -> list[str]:
        """Files in a folder, in order; none where there is no folder."""

    def change(self, changes: tuple[FileChange, ...]) -> None:
        """All, or none and `OSError`."""

    def write_durably(self, path: str, content: bytes) -> None:
        self.change((WriteFile(path, content),))

    def replace(self, path: str, content: bytes) -> None: ...

    def set_aside(self, path: str) -> str:
        """Keeps a damaged file under another name for whoever wants to look; says where it is now."""


class OsDisk(Disk):
    def __init__(self, root: Path) -> None:
        self._root = root
        self._unsynced: dict[Path, None] = {}  # folders that may lose a new one in them
        self._met: set[Path] = set()  # folders below it that were written to; those of a few names

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

    def change(self, changes: tuple[FileChange, ...]) -> None:
        wanted = {self._root / change.path: change for change in changes}  # of two of a file, the later
        with self._prepared(wanted) as folders:
            has_changed = False
            for target, change in wanted.items():
                try:
                    _put(target, change)
                except OSError as problem:
                    # Nothing was changed; or the folder is being deleted, and all is written again anyway.
                    if not has_changed or problem.errno == errno.ENOENT:
                        raise
                    raise StorageFailed(f"could not change {target}: {problem.strerror}") from problem
                has_changed = True
            for folder, descriptor in folders.items():
                _sync(descriptor, folder)
            self._unsynced.clear()

    def replace(self, path: str, content: bytes) -> None:
        target = self._root / path
        self._make_folder(target.parent)
        os.replace(_written(target, content, is_synced=False), target)

    def set_aside(self, path: str) -> str:
        aside = path + DAMAGED_SUFFIX
        try:
            os.replace(self._root / path, self._root / aside)
        except OSError as problem:  # on a disk that is mounted read-only, which is no reason to stay away
            return f"{self._root / path} itself, for it cannot be renamed ({problem.strerror}),"
        return str(self._root / aside)

    @contextmanager
    def _prepared(self, wanted: dict[Path, FileChange]) -> Iterator[dict[Path, int]]:
        """All that is written lies synced beside its target; the folders are open, to be synced."""
        folders: dict[Path, int] = {}
        with ExitStack() as undo:
            for target, change in wanted.items():
                if isinstance(change, WriteFile):
                    self._make_folder(target.parent)
                    undo.callback(_discard, _temporary(target))
                    _written(target, change.content, is_synced=True)
            for folder in dict.fromkeys((*(target.parent for target in wanted), *self._unsynced)):
                if folder.exists():  # else there is nothing in it
                    folders[folder] = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
                    undo.callback(os.close, folders[folder])
            yield folders

    def _make_folder(self, folder: Path) -> None:
        """A new folder is durable only when its parent knows of it: with the next change that is. So is one
        that is met for the first time, for who made it may have ended before that."""
        missing = list(_missing(folder))
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        met = {each for each in (folder, *folder.parents) if self._root in each.parents} - self._met
        self._met |= met
        self._unsynced |= {each.parent: None for each in (*missing, *sorted(met))}


def _missing(folder: Path) -> Iterator[Path]:
    while not folder.exists():
        yield folder
        folder = folder.parent


def _temporary(target: Path) -> Path:
    return target.with_name(target.name + TEMPORARY_SUFFIX)


def _written(target: Path, content: bytes, *, is_synced: bool) -> Path:
    temporary = _temporary(target)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if is_synced:
                _sync(file.fileno(), temporary)
    except BaseException:
        _discard(temporary)
        raise
    return temporary


def _put(target: Path, change: FileChange) -> None:
    """A file that is gone is looked for first: a disk that is mounted read-only refuses to remove it too."""
    if isinstance(change, WriteFile):
        os.replace(_temporary(target), target)
    elif target.exists():
        target.unlink(missing_ok=True)


def _discard(temporary: Path) -> None:
    with suppress(OSError):
        temporary.unlink(missing_ok=True)


def _sync(descriptor: int, path: Path) -> None:
    """Some file systems find room only now: they say so, and nobody was told yet that it is there."""
    try:
        os.fsync(descriptor)
    except OSError as problem:
        if problem.errno in OUT_OF_ROOM and path.name.endswith(TEMPORARY_SUFFIX):
            raise
        raise StorageFailed(f"could not sync {path}: {problem.strerror}") from problem
