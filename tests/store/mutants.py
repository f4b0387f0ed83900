"""Rules of sessions, locks and transactions, each broken on purpose."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias

import pytest

from adsum.kv import KeyRecord, RecordExtras
from adsum.session import EndedSession, Session
from adsum.store import key_commands, locks, machine, session_commands, writes
from adsum.store.commands import Acquire, EndSessions, ExpireSessions, Release
from adsum.store.key_overlay import KeyOverlay
from adsum.store.keyspace import Keyspace, Remains
from adsum.store.lock_delays import LockDelays
from adsum.store.session_keys import SessionKeys
from adsum.store.sessions import SessionTable
from adsum.store.transactions import PlannedTransaction

Mutation: TypeAlias = Callable[[pytest.MonkeyPatch], None]
Handler: TypeAlias = Callable[..., Any]


def _handled(patch: pytest.MonkeyPatch, command: type, changed: Callable[[Handler], Handler]) -> None:
    handler = machine.HANDLERS[command]
    patch.setitem(machine.HANDLERS, command, wraps(handler)(changed(handler)))


def delays_are_lost_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LockDelays, "load", lambda _self, _delays: None)


def an_end_starts_no_delay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(locks, "delay_ms_of", lambda _session: 0)


def a_release_starts_a_delay(patch: pytest.MonkeyPatch) -> None:
    def changed(handler: Handler) -> Handler:
        def release(of: Any, command: Release, *rest: Any) -> Any:
            answer = handler(of, command, *rest)
            of.keyspaces[0].delays.start([command.key], of.cluster_ms + 50)
            return answer

        return release

    _handled(patch, Release, changed)


def a_leader_of_before_is_believed(patch: pytest.MonkeyPatch) -> None:
    def changed(handler: Handler) -> Handler:
        def expire(of: Any, command: ExpireSessions, *rest: Any) -> Any:
            return handler(of, ExpireSessions(command.sessions, of.term), *rest)

        return expire

    _handled(patch, ExpireSessions, changed)


def renewals_do_not_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SessionTable, "renew", lambda _self, _session, _remaining_ms: None)


def ended_sessions_keep_their_keys(patch: pytest.MonkeyPatch) -> None:
    def changed(_handler: Handler) -> Handler:
        def end(of: Any, command: EndSessions, request: Any, origin: Any) -> Any:
            for id_ in command.ids:
                session: Session | None = of.sessions.get(id_)
                if session is not None:
                    of.is_changing = True
                    of.sessions.end(EndedSession(session, command.cause, "", origin.revision, 0, 0))
            return session_commands.end(of, EndSessions((), command.cause), request, origin)

        return end

    _handled(patch, EndSessions, changed)


def what_is_deleted_forgets_its_lock_index(patch: pytest.MonkeyPatch) -> None:
    bury = Keyspace._bury
    patch.setattr(Keyspace, "_bury", lambda self, key, _lock_index, *rest: bury(self, key, 0, *rest))


def a_grant_does_not_raise_the_fence(patch: pytest.MonkeyPatch) -> None:
    def without(before: Any, token: int, _fence: int) -> Any:
        return RecordExtras(token, before.fence if before is not None else 0)

    patch.setattr(writes, "_extras", without)


def tokens_are_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(key_commands, "fenced_off", lambda *_: None)


def _free(record: KeyRecord) -> KeyRecord:
    return KeyRecord(
        *(record.value, record.create, record.modify, record.created_ms, record.modified_ms, record.flags),
        *(record.version, record.lock_index, None, record.extras),
    )


def the_holder_is_not_asked(patch: pytest.MonkeyPatch) -> None:
    def changed(handler: Handler) -> Handler:
        def acquire(of: Any, command: Acquire, *rest: Any) -> Any:
            record = of.keyspaces[0].get(command.key)
            if record is not None and record.lease is not None and of.sessions.get(command.session):
                of.keyspaces[0].put(command.key, _free(record), rest[-1])
            return handler(of, command, *rest)

        return acquire

    _handled(patch, Acquire, changed)


def held_keys_are_not_read_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SessionKeys, "load", lambda _self, _keys, _records: None)


def operations_do_not_see_trees_that_went(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyOverlay, "_is_in_tree", lambda _self, _key: False)


def what_is_written_anew_forgets_what_was_deleted_before_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyOverlay, "_after", lambda _self, _record: Remains(0, 0, is_by_floor=True))


def a_transaction_that_fails_does_what_did_not(patch: pytest.MonkeyPatch) -> None:
    plan = PlannedTransaction.plan

    def planned(self: PlannedTransaction) -> Any:
        told = plan(self)
        for change in self.changes:
            change()
        self.changes = []
        return told

    patch.setattr(PlannedTransaction, "plan", planned)


def sessions_that_a_transaction_ends_may_lock_in_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyOverlay, "end", lambda _self, _session, _delay_ms: None)


def what_was_deleted_in_a_transaction_is_read_from_the_table(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KeyOverlay, "delete", lambda _self, _key: None)
