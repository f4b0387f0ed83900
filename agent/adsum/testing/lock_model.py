"""What the store promises about sessions, locks, fences and transactions, written down a second time and as
plainly as can be.

No history, no indexes, no limits. It forgets nothing: of a key that was deleted its fence and its count of
locks, of which the store may forget the count, and may let a higher fence stand for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from msgspec import structs

from adsum.kv import KeyRecord, StoreOutcome
from adsum.raft.types import Entry
from adsum.session import Session, SessionBehavior
from adsum.store.commands import (
    Acquire,
    CreateSession,
    Delete,
    EndSessions,
    ExpireSessions,
    NoteRemaining,
    Put,
    Release,
    RunTransaction,
    StoreCommand,
)
from adsum.transactions import KeyOperation, KeyOperationVerb, Operation

NS_OF_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class LockState:
    """What stands under a key."""

    value: bytes
    create: int
    modify: int
    version: int
    lock_index: int
    holder: str = ""
    token: int = 0
    fence: int = 0

    def is_like(self, record: KeyRecord, *, is_anew: bool) -> bool:
        """After a deletion the store may know less of what was before it."""
        token = record.extras.token if record.extras is not None else 0
        seen = (record.value, record.create, record.modify, record.version, record.lease or "", token)
        should = (self.value, self.create, self.modify, self.version, self.holder, self.token)
        if seen != should:
            return False
        if is_anew:
            is_counted = record.lock_index in (self.lock_index, 1 if self.holder else 0)
            return is_counted and record.fence >= self.fence
        return (record.lock_index, record.fence) == (self.lock_index, self.fence)


class LockExpected(NamedTuple):
    outcome: StoreOutcome
    changes: dict[bytes, LockState | None]
    token: int = 0  # of the grant that an acquire is told
    failed: tuple[int, ...] = ()  # places of operations
    ended: tuple[str, ...] = ()  # sessions
    told: tuple[tuple[bytes, LockState], ...] = ()  # what a transaction shows, in order


class Operated(NamedTuple):
    changes: dict[bytes, LockState | None]
    told: tuple[tuple[bytes, LockState], ...] = ()


NOTHING = LockExpected(StoreOutcome.DONE, {})


class LockModel:
    def __init__(self) -> None:
        self.keys: dict[bytes, LockState] = {}
        self.sessions: dict[str, Session] = {}
        self.gone: dict[str, None] = {}
        self.delays: dict[bytes, int] = {}  # until when, in cluster time
        self.remains: dict[bytes, tuple[int, int]] = {}  # lock index and fence of keys that were deleted
        self.highest_fence = 0  # that any key had
        self._index = self._time_ms = 0

    def run(self, command: StoreCommand, entry: Entry) -> LockExpected:
        self._index, self._time_ms = entry.index, entry.time_ms
        match command:
            case CreateSession(session):
                return self._create(session)
            case EndSessions(ids, term=term):
                if term not in (None, entry.term):
                    return _not(StoreOutcome.REFUSED)
                return self._end([id_ for id_ in dict.fromkeys(ids) if id_ in self.sessions])
            case ExpireSessions(sessions, term):
                if term != entry.term:
                    return _not(StoreOutcome.REFUSED)
                expiring = [
                    id_
                    for id_, renewals in dict(sessions).items()
                    if id_ in self.sessions and self.sessions[id_].renewals == renewals
                ]
                return self._end(expiring)
            case NoteRemaining(sessions, term):
                if term != entry.term:
                    return _not(StoreOutcome.REFUSED)
                self._note(sessions)
                return NOTHING
            case RunTransaction(operations):
                return self._run_all(operations)
            case Acquire() | Release() | Put() | Delete():
                expected = self._run_one(command)
        self._take(expected.changes)
        return expected

    def known_fence(self, key: bytes, record: KeyRecord) -> None:
        """After a deletion, as the store has it."""
        state = self.keys[key]
        self.keys[key] = replace(state, fence=record.fence, lock_index=record.lock_index)

    def floor_is(self, key: bytes, fence: int) -> None:
        """Of a key that is not there the store may have put another's fence in the place of its own."""
        if key not in self.keys and fence <= self.highest_fence:
            lock_index, own = self.remains.get(key, (0, 0))
            self.remains[key] = lock_index, max(own, fence)

    def fence_of(self, key: bytes) -> int:
        state = self.keys.get(key)
        return state.fence if state is not None else self.remains.get(key, (0, 0))[1]

    # Sessions.

    def _create(self, session: Session) -> LockExpected:
        if session.id in self.gone:
            return _not(StoreOutcome.REFUSED)
        self.sessions.setdefault(session.id, session)
        return NOTHING

    def _end(self, ids: list[str]) -> LockExpected:
        changes: dict[bytes, LockState | None] = {}
        for id_ in ids:
            session = self.sessions.pop(id_)
            self.gone[id_] = None
            delay_ms = -(-session.lock_delay_ns // NS_OF_MS)
            for key, state in self.keys.items():
                if state.holder != id_:
                    continue
                is_deleted = session.behavior is SessionBehavior.DELETE
                freed = replace(state, modify=self._index, holder="", token=0)
                changes[key] = None if is_deleted else freed
                if delay_ms:
                    self.delays[key] = self._time_ms + delay_ms
        self._take(changes)
        return LockExpected(StoreOutcome.DONE, changes, ended=tuple(ids))

    def _note(self, sessions: tuple[tuple[str, int | None], ...]) -> None:
        for id_, remaining_ms in sessions:
            if remaining_ms is None and (session := self.sessions.get(id_)) is not None:
                self.sessions[id_] = structs.replace(session, renewals=session.renewals + 1)

    # Keys.

    def _run_one(self, command: Acquire | Release | Put | Delete) -> LockExpected:
        key, token = command.key, command.if_token
        before = self.keys.get(key)
        if isinstance(command, Acquire) and command.session not in self.sessions:
            return _not(StoreOutcome.NO_SESSION)
        if isinstance(command, Release) and (before is None or not before.holder):
            return _not(StoreOutcome.COMPARE_FAILED)
        if token is not None and token > self._index:
            return _not(StoreOutcome.REFUSED)
        if token is not None and token < self.fence_of(key):
            return _not(StoreOutcome.FENCED)
        match command:
            case Acquire(_, value, session):
                if not self._may_hold(key, before, session):
                    return _not(StoreOutcome.HELD)
                after = self._acquired(key, before, value, session, token or 0)
                changes: dict[bytes, LockState | None] = {} if after == before else {key: after}
                return LockExpected(StoreOutcome.DONE, changes, after.token)
            case Release(_, value, session):
                assert before is not None, "else it is refused above"
                if before.holder != session:
                    return _not(StoreOutcome.HELD)
                freed = replace(self._written(key, before, value, token or 0), holder="", token=0)
                freed = replace(freed, modify=self._index, version=before.version + 1)
                return LockExpected(StoreOutcome.DONE, {key: freed})
            case Put(_, value):
                written = self._written(key, before, value, token or 0)
                return LockExpected(StoreOutcome.DONE, {} if written == before else {key: written})
            case Delete():
                changes = {} if before is None else {key: None}
                return LockExpected(StoreOutcome.DONE, changes)

    def _may_hold(self, key: bytes, before: LockState | None, session: str) -> bool:
        if before is not None and before.holder:
            return before.holder == session
        return self.delays.get(key, 0) <= self._time_ms

    def _written(self, key: bytes, before: LockState | None, value: bytes, token: int) -> LockState:
        if before is None:
            lock_index, fence = self.remains.get(key, (0, 0))
            return LockState(value, self._index, self._index, 1, lock_index, fence=max(fence, token))
        fence = max(before.fence, token)
        if (before.value, before.fence) == (value, fence):
            return before
        return replace(before, value=value, fence=fence, modify=self._index, version=before.version + 1)

    def _acquired(
        self, key: bytes, before: LockState | None, value: bytes, session: str, token: int
    ) -> LockState:
        if before is not None and before.holder == session:
            return self._written(key, before, value, token)
        written = self._written(key, before, value, max(token, self._index))
        return replace(written, holder=session, token=self._index, lock_index=written.lock_index + 1)

    def _take(self, changes: dict[bytes, LockState | None]) -> None:
        for key, state in changes.items():
            if state is not None:
                self.keys[key] = state
                self.highest_fence = max(self.highest_fence, state.fence)
                self.remains.pop(key, None)
                continue
            gone = self.keys.pop(key)
            self.remains[key] = gone.lock_index, gone.fence

    # Transactions.

    def _run_all(self, operations: tuple[Operation, ...]) -> LockExpected:
        """Those that fail change nothing, and those behind them are tried all the same."""
        before = dict(self.keys), dict(self.remains), self.highest_fence
        changes: dict[bytes, LockState | None] = {}
        told: list[tuple[bytes, LockState]] = []
        failed: list[int] = []
        for place, operation in enumerate(operations):
            assert isinstance(operation, KeyOperation), "no client asks for anything else"
            operated = self._operated(operation)
            if operated is None:
                failed.append(place)
                continue
            self._take(operated.changes)
            changes |= operated.changes
            told += operated.told
        if failed:
            self.keys, self.remains, self.highest_fence = before
            return LockExpected(StoreOutcome.CONFLICT, {}, failed=tuple(failed))
        return LockExpected(StoreOutcome.DONE, changes, told=tuple(told))

    def _operated(self, operation: KeyOperation) -> Operated | None:
        """None: it fails."""
        key, before = operation.key, self.keys.get(operation.key)
        match operation.verb:
            case KeyOperationVerb.GET:
                return Operated({}, ((key, before),)) if before is not None else None
            case KeyOperationVerb.CHECK_INDEX:
                is_same = before is not None and before.modify == operation.index
                return Operated({}, ((key, before),)) if before is not None and is_same else None
            case KeyOperationVerb.GET_TREE:
                return Operated({}, tuple((each, self.keys[each]) for each in self._below(key)))
            case KeyOperationVerb.DELETE:
                return Operated({key: None} if before is not None else {})
            case KeyOperationVerb.DELETE_TREE:
                return Operated(dict.fromkeys(self._below(key)))
            case _:
                after = self._operated_on(operation, before)
        if after is None:
            return None
        return Operated({key: after} if after != before else {}, ((key, after),))

    def _operated_on(self, operation: KeyOperation, before: LockState | None) -> LockState | None:
        key, value = operation.key, operation.value
        match operation.verb:
            case KeyOperationVerb.SET:
                return self._written(key, before, value, 0)
            case KeyOperationVerb.LOCK:
                is_there = operation.session in self.sessions
                if not is_there or not self._may_hold(key, before, operation.session):
                    return None
                return self._acquired(key, before, value, operation.session, 0)
            case KeyOperationVerb.UNLOCK:
                if before is None or before.holder != operation.session:
                    return None
                written = self._written(key, before, value, 0)
                return replace(written, holder="", token=0, modify=self._index, version=before.version + 1)
            case _:
                raise AssertionError("no client asks for anything else")

    def _below(self, prefix: bytes) -> list[bytes]:
        return sorted(key for key in self.keys if key.startswith(prefix))


def _not(outcome: StoreOutcome) -> LockExpected:
    return LockExpected(outcome, {})
