"""A store with entries as the log would bring them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from adsum.dedup import DedupKey
from adsum.kv import KeyRecord, StoreAnswer, decode_answer
from adsum.raft.types import Entry, EntryKind, Term
from adsum.session import EndCause, Session, SessionBehavior
from adsum.store.commands import (
    Acquire,
    CreateSession,
    Delete,
    DeleteTree,
    EndSessions,
    Put,
    Release,
    StoreCommand,
    StoreRequest,
    encode_request,
)
from adsum.store.history import HistoryBounds
from adsum.store.keyspace import Keyspace
from adsum.store.machine import StoreMachine

WALL_MS = 1_700_000_000_000


def entry(
    index: int,
    data: bytes,
    dedup: DedupKey | None = None,
    *,
    term: int = 1,
    time_ms: int | None = None,
    level: int = 2,
) -> Entry:
    time_ms = index * 10 if time_ms is None else time_ms
    return Entry(index, Term(term), EntryKind.COMMAND, time_ms, level, dedup, data)


@dataclass
class Store:
    machine: StoreMachine = field(default_factory=StoreMachine)
    index: int = 0
    term: int = 1
    level: int = 2
    time_ms: int | None = None  # cluster time; else 10 ms an entry

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
        time_ms = self.time_ms if self.time_ms is not None else self.index * 10
        data = encode_request(request)
        return decode_answer(
            self.machine.apply(
                entry(self.index, data, dedup, term=self.term, time_ms=time_ms, level=self.level)
            )
        )

    def put(self, key: bytes, value: bytes, cas: int | None = None) -> StoreAnswer:
        return self.run(Put(key, value, cas=cas, skips_equal=True))

    def delete(self, key: bytes, cas: int | None = None) -> StoreAnswer:
        return self.run(Delete(key, cas=cas))

    def delete_tree(self, prefix: bytes) -> StoreAnswer:
        return self.run(DeleteTree(prefix))

    def create(
        self,
        id_: str,
        *,
        node: str = "n1",
        lock_delay_ms: int = 0,
        behavior: SessionBehavior = SessionBehavior.RELEASE,
    ) -> StoreAnswer:
        delay_ns = lock_delay_ms * 1_000_000
        session = Session(id_, node, b"uuid", 1, 0, lock_delay_ns=delay_ns, behavior=behavior)
        return self.run(CreateSession(session))

    def end(self, *ids: str) -> StoreAnswer:
        return self.run(EndSessions(ids, EndCause.DESTROYED))

    def acquire(
        self, key: bytes, session: str, value: bytes = b"", if_token: int | None = None
    ) -> StoreAnswer:
        return self.run(Acquire(key, value, session, if_token=if_token))

    def release(
        self, key: bytes, session: str, value: bytes = b"", if_token: int | None = None
    ) -> StoreAnswer:
        return self.run(Release(key, value, session, if_token=if_token))

    def record(self, key: bytes) -> KeyRecord:
        record = self.space.get(key)
        assert record is not None
        return record

    def restarted(self) -> Store:
        """Another server that starts from a snapshot of this one."""
        other = StoreMachine(bounds=self.space.history.bounds)
        other.restore(other.read(self.machine.snapshot()))
        self.machine.let_go(1_000_000)  # before that there is no hash
        assert other.hash() == self.machine.hash() is not None
        return replace(self, machine=other)
