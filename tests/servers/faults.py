"""A folder on the real disk that fails on demand, in whichever thread asks."""

from __future__ import annotations

import threading
from pathlib import Path

from adsum.storage.failures import StorageFailed
from adsum.storage.files import DiskFull, File, OsFolder, ReadFailed


class Faults:
    def __init__(self) -> None:
        self.syncs_fail = False
        self.reads_fail = False
        self.is_full = False
        self.flowing = threading.Event()  # cleared: a sync does not come back
        self.flowing.set()


class FaultyFolder:
    def __init__(self, path: Path, faults: Faults) -> None:
        self._folder = OsFolder(path)
        self._faults = faults

    def names(self) -> list[str]:
        return self._folder.names()

    def create(self, name: str) -> File:
        if self._faults.is_full:
            raise DiskFull(f"could not create {name}: no space left")
        return _FaultyFile(self._folder.create(name), self._faults)

    def open(self, name: str) -> File:
        return _FaultyFile(self._folder.open(name), self._faults)

    def rename(self, old: str, new: str) -> None:
        self._folder.rename(old, new)

    def remove(self, name: str) -> None:
        self._folder.remove(name)

    def sync(self) -> None:
        _sync(self._faults)
        self._folder.sync()

    def close(self) -> None:
        self._folder.close()


class _FaultyFile:
    def __init__(self, file: File, faults: Faults) -> None:
        self._file = file
        self._faults = faults

    def read(self, offset: int, length: int) -> bytes:
        if self._faults.reads_fail:
            raise ReadFailed("could not read: input/output error")
        return self._file.read(offset, length)

    def write(self, offset: int, content: bytes) -> None:
        if self._faults.is_full and offset + len(content) > self._file.length():
            raise DiskFull("could not write: no space left")
        self._file.write(offset, content)

    def sync(self) -> None:
        _sync(self._faults)
        self._file.sync()

    def length(self) -> int:
        return self._file.length()

    def close(self) -> None:
        self._file.close()


def _sync(faults: Faults) -> None:
    faults.flowing.wait()
    if faults.syncs_fail:
        raise StorageFailed("could not sync: input/output error")
