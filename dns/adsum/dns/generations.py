"""Memory that a flood cannot sweep clean: what is asked for again and again stays, what is asked once goes.

There are two generations. What is new, and what is asked for again, belongs to the young one; when that is
full it becomes the old one, and what the old one still held is forgotten. So whoever asks for a million
different things in a row costs those that everybody asks for no more than a move from one to the other.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Generations(Generic[Key, Value]):
    def __init__(self, *, values_max: int, bytes_max: int) -> None:
        self._values_max = values_max // 2  # of each generation
        self._bytes_max = bytes_max // 2
        self._young: dict[Key, tuple[Value, int]] = {}
        self._old: dict[Key, tuple[Value, int]] = {}
        self._young_bytes = 0
        self.turns = 0  # how often the young became the old

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, key: Key) -> Value | None:
        found = self._young.get(key)
        if found is None:
            found = self._old.pop(key, None)
            if found is None:
                return None
            self.put(key, *found)
        return found[0]

    def put(self, key: Key, value: Value, size_bytes: int) -> None:
        """`key` is new. What is larger than a generation is kept alone in one."""
        if len(self._young) >= self._values_max or self._young_bytes + size_bytes > self._bytes_max:
            self._old, self._young, self._young_bytes = self._young, {}, 0
            self.turns += 1
        self._young[key] = value, size_bytes
        self._young_bytes += size_bytes

    def forget(self) -> None:
        self._old, self._young, self._young_bytes = {}, {}, 0
