"""A disk that loses what was not synced when the power goes.

It tells two losses apart: a killed process leaves every completed change, a power loss only the durable ones.
A test against `OsDisk` holds the two to the same behaviour while the power stays on.
"""

from __future__ import annotations

from adsum.storage.disk import DAMAGED_SUFFIX


class SimulatedDisk:
    def __init__(self) -> None:
        self._seen: dict[str, bytes] = {}
        self._durable: dict[str, bytes] = {}

    def read(self, path: str) -> bytes | None:
        return self._seen.get(path)

    def names(self, folder: str) -> list[str]:
        below = (path.removeprefix(folder) for path in self._seen if path.startswith(folder))
        return sorted(name for name in below if "/" not in name and not name.endswith(DAMAGED_SUFFIX))

    def write_durably(self, path: str, content: bytes) -> None:
        self._seen[path] = self._durable[path] = content

    def remove_durably(self, path: str) -> None:
        self._seen.pop(path, None)
        self._durable.pop(path, None)

    def replace(self, path: str, content: bytes) -> None:
        self._seen[path] = content

    def set_aside(self, path: str) -> str:
        aside = path + DAMAGED_SUFFIX
        self._seen[aside] = self._seen.pop(path)
        if path in self._durable:
            self._durable[aside] = self._durable.pop(path)
        return aside

    # What happens to it.

    def lose_power(self) -> None:
        self._seen = dict(self._durable)

    def rot(self, path: str) -> None:
        """One bit of a file turns over."""
        content = self._seen[path]
        self._seen[path] = self._durable[path] = content[:-1] + bytes([content[-1] ^ 1])
