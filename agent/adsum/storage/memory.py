"""A disk that lasts as long as its process: for `-dev`, and under the simulated disk."""

from __future__ import annotations

from adsum.effects import FileChange, WriteFile
from adsum.storage.disk import DAMAGED_SUFFIX, Disk


class MemoryDisk(Disk):
    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def read(self, path: str) -> bytes | None:
        return self.files.get(path)

    def names(self, folder: str) -> list[str]:
        below = (path.removeprefix(folder) for path in self.files if path.startswith(folder))
        return sorted(name for name in below if "/" not in name and not name.endswith(DAMAGED_SUFFIX))

    def change(self, changes: tuple[FileChange, ...]) -> None:
        for change in changes:
            if isinstance(change, WriteFile):
                self.files[change.path] = change.content
            else:
                self.files.pop(change.path, None)

    def replace(self, path: str, content: bytes) -> None:
        self.files[path] = content

    def set_aside(self, path: str) -> str:
        aside = path + DAMAGED_SUFFIX
        self.files[aside] = self.files.pop(path)
        return aside
