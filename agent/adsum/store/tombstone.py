"""What stands where a key was: the record itself is a word that all share (`adsum.kv`)."""

from __future__ import annotations

from msgspec import Struct

TOMBSTONE_BYTES = 64


class Tombstone(Struct, frozen=True, gc=False, array_like=True):
    """Where a key was deleted; kept as long as the history remembers that."""

    modify: int  # revision
    lock_index: int = 0
    fence: int = 0

    @property
    def bytes_total(self) -> int:
        return TOMBSTONE_BYTES
