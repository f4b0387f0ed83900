"""What became of a key, from the history that the store keeps for watchers."""

from __future__ import annotations

from adsum.kv import KeyRecord
from adsum.kv_history import KeyChange, KeyChangeKind, KeyHistory
from adsum.store.keyspace import Keyspace

CHANGES_SHOWN_MAX = 20


def history_of(space: Keyspace, key: bytes, waiting: int) -> KeyHistory:
    found = space.history.of(key, CHANGES_SHOWN_MAX + 1)
    shown = found[-CHANGES_SHOWN_MAX:]
    deletions = {change[0] for change in shown if change[3] is None}
    deleted = space.trees.deleted_at(deletions) if deletions else []
    of_trees = {revision for revision, prefix in deleted if key.startswith(prefix)}
    changes = []
    for revision, _key, before, after, via, wall_ms in shown:
        is_of_tree = revision in of_trees
        changes.append(KeyChange(revision, _kind(before, after, is_of_tree=is_of_tree), wall_ms, via))
    record = space.get(key)
    last = changes[-1].revision if changes else 0
    return KeyHistory(
        changes,
        is_cut=len(found) > CHANGES_SHOWN_MAX,
        exists=record is not None,
        revision=record.modify if record is not None else last,
        version=record.version if record is not None else 0,
        floor=space.history.floor,
        waiting=waiting,
    )


def _kind(before: KeyRecord | None, after: KeyRecord | None, *, is_of_tree: bool) -> KeyChangeKind:
    if after is None:
        return KeyChangeKind.TREE_DELETED if is_of_tree else KeyChangeKind.DELETED
    if before is None:
        return KeyChangeKind.CREATED
    is_same = (before.value, before.flags, before.lease) == (after.value, after.flags, after.lease)
    return KeyChangeKind.SAME_VALUE if is_same else KeyChangeKind.CHANGED
