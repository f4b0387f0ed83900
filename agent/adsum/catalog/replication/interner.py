"""Deltas by their bytes, so that one that arrives eight times is decoded once.

An agent needs no more than that. What comes of applying them goes through here too, for a simulation gives
a thousand agents one that shares it (`testing.shared_states`).

Bounded by two halves: when the young half is full it becomes the old one, and what is found in the old one
moves over. What is in use stays.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from adsum.catalog.replication import state as states
from adsum.catalog.replication.deltas import PUSH_BYTES_MAX, Delta, decode
from adsum.catalog.replication.state import OwnerState

DELTAS_MAX = 1_024  # 50 s of 20 changes a second

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Halves(Generic[Key, Value]):
    def __init__(self, entries_max: int) -> None:
        self._half_max = entries_max // 2
        self.young: dict[Key, Value] = {}
        self._old: dict[Key, Value] = {}

    def get(self, key: Key) -> Value | None:
        value = self.young.get(key)
        if value is None:
            value = self._old.get(key)
            if value is not None:
                self.put(key, value)
        return value

    def put(self, key: Key, value: Value) -> None:
        if len(self.young) >= self._half_max:
            self._old, self.young = self.young, {}
        self.young[key] = value


class Interner:
    applied = staticmethod(states.applied)
    span = staticmethod(states.span_of)
    collected = staticmethod(states.collected)

    def __init__(self, deltas_max: int = DELTAS_MAX, *, kept_bytes_max: int = PUSH_BYTES_MAX) -> None:
        self._deltas: Halves[bytes, Delta] = Halves(deltas_max)
        self._kept_bytes_max = kept_bytes_max  # a range comes once

    @property
    def recent(self) -> dict[bytes, Delta]:
        """What is most likely asked for, for a loop that cannot afford a call each."""
        return self._deltas.young

    def delta(self, encoded: bytes) -> Delta:
        delta = self._deltas.get(encoded)
        if delta is None:
            delta = decode(encoded)
            if len(encoded) <= self._kept_bytes_max:
                self._deltas.put(encoded, delta)
        return delta

    def fresh(self, owner: bytes, generation: int) -> OwnerState:
        return OwnerState(owner, generation)
