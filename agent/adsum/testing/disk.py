"""A disk that loses what was not synced when the power goes.

It tells two losses apart: a killed process leaves every completed change, a power loss only the durable ones.
A test against `OsDisk` holds the two to the same behaviour while the power stays on.
"""

from __future__ import annotations

from adsum.storage.memory import MemoryDisk


class SimulatedDisk(MemoryDisk):
    def __init__(self) -> None:
        super().__init__()
        self._durable: dict[str, bytes] = {}

    def write_durably(self, path: str, content: bytes) -> None:
        super().write_durably(path, content)
        self._durable[path] = content

    def remove_durably(self, path: str) -> None:
        super().remove_durably(path)
        self._durable.pop(path, None)

    def set_aside(self, path: str) -> str:
        aside = super().set_aside(path)
        if path in self._durable:
            self._durable[aside] = self._durable.pop(path)
        return aside

    # What happens to it.

    def lose_power(self) -> None:
        self.files = dict(self._durable)

    def rot(self, path: str) -> None:
        """One bit of a file turns over."""
        content = self.files[path]
        self.files[path] = self._durable[path] = content[:-1] + bytes([content[-1] ^ 1])
