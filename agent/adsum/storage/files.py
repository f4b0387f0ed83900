"""A folder of files as the Raft log needs it: bytes at offsets, and the moments at which they are safe.

`disk.Disk` writes whole small files and hides how. The log lives on the difference between written, synced
and named, so this door shows exactly that, and nothing more: what passes through it can be lost, torn,
refused or turned over by `adsum.testing.block_disk`, with the log above it unchanged.

- Bytes survive a power loss once `sync` on their file has returned; until then any sector of them may or
  may not.
- A name (new, changed or gone) survives once `sync` on the folder has returned.
- A file's first bytes do not make its name durable, nor the other way round.

Whoever is refused by `StorageFailed` must end the process. After a failed sync Linux marks the pages
clean: asked again, it says yes, and the bytes are nowhere (PostgreSQL learned it in 2018). So nothing here
is tried twice.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

from adsum.logs.system_errors import OUT_OF_ROOM
from adsum.storage.descriptor_reserve import ComplainingPause, DescriptorReserve
from adsum.storage.failures import StorageFailed

SECTOR_BYTES = 512  # the smallest piece a disk writes in whole or not at all


class DiskFull(Exception):
    """No room for a new file or a longer one; what was there before still is. Normal in operation: free
    space."""


class ReadFailed(Exception):
    """The disk says that it cannot read these bytes. Nothing changed; they are to be treated as damaged."""


class File(Protocol):
    def read(self, offset: int, length: int) -> bytes:
        """Shorter only at the end of the file."""

    def write(self, offset: int, content: bytes) -> None: ...

    def sync(self) -> None:
        """The content, and the length if that changed, survive a power loss."""

    def length(self) -> int: ...

    def close(self) -> None: ...


class Folder(Protocol):
    def names(self) -> list[str]:
        """In order."""

    def create(self, name: str) -> File:
        """An empty file, in place of any of that name."""

    def open(self, name: str) -> File: ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, name: str) -> None: ...

    def sync(self) -> None:
        """Names survive a power loss."""


class OsFile:
    def __init__(self, descriptor: int, name: str, reserve: DescriptorReserve | None = None) -> None:
        self._descriptor = descriptor
        self._name = name
        self._reserve = reserve  # to be filled again from what this one took

    def read(self, offset: int, length: int) -> bytes:
        try:
            pieces = list(self._pieces(offset, length))
        except OSError as error:
            raise ReadFailed(f"{self._name} cannot be read at {offset}: {error.strerror}") from error
        return b"".join(pieces)

    def write(self, offset: int, content: bytes) -> None:
        try:
            written = os.pwrite(self._descriptor, content, offset)
            while written < len(content):  # it stopped short for want of room, and says why if asked again
                written += os.pwrite(self._descriptor, content[written:], offset + written)
        except OSError as error:
            raise _ours(error, f"write {self._name}") from error

    def sync(self) -> None:
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            raise _ours(error, f"sync {self._name}") from error

    def length(self) -> int:
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        os.close(self._descriptor)
        if self._reserve is not None:
            self._reserve.fill()

    def _pieces(self, offset: int, length: int) -> Iterator[bytes]:
        while length and (piece := os.pread(self._descriptor, length, offset)):
            yield piece
            offset, length = offset + len(piece), length - len(piece)


class OsFolder:
    """Held by one process at a time: two writers of one log would each be right, and the log wrong."""

    def __init__(self, path: Path) -> None:
        with _failing(f"make the folder {path}"):
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            _sync_path(path.parent)
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise StorageFailed(f"{path} is in use by another process: stop that one first") from None
        reserved = partial(os.dup, self._descriptor)
        self._reserve = DescriptorReserve(reserved, os.close, ComplainingPause())

    def names(self) -> list[str]:
        with _failing(f"list {self._path}"):
            names = self._reserve.opened(lambda: os.listdir(self._path))
        self._reserve.fill()
        return sorted(names)

    def create(self, name: str) -> File:
        with _failing(f"create {name}"):
            return self._opened(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC)

    def open(self, name: str) -> File:
        with _failing(f"open {name}"):
            return self._opened(name, os.O_RDWR)

    def rename(self, old: str, new: str) -> None:
        with _failing(f"rename {old} to {new}"):
            os.rename(self._path / old, self._path / new)

    def remove(self, name: str) -> None:
        with _failing(f"remove {name}"):
            os.unlink(self._path / name)

    def sync(self) -> None:
        with _failing(f"sync the folder {self._path}"):
            os.fsync(self._descriptor)

    def close(self) -> None:
        self._reserve.close()
        os.close(self._descriptor)

    def _opened(self, name: str, flags: int) -> OsFile:
        path = self._path / name
        descriptor = self._reserve.opened(lambda: os.open(path, flags | os.O_CLOEXEC, 0o600))
        return OsFile(descriptor, name, self._reserve)


def write_whole(folder: Folder, name: str, content: bytes) -> None:
    """A small file that is there in whole or, after any accident, as it was before."""
    temporary = name + ".new"
    file = folder.create(temporary)
    try:
        file.write(0, content)
        file.sync()
    finally:
        file.close()
    folder.rename(temporary, name)
    folder.sync()


def read_whole(folder: Folder, name: str) -> bytes:
    file = folder.open(name)
    try:
        return file.read(0, file.length())
    finally:
        file.close()


@contextmanager
def _failing(what: str) -> Iterator[None]:
    """The one place where the system's errors become ours."""
    try:
        yield
    except OSError as error:
        raise _ours(error, what) from error


def _ours(error: OSError, what: str) -> DiskFull | StorageFailed:
    if error.errno in OUT_OF_ROOM:
        return DiskFull(f"could not {what}: no space left")
    return StorageFailed(f"could not {what}: {error.strerror}")


def _sync_path(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
