"""Lists of keys, each walked in turns of some milliseconds: a million keys take too long for one turn, and of
a crowd that asks for the same not everybody walks it.

A list is of one moment: what the first turn does not suffice for goes on in a frozen view of the table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Protocol, TypeAlias

import trio

from adsum.kv import KeyRead, KeyRecord, KeysFound, ReadShape
from adsum.store.keyspace import Keyspace
from adsum.store.table import FrozenTable, end_of

KEYS_PER_TURN = 65_536  # some 3 ms
FOLDERS_PER_TURN = 2_048  # some 8 ms
LISTS_KEPT_MAX = 4  # as long as nothing changes

Wake: TypeAlias = Callable[[], None]


class AwaitsList(Protocol):
    is_over: bool  # nobody waits for it any more

    def answer(self, found: KeysFound) -> None: ...


class KeyList:
    """What is asked for in one read, and in all that are like it."""

    def __init__(self, space: Keyspace, read: KeyRead) -> None:
        self.keys: list[bytes] = []
        self.records: list[KeyRecord] = []
        self.revision = space.revision  # as of which it is
        self.is_whole = False
        self.waiting: list[tuple[AwaitsList, KeysFound]] = []
        self._read = read
        self._table: FrozenTable[KeyRecord] = space.table
        self.walk()
        if not self.is_whole:
            self._table = space.table.freeze()

    def walk(self) -> None:
        """One turn."""
        read, keys = self._read, self.keys
        last, begun_with = keys[-1] if keys else None, len(keys)
        if read.separator:
            keys += islice(self._table.folders(read.key, read.separator, last), FOLDERS_PER_TURN)
            self.is_whole = len(keys) < begun_with + FOLDERS_PER_TURN
            return
        first = read.key if last is None else last + b"\x00"
        for some_keys, some_records in self._table.slices(first, end_of(read.key)):
            keys += some_keys
            if read.shape is ReadShape.TREE:
                self.records += some_records
            if len(keys) >= begun_with + KEYS_PER_TURN:
                return
        self.is_whole = True


class KeyLists:
    def __init__(self, wake_all: Callable[[list[Wake]], None]) -> None:
        self._wake_all = wake_all
        self._newest: dict[tuple[ReadShape, bytes, bytes], KeyList] = {}

    def find(self, space: Keyspace, read: KeyRead) -> KeyList:
        """As it is now, as far as one turn goes."""
        asked = (read.shape, read.key, read.separator)
        found = self._newest.get(asked)
        if found is None or found.revision != space.revision:
            found = self._newest[asked] = KeyList(space, read)
            if len(self._newest) > LISTS_KEPT_MAX:
                del self._newest[next(iter(self._newest))]
            if not found.is_whole:
                self._later(found)
        return found

    def changed(self, revision: int) -> None:
        if self._newest:
            kept = {asked: each for asked, each in self._newest.items() if each.revision == revision}
            self._newest = kept

    def _go_on(self, walked: KeyList) -> None:
        if all(asker.is_over for asker, _found in walked.waiting):
            self._newest = {asked: each for asked, each in self._newest.items() if each is not walked}
            return
        walked.walk()
        if not walked.is_whole:
            self._later(walked)
            return
        waiting, walked.waiting = walked.waiting, []
        self._wake_all([partial(_tell, asker, found) for asker, found in waiting])

    def _later(self, walked: KeyList) -> None:
        trio.lowlevel.current_trio_token().run_sync_soon(self._go_on, walked)


def _tell(asker: AwaitsList, found: KeysFound) -> None:
    if not asker.is_over:
        asker.answer(found)
