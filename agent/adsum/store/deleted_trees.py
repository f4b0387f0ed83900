"""Prefixes below which everything was deleted, with the revision: one tombstone, however many keys there
were."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Container
from zlib import crc32

from adsum.store.table import KeyTable, end_of
from adsum.store.tombstone import Tombstone


class DeletedTrees:
    def __init__(self) -> None:
        self._newest: KeyTable[Tombstone] = KeyTable()  # by prefix
        self._in_order: deque[tuple[int, bytes]] = deque()
        self._lengths: Counter[int] = Counter()  # of prefixes; keys are looked up cut to these
        self.sum = 0  # of checksums of all

    def __len__(self) -> int:
        return len(self._newest)

    def add(self, prefix: bytes, revision: int) -> None:
        if self._newest.put(prefix, Tombstone(revision)) is None:
            self._lengths[len(prefix)] += 1
        self._in_order.append((revision, prefix))
        self.sum += crc32(b"%d %b" % (revision, prefix))

    def over(self, key: bytes) -> int:
        """When a tree was deleted that this key, or all below this prefix, lies in; 0 if none was."""
        newest = 0
        for length in self._lengths:
            if length <= len(key):
                found = self._newest.get(key[:length])
                newest = max(newest, found.modify if found is not None else 0)
        return newest

    def deleted_at(self, revisions: Container[int]) -> list[tuple[int, bytes]]:
        """Those of these revisions. All are looked through."""
        return [(revision, prefix) for revision, prefix in self._in_order if revision in revisions]

    def below(self, prefix: bytes) -> int:
        return self._newest.newest(prefix, end_of(prefix))

    def forget(self, floor: int) -> None:
        """Those up to there: the floor itself stands for them."""
        while self._in_order and self._in_order[0][0] <= floor:
            revision, prefix = self._in_order.popleft()
            self.sum -= crc32(b"%d %b" % (revision, prefix))
            found = self._newest.get(prefix)
            if found is not None and found.modify == revision:
                self._newest.remove(prefix)
                self._lengths[len(prefix)] -= 1
                if not self._lengths[len(prefix)]:
                    del self._lengths[len(prefix)]

    def all(self) -> list[tuple[int, bytes]]:
        return list(self._in_order)
