"""What a write makes of a record, as commands and operations of transactions have it in common.

A fence goes on from what a key left behind when it was deleted. Of a key that nobody remembers it is the
floor of its keyspace: were it left out, whoever held the key long ago could write under its old token, once
somebody had written the key anew. Extras that say only that are shared by all records that do.

Under a held key its fence is at least its token: the grant raised it.
"""

from __future__ import annotations

from functools import lru_cache

from adsum.kv import KeyRecord, RecordExtras
from adsum.store.keyspace import Origin, Remains


@lru_cache(maxsize=16)
def fence_alone(fence: int) -> RecordExtras | None:
    return RecordExtras(fence=fence) if fence else None


def written(
    before: KeyRecord | None, remains: Remains, value: bytes, flags: int, origin: Origin, token: int | None
) -> KeyRecord:
    """A plain write under a fencing token, or none. The record itself if nothing would be changed."""
    if before is None:
        fence = max(remains.fence, token or 0)
        return created(remains.lock_index, value, flags, origin, None, fence_alone(fence))
    extras = before.extras
    if token is not None and token > before.fence:
        extras = with_fence(extras, token)
    if before.value == value and before.flags == flags and before.extras == extras:
        return before
    return changed(before, value, flags, origin, before.lease, before.lock_index, extras)


def acquired(
    before: KeyRecord | None,
    remains: Remains,
    value: bytes,
    flags: int,
    *,
    session: str,
    origin: Origin,
    token: int | None,
) -> KeyRecord:
    """By a session, of a key that is free or its own already. The record itself if nothing would be
    changed."""
    grant = origin.revision
    if before is None:
        fence = max(remains.fence, token or 0, grant)
        extras = RecordExtras(grant, fence)
        return created(remains.lock_index + 1, value, flags, origin, session, extras)
    if before.lease == session:
        return written(before, remains, value, flags, origin, token)
    fence = max(before.fence, token or 0, grant)
    extras = _extras(before.extras, grant, fence)
    return changed(before, value, flags, origin, session, before.lock_index + 1, extras)


def released(before: KeyRecord, value: bytes, flags: int, origin: Origin, token: int | None) -> KeyRecord:
    """By its holder."""
    extras = without_token(with_fence(before.extras, max(before.fence, token or 0)))
    return changed(before, value, flags, origin, None, before.lock_index, extras)


def freed(before: KeyRecord, origin: Origin) -> KeyRecord:
    """Its holder has ended: nobody wrote anything."""
    return KeyRecord(
        *(before.value, before.create, origin.revision, before.created_ms, origin.wall_ms, before.flags),
        *(before.version, before.lock_index, None, without_token(before.extras)),
    )


def created(
    lock_index: int,
    value: bytes,
    flags: int,
    origin: Origin,
    lease: str | None,
    extras: RecordExtras | None,
) -> KeyRecord:
    revision, wall_ms = origin.revision, origin.wall_ms
    return KeyRecord(value, revision, revision, wall_ms, wall_ms, flags, 1, lock_index, lease, extras)


def changed(
    before: KeyRecord,
    value: bytes,
    flags: int,
    origin: Origin,
    lease: str | None,
    lock_index: int,
    extras: RecordExtras | None,
) -> KeyRecord:
    return KeyRecord(
        value,
        before.create,
        origin.revision,
        before.created_ms,
        origin.wall_ms,
        flags,
        before.version + 1,
        lock_index,
        lease,
        extras,
    )


def with_fence(before: RecordExtras | None, fence: int) -> RecordExtras:
    return _extras(before, before.token if before is not None else 0, fence)


def without_token(before: RecordExtras | None) -> RecordExtras | None:
    return _extras(before, 0, before.fence) if before is not None and before.token else before


def _extras(before: RecordExtras | None, token: int, fence: int) -> RecordExtras:
    if before is None:
        return RecordExtras(token, fence)
    return RecordExtras(
        token, fence, before.acl, before.children, before.children_created, before.children_revision
    )
