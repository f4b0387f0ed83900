"""A folder of files in memory: the log of a server that keeps nothing, as `-dev` is one."""

from __future__ import annotations

from adsum.storage.files import File


class MemoryFile:
    def __init__(self) -> None:
        self._content = bytearray()

    def read(self, offset: int, length: int) -> bytes:
        return bytes(self._content[offset : offset + length])

    def write(self, offset: int, content: bytes) -> None:
        if offset > len(self._content):
            self._content += bytes(offset - len(self._content))
        self._content[offset : offset + len(content)] = content

    def sync(self) -> None:
        """There is nothing that it could survive."""

    def length(self) -> int:
        return len(self._content)

    def close(self) -> None:
        """It can be opened again."""


class MemoryFolder:
    def __init__(self) -> None:
        self._files: dict[str, MemoryFile] = {}

    def names(self) -> list[str]:
        return sorted(self._files)

    def create(self, name: str) -> File:
        self._files[name] = made = MemoryFile()
        return made

    def open(self, name: str) -> File:
        return self._files[name]

    def rename(self, old: str, new: str) -> None:
        self._files[new] = self._files.pop(old)

    def remove(self, name: str) -> None:
        del self._files[name]

    def sync(self) -> None:
        """As for files."""

    def close(self) -> None:
        """Nobody else can hold it."""
