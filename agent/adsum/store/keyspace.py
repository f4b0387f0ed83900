"""One ordered space of keys: its table, its history, its tombstones, and the index of every question about
it.

A key is visible through one keyspace only, and each has revisions of its own that are reported as current:
what happens in one moves no index of another.

Whether something changed since I is asked by its own rules, never by comparing I with the index that would be
reported: an index may be higher than the last change (when the floor is), and a poller that waits for it
would return at once for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct

from adsum.kv import KeyRecord
from adsum.store.deleted_trees import DeletedTrees
from adsum.store.history import Change, History, HistoryBounds
from adsum.store.lock_delays import LockDelays
from adsum.store.session_keys import SessionKeys
from adsum.store.table import KeyTable, TableBlock, end_of
from adsum.store.table_sum import TableSum
from adsum.store.tombstone import Tombstone

EVENTS_OF_ONE_ENTRY_MAX = 8_192  # some 10 ms with fences; a tree with more keys raises the floor instead


class Origin(Struct, frozen=True, gc=False):
    """Of one entry, and so of all that it changes."""

    revision: int
    via: str  # the agent that accepted it
    wall_ms: int  # there


class Remains(NamedTuple):
    """Of a key that is not there: what goes on when it is written again."""

    lock_index: int
    fence: int
    is_by_floor: bool  # the fence is the floor, for nobody remembers this key


NOTHING_REMAINS = Remains(0, 0, is_by_floor=False)  # of a key that is there


class DeletedTree(NamedTuple):
    keys: int
    events: int  # none if the floor rose instead
    let_go: Sequence[object]  # of some hundred records each: to free a million at once takes 100 ms


class Keyspace:
    def __init__(self, name: str, bounds: HistoryBounds) -> None:
        self.name = name
        self.table: KeyTable[KeyRecord] = KeyTable()
        self.history = History(bounds)
        self.revision = 0  # of the last visible change
        self.fence_floor = 0  # the highest fence of a tombstone that is gone: it holds for absent keys
        self.tombstones: KeyTable[Tombstone] = KeyTable()
        self.trees = DeletedTrees()
        self.held = SessionKeys(self.table.get)
        self.delays = LockDelays()
        self.table_sum: TableSum[KeyRecord] = TableSum()
        self.tombstones_sum: TableSum[Tombstone] = TableSum()

    # Questions.

    def get(self, key: bytes) -> KeyRecord | None:
        return self.table.get(key)

    def index_of(self, key: bytes, since: int = 0) -> int:
        record = self.table.get(key)
        return record.modify if record is not None else self._beyond_floor(self._deleted_at(key), since)

    def index_below(self, prefix: bytes, since: int = 0) -> int:
        return self._beyond_floor(self._changed_below(prefix), since)

    def key_changed_since(self, key: bytes, index: int) -> bool:
        record = self.table.get(key)
        if record is not None:
            return record.modify > index
        return index < self.history.floor or self._deleted_at(key) > index

    def prefix_changed_since(self, prefix: bytes, index: int) -> bool:
        return index < self.history.floor or self._changed_below(prefix) > index

    def fence_of(self, key: bytes) -> int:
        """What a token must reach."""
        record = self.table.get(key)
        return record.fence if record is not None else self.remains_of(key).fence

    def remains_of(self, key: bytes) -> Remains:
        """Of an absent key its fence survives in the tombstone, and then in the floor."""
        tombstone = self.tombstones.get(key)
        if tombstone is None:
            return Remains(0, self.fence_floor, is_by_floor=True)
        if not tombstone.fence:
            return Remains(tombstone.lock_index, self.fence_floor, is_by_floor=True)
        return Remains(tombstone.lock_index, tombstone.fence, is_by_floor=False)

    # Changes. `settle` follows on those of one entry.

    def put(self, key: bytes, record: KeyRecord, origin: Origin) -> None:
        """What is known of a key that was deleted goes on from its tombstone: the caller put it into the
        record."""
        before = self.table.put(key, record)
        if before is None and self.tombstones:
            self._unbury(key)
        self._note(key, before, record, origin)

    def put_all(self, puts: Sequence[tuple[bytes, KeyRecord]], origin: Origin) -> None:
        """In their order; at least one."""
        revision, via, wall_ms = origin.revision, origin.via, origin.wall_ms
        for key, record in puts:
            before = self.table.put(key, record)
            if before is None and self.tombstones:
                self._unbury(key)
            self.history.add((revision, key, before, record, via, wall_ms))
            self.table_sum.gathered.append((key, before, record))
            self._moved(key, before, record)
        self.revision = revision

    def delete(self, key: bytes, origin: Origin, fence: int = 0) -> None:
        """With a fence that is at least the key's, or none. Of a key that is not there only the fence is
        written."""
        before = self.table.remove(key)
        if before is not None:
            self._bury(key, before.lock_index, max(before.fence, fence), origin.revision)
        else:
            self._bury(key, self.remains_of(key).lock_index, fence, origin.revision)
        self._note(key, before, None, origin)

    def delete_tree(
        self, prefix: bytes, origin: Origin, events_max: int = EVENTS_OF_ONE_ENTRY_MAX
    ) -> DeletedTree:
        """One event for each of its keys if the history could keep them at all, else the floor rises to here:
        whoever watches is told that it missed something."""
        end, revision = end_of(prefix), origin.revision
        blocks = self.table.cut(prefix, end)
        count = sum([len(block.keys) for block in blocks])
        if not count:
            return DeletedTree(0, 0, [])
        self.revision = revision
        if count > min(events_max, self.history.bounds.changes_max):
            self.table_sum.cut(blocks)
            if any(block.fence for block in blocks):  # whoever acquires a key raises its fence
                self.held.blocks_went()
            return DeletedTree(count, 0, [*blocks, *self._forget_up_to(revision, blocks)])
        for block in blocks:
            for key, record in zip(block.keys, block.entries, strict=True):
                if record.lock_index or record.fence:
                    self._bury(key, record.lock_index, record.fence, revision)
                self._note(key, record, None, origin)
        self.trees.add(prefix, revision)
        return DeletedTree(count, count, blocks)

    def settle(self) -> None:
        for change in self.history.put_out():
            revision, key, _before, after, _via, _wall_ms = change
            if after is None:
                self._put_out_tombstone(key, revision)
        self.trees.forget(self.history.floor)
        self.table_sum.settle()
        self.tombstones_sum.settle()

    def standing(self) -> tuple[int, ...] | None:
        """Equal where all that decides is; None while much that was deleted is still being let go of."""
        table_sum, tombstones_sum = self.table_sum.value, self.tombstones_sum.value
        if table_sum is None or tombstones_sum is None:
            return None
        counts = len(self.table), len(self.tombstones), len(self.trees), len(self.history)
        sizes = self.table.bytes_total, self.history.bytes_total
        floors = self.history.floor, self.fence_floor
        return (self.revision, table_sum, tombstones_sum, self.trees.sum, *counts, *sizes, *floors)

    def let_go(self, count: int) -> None:
        """Of so many blocks of what was deleted."""
        self.table_sum.let_go(count)
        self.tombstones_sum.let_go(count)

    # Inside.

    def _note(self, key: bytes, before: KeyRecord | None, after: KeyRecord | None, origin: Origin) -> None:
        self.history.add((origin.revision, key, before, after, origin.via, origin.wall_ms))
        self.table_sum.gathered.append((key, before, after))
        self.revision = origin.revision
        self._moved(key, before, after)

    def _moved(self, key: bytes, before: KeyRecord | None, after: KeyRecord | None) -> None:
        held_by = before.lease if before is not None else None
        holds = after.lease if after is not None else None
        if held_by != holds:
            self.held.move(key, held_by, holds)

    def _bury(self, key: bytes, lock_index: int, fence: int, revision: int) -> None:
        tombstone = Tombstone(revision, lock_index, fence)
        before = self.tombstones.put(key, tombstone)
        self.tombstones_sum.gathered.append((key, before, tombstone))

    def _unbury(self, key: bytes) -> None:
        before = self.tombstones.remove(key)
        if before is not None:
            self.tombstones_sum.gathered.append((key, before, None))

    def _deleted_at(self, key: bytes) -> int:
        tombstone = self.tombstones.get(key)
        return max(tombstone.modify if tombstone is not None else 0, self.trees.over(key))

    def _changed_below(self, prefix: bytes) -> int:
        if not prefix:
            return self.revision
        end = end_of(prefix)
        return max(
            self.table.newest(prefix, end),
            self.tombstones.newest(prefix, end),
            self.trees.over(prefix),
            self.trees.below(prefix),
        )

    def _beyond_floor(self, changed: int, since: int) -> int:
        """Who is below the floor is told the newest revision: it would be below the next floor, too, and be
        answered again by every write."""
        return max(changed, self.revision if since < self.history.floor else since)

    def _put_out_tombstone(self, key: bytes, revision: int) -> None:
        tombstone = self.tombstones.get(key)
        if tombstone is not None and tombstone.modify == revision:
            self._unbury(key)
            self.fence_floor = max(self.fence_floor, tombstone.fence)

    def _forget_up_to(
        self, revision: int, blocks: Sequence[TableBlock[KeyRecord]]
    ) -> list[TableBlock[Tombstone] | Sequence[Change]]:
        """Of these blocks, too, no tombstones are kept. What was remembered, in handfuls."""
        tombstones = self.tombstones.cut(b"", None)
        self.tombstones_sum.cut(tombstones)
        fences = [*[block.fence for block in blocks], *[block.fence for block in tombstones]]
        self.fence_floor = max([self.fence_floor, *fences])
        return [*tombstones, *self.history.clear(revision)]
