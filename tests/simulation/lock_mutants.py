"""Sessions, locks, fences and transactions of the store with one rule broken. The swarm of locks, or the race
for a lock-delay, has to notice every one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from msgspec import structs

from adsum.kv import KeyRecord, RecordExtras, StoreAnswer, StoreOutcome
from adsum.session import EndCause, Session
from adsum.sessions import deadlines
from adsum.store import locks, machine, writes
from adsum.store.commands import Acquire, Release, RunTransaction, StoreRequest
from adsum.store.key_overlay import KeyOverlay
from adsum.store.keyspace import Keyspace, Origin
from adsum.store.lock_delays import LockDelays
from adsum.store.machine import StoreMachine
from adsum.store.session_keys import SessionKeys
from adsum.store.table import end_of
from adsum.store.transactions import PlannedTransaction
from adsum.transactions import KeyOperation, Result

Mutation = Callable[[pytest.MonkeyPatch], None]

HANDLERS: dict[Any, machine.Handler] = cast("dict[Any, machine.Handler]", machine.HANDLERS)

# Lock-delays.


def delays_are_not_in_the_snapshot(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LockDelays, "load", lambda _self, _delays: None)


def delays_go_by_the_wall_clock(patch: pytest.MonkeyPatch) -> None:
    acquire, end = locks.acquire, locks.end

    def at(store: StoreMachine, wall_ms: int, action: Callable[[], Any]) -> Any:
        cluster_ms, store.cluster_ms = store.cluster_ms, wall_ms
        try:
            return action()
        finally:
            store.cluster_ms = cluster_ms

    def acquire_by_wall(
        store: StoreMachine, command: Acquire, request: StoreRequest, origin: Origin
    ) -> StoreAnswer:
        answer: StoreAnswer = at(store, request.wall_ms, lambda: acquire(store, command, request, origin))
        return answer

    def end_by_wall(
        store: StoreMachine, session: Session, cause: EndCause, evidence: str, origin: Origin
    ) -> int:
        count: int = at(store, origin.wall_ms, lambda: end(store, session, cause, evidence, origin))
        return count

    patch.setitem(HANDLERS, Acquire, acquire_by_wall)
    patch.setattr(locks, "end", end_by_wall)


def expired_sessions_leave_no_delay(patch: pytest.MonkeyPatch) -> None:
    end = locks.end

    def at_once(store: StoreMachine, session: Session, cause: EndCause, evidence: str, origin: Origin) -> int:
        with pytest.MonkeyPatch.context() as inner:
            if cause is EndCause.EXPIRED:
                inner.setattr(locks, "delay_ms_of", lambda _session: 0)
            return end(store, session, cause, evidence, origin)

    patch.setattr(locks, "end", at_once)


def transactions_wait_for_no_delay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyOverlay, "delay_ms", lambda _self, _key: 0)


# Tokens and fences.


def grants_raise_no_fence(patch: pytest.MonkeyPatch) -> None:
    acquired = writes.acquired

    def without_fence(before: KeyRecord | None, *rest: Any, **named: Any) -> KeyRecord:
        after = acquired(before, *rest, **named)
        assert after.extras is not None, "it has the token of its grant"
        fence = before.fence if before is not None else 0
        return structs.replace(after, extras=RecordExtras(after.extras.token, fence))

    patch.setattr(writes, "acquired", without_fence)


def lower_tokens_are_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("adsum.store.key_commands.fenced_off", lambda *_machine_space_key_token: None)


def tokens_are_kept_over_a_release(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writes, "without_token", lambda extras: extras)


def the_next_holder_has_the_token_of_the_last(patch: pytest.MonkeyPatch) -> None:
    acquired = writes.acquired

    def as_before(before: KeyRecord | None, *rest: Any, origin: Origin, **named: Any) -> KeyRecord:
        if before is not None and before.lock_index:
            origin = structs.replace(origin, revision=before.fence)
        return acquired(before, *rest, origin=origin, **named)

    patch.setattr(writes, "acquired", as_before)


def a_deleted_key_forgets_its_fence(patch: pytest.MonkeyPatch) -> None:
    bury = Keyspace._bury

    def without_fence(self: Keyspace, key: bytes, lock_index: int, _fence: int, revision: int) -> None:
        bury(self, key, lock_index, 0, revision)

    patch.setattr(Keyspace, "_bury", without_fence)


# Who holds what.


def anybody_may_release(patch: pytest.MonkeyPatch) -> None:
    release = locks.release

    def as_holder(
        store: StoreMachine, command: Release, request: StoreRequest, origin: Origin
    ) -> StoreAnswer:
        record = store.keyspaces[command.keyspace].get(command.key)
        if record is not None and record.lease is not None:
            command = structs.replace(command, session=record.lease)
        return release(store, command, request, origin)

    patch.setitem(HANDLERS, Release, as_holder)


def ended_sessions_hold_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SessionKeys, "records_of", lambda _self, _session: [])


def sessions_expire_when_one_ttl_has_passed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deadlines, "LATE_FACTOR", 1)


# Transactions.


def transactions_keep_what_came_before_a_failure(patch: pytest.MonkeyPatch) -> None:
    run = HANDLERS[RunTransaction]

    def in_part(
        store: StoreMachine, command: RunTransaction, request: StoreRequest, origin: Origin
    ) -> StoreAnswer:
        answer = run(store, command, request, origin)
        if answer.outcome is StoreOutcome.CONFLICT:
            planned = PlannedTransaction(store, origin, command.operations)
            planned.plan()
            store.is_changing = bool(planned.changes)
            for change in planned.changes:
                change()
        return answer

    patch.setitem(HANDLERS, RunTransaction, in_part)


def operations_do_not_see_those_before_them(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyOverlay, "get", lambda self, key: self._space.get(key))


def a_tree_that_is_deleted_still_shows(patch: pytest.MonkeyPatch) -> None:
    """To the operations behind it."""
    patch.setattr(KeyOverlay, "delete_tree", lambda _self, _prefix: None)


def a_tree_is_told_as_it_was_before_the_transaction(patch: pytest.MonkeyPatch) -> None:
    def below(self: KeyOverlay, prefix: bytes) -> Iterator[tuple[bytes, KeyRecord]]:
        return self._space.table.items(prefix, end_of(prefix))

    patch.setattr(KeyOverlay, "below", below)


def a_key_that_is_read_may_be_missing(patch: pytest.MonkeyPatch) -> None:
    read = PlannedTransaction._read

    def or_nothing(self: PlannedTransaction, operation: KeyOperation) -> list[Result]:
        is_there = self._keys.get(operation.key) is not None
        return read(self, operation) if is_there else []

    patch.setattr(PlannedTransaction, "_read", or_nothing)


def a_deletion_in_a_transaction_frees_the_lock_only(patch: pytest.MonkeyPatch) -> None:
    def freed(self: PlannedTransaction, key: bytes) -> None:
        record = self._space.get(key)
        if record is not None:
            self._space.put(key, writes.freed(record, self._origin), self._origin)

    patch.setattr(PlannedTransaction, "_take", freed)
