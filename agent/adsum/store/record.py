"""What stands under a key. Records are never changed, only replaced, so the table, its frozen views and the
history share them; and they are their own form in a snapshot.

What no Consul client asks for is in `RecordExtras`, which most records do without.
"""

from __future__ import annotations

from msgspec import Struct


class RecordExtras(Struct, frozen=True, gc=False, array_like=True):
    """For locks, and for keyspaces that are trees."""

    token: int = 0  # revision of the grant under which the key is held
    fence: int = 0  # the highest token that a write under this key showed; it never falls
    acl: int = 0
    children: int = 0
    children_created: int = 0  # it never falls: sequence numbers come from it
    children_revision: int = 0


NO_EXTRAS = RecordExtras()


class KeyRecord(Struct, frozen=True, gc=False, array_like=True):
    value: bytes
    create: int  # revision
    modify: int  # revision
    created_ms: int  # wall clock of whoever accepted the command: shown, and never decided by
    modified_ms: int
    flags: int = 0  # 64 bits of the client's
    version: int = 1  # writes since it was created
    lock_index: int = 0  # how often it was acquired; deletion does not reset it
    lease: str | None = None  # the session that holds it
    extras: RecordExtras | None = None

    @property
    def bytes_total(self) -> int:
        return RECORD_OVERHEAD_BYTES + len(self.value)

    @property
    def fence(self) -> int:
        return self.extras.fence if self.extras is not None else 0


RECORD_OVERHEAD_BYTES = 190  # measured, without the key
TOMBSTONE_BYTES = 64


class Tombstone(Struct, frozen=True, gc=False, array_like=True):
    """Where a key was deleted; kept as long as the history remembers that."""

    modify: int  # revision
    lock_index: int = 0
    fence: int = 0

    @property
    def bytes_total(self) -> int:
        return TOMBSTONE_BYTES
