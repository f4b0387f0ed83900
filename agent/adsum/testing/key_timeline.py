"""What stood under each key at each index of the log, as the model has it."""

from __future__ import annotations

from bisect import bisect_right

from adsum.kv import KeyRead, KeysFound, ReadShape
from adsum.testing.key_model import Stored, stored_of


class KeyTimeline:
    def __init__(self) -> None:
        self._indexes: dict[bytes, list[int]] = {}  # at which each key changed
        self._states: dict[bytes, list[Stored | None]] = {}  # to what
        self._below: dict[bytes, list[int]] = {}  # by prefix; asked for when all changes are in

    def changed(self, index: int, key: bytes, stored: Stored | None) -> None:
        self._indexes.setdefault(key, []).append(index)
        self._states.setdefault(key, []).append(stored)

    def changes(self, read: KeyRead) -> list[int]:
        """At which indexes something of it changed, rising."""
        if read.shape is ReadShape.KEY:
            return self._indexes.get(read.key, [])
        if read.key not in self._below:
            found = {index for key in self.keys_of(read) for index in self._indexes[key]}
            self._below[read.key] = sorted(found)
        return self._below[read.key]

    def keys_of(self, read: KeyRead) -> list[bytes]:
        """All that ever were there."""
        if read.shape is ReadShape.KEY:
            return [read.key]
        return sorted(key for key in self._indexes if key.startswith(read.key))

    def at(self, key: bytes, index: int) -> Stored | None:
        position = bisect_right(self._indexes.get(key, []), index)
        return self._states[key][position - 1] if position else None

    def fits(self, read: KeyRead, found: KeysFound, index: int) -> bool:
        """Whether that is what stood there."""
        states = ((key, self.at(key, index)) for key in self.keys_of(read))
        there = [(key, stored) for key, stored in states if stored is not None]
        if found.keys != [key for key, _stored in there]:
            return False
        shown = [stored_of(record) for record in found.records]
        return read.shape is ReadShape.NAMES or shown == [stored for _key, stored in there]
