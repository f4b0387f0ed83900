"""A store with entries as the log would bring them."""

from __future__ import annotations

from dataclasses import dataclass, field

from adsum.dedup import DedupKey
from adsum.kv import StoreAnswer, decode_answer
from adsum.raft.types import Entry, EntryKind, Term
from adsum.store.commands import Delete, DeleteTree, Put, StoreCommand, StoreRequest, encode_request
from adsum.store.history import HistoryBounds
from adsum.store.keyspace import Keyspace
from adsum.store.machine import StoreMachine

WALL_MS = 1_700_000_000_000


def entry(index: int, data: bytes, dedup: DedupKey | None = None) -> Entry:
    return Entry(index, Term(1), EntryKind.COMMAND, index * 10, 1, dedup, data)


@dataclass
class Store:
    machine: StoreMachine = field(default_factory=StoreMachine)
    index: int = 0

    @classmethod
    def with_history(cls, changes_max: int, bytes_max: int = 1 << 30) -> Store:
        return cls(StoreMachine(bounds=HistoryBounds(changes_max, bytes_max)))

    @property
    def space(self) -> Keyspace:
        return self.machine.keyspaces[0]

    def run(
        self,
        command: StoreCommand,
        dedup: DedupKey | None = None,
        *,
        seen: int = 0,
        wants_records: bool = False,
    ) -> StoreAnswer:
        self.index += 1
        request = StoreRequest(command, WALL_MS + self.index, seen, wants_records)
        return decode_answer(self.machine.apply(entry(self.index, encode_request(request), dedup)))

    def put(self, key: bytes, value: bytes, cas: int | None = None) -> StoreAnswer:
        return self.run(Put(key, value, cas=cas, skips_equal=True))

    def delete(self, key: bytes, cas: int | None = None) -> StoreAnswer:
        return self.run(Delete(key, cas=cas))

    def delete_tree(self, prefix: bytes) -> StoreAnswer:
        return self.run(DeleteTree(prefix))
