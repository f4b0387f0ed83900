"""The keys of a keyspace as they would be after the operations of a transaction so far: what is written
stands beside the table, so nothing has to be copied or taken back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TypeAlias

from adsum.kv import KeyRecord
from adsum.session import Session, SessionBehavior
from adsum.store import writes
from adsum.store.keyspace import Keyspace, Origin, Remains
from adsum.store.table import end_of

Range: TypeAlias = tuple[bytes, bytes | None]


class KeyOverlay:
    def __init__(self, space: Keyspace, origin: Origin, cluster_ms: int) -> None:
        self._space = space
        self._origin = origin
        self._cluster_ms = cluster_ms
        self._written: dict[bytes, KeyRecord | Remains] = {}
        self._trees: list[bytes] = []  # prefixes below which all was deleted, but for what was written
        self._delays_ms: dict[bytes, int] = {}  # of sessions that the transaction ends
        self._more_held: Counter[str] = Counter()  # keys, by session; below zero, too

    def get(self, key: bytes) -> KeyRecord | None:
        found = self._written.get(key)
        if found is not None:
            return found if isinstance(found, KeyRecord) else None
        return None if self._trees and self._is_in_tree(key) else self._space.table.get(key)

    def remains_of(self, key: bytes) -> Remains:
        found = self._written.get(key)
        if isinstance(found, Remains):
            return found
        record = self._space.get(key) if self._is_in_tree(key) else None
        return self._after(record) if record is not None else self._space.remains_of(key)

    def delay_ms(self, key: bytes) -> int:
        return self._delays_ms.get(key, 0) or self._space.delays.left_ms(key, self._cluster_ms)

    def held_by(self, session: str) -> int:
        return self._space.held.count(session, self._more_held[session])

    def put(self, key: bytes, before: KeyRecord | None, record: KeyRecord) -> None:
        """`before`: as it is until now."""
        self._count(before, record)
        self._written[key] = record

    def delete(self, key: bytes) -> None:
        record = self.get(key)
        if record is not None:
            self._count(record, None)
            self._written[key] = self._after(record)

    def delete_tree(self, prefix: bytes) -> None:
        for key in [each for each in self._written if each.startswith(prefix)]:
            self.delete(key)
        self._trees.append(prefix)

    def end(self, session: Session, delay_ms: int) -> None:
        written = [
            key
            for key, found in self._written.items()
            if isinstance(found, KeyRecord) and found.lease == session.id
        ]
        for key in dict.fromkeys([*written, *self._space.held.of(session.id)]):
            record = self.get(key)
            if record is None or record.lease != session.id:
                continue
            self._delays_ms[key] = delay_ms
            if session.behavior is SessionBehavior.DELETE:
                self.delete(key)
            else:
                self.put(key, record, writes.freed(record, self._origin))

    def below(self, prefix: bytes) -> Iterator[tuple[bytes, KeyRecord]]:
        """Ascending within the table, then what was written."""
        for first, end in self._ranges(prefix):
            for key, record in self._space.table.items(first, end):
                if key not in self._written:
                    yield key, record
        for key, found in self._written.items():
            if isinstance(found, KeyRecord) and key.startswith(prefix):
                yield key, found

    # Inside.

    def _is_in_tree(self, key: bytes) -> bool:
        return any(key.startswith(prefix) for prefix in self._trees)

    def _after(self, record: KeyRecord) -> Remains:
        if record.fence:
            return Remains(record.lock_index, record.fence, is_by_floor=False)
        return Remains(record.lock_index, self._space.fence_floor, is_by_floor=True)

    def _count(self, before: KeyRecord | None, after: KeyRecord | None) -> None:
        held_by = before.lease if before is not None else None
        holds = after.lease if after is not None else None
        if held_by == holds:
            return
        if held_by is not None:
            self._more_held[held_by] -= 1
        if holds is not None:
            self._more_held[holds] += 1

    def _ranges(self, prefix: bytes) -> list[Range]:
        """Of the table below the prefix, without a step into what is deleted."""
        ranges: list[Range] = [(prefix, end_of(prefix))]
        for tree in self._trees:
            ranges = [rest for each in ranges for rest in _without(each, (tree, end_of(tree)))]
        return ranges


def _without(one: Range, other: Range) -> Iterator[Range]:
    first, end = one
    other_first, other_end = other
    if (other_end is not None and other_end <= first) or (end is not None and end <= other_first):
        yield one
        return
    if first < other_first:
        yield first, other_first
    if other_end is not None and (end is None or other_end < end):
        yield other_end, end
