"""What the store promises about keys, written down a second time and as plainly as can be: a checker that
asked the store itself would believe what the store believes.

No history, no indexes, no limits: a dict, and one command after the other.
"""

from __future__ import annotations

from typing import NamedTuple

from adsum.kv import KeyRecord, StoreOutcome
from adsum.store.commands import Delete, DeleteTree, Put, StoreCommand


class Stored(NamedTuple):
    value: bytes
    flags: int
    create: int
    modify: int
    version: int


def stored_of(record: KeyRecord) -> Stored:
    return Stored(record.value, record.flags, record.create, record.modify, record.version)


class Expected(NamedTuple):
    """Of one command."""

    outcome: StoreOutcome
    revision: int
    changes: dict[bytes, Stored | None]


class KeyModel:
    def __init__(self) -> None:
        self.keys: dict[bytes, Stored] = {}
        self.revision = 0  # of the last change

    def run(self, command: StoreCommand, index: int) -> Expected:
        changes: dict[bytes, Stored | None] = {}
        match command:
            case Put(key, cas=cas) if not self._is_met(key, cas):
                return Expected(StoreOutcome.COMPARE_FAILED, self.revision, {})
            case Put(key, value, flags=flags):
                before = self.keys.get(key)
                if before is None:
                    changes[key] = Stored(value, flags, index, index, 1)
                elif (before.value, before.flags) != (value, flags):
                    changes[key] = Stored(value, flags, before.create, index, before.version + 1)
            case Delete(key, cas=cas) if key in self.keys:
                if not self._is_met(key, cas):
                    return Expected(StoreOutcome.COMPARE_FAILED, self.revision, {})
                changes[key] = None
            case DeleteTree(prefix):
                changes = {key: None for key in sorted(self.keys) if key.startswith(prefix)}
        for key, stored in changes.items():
            self.revision = index
            if stored is not None:
                self.keys[key] = stored
            else:
                del self.keys[key]
        return Expected(StoreOutcome.DONE, self.revision, changes)

    def _is_met(self, key: bytes, cas: int | None) -> bool:
        stored = self.keys.get(key)
        return cas is None or cas == (stored.modify if stored is not None else 0)
