"""Transactions: checked whole beside the tables, then done in order under the one revision of their entry.

Each operation sees those before it that did not fail, and all that fail are told, in Consul's words. What
changes nothing is answered by the same code without an entry.

The work of one entry is bounded: trees that are deleted together have as many events as one may have, and the
rest raise the floor; what is read is counted, also where one large key is read 128 times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from adsum.kv import AnswerExtras, KeyRecord, StoreAnswer, StoreOutcome
from adsum.quoting import quote, quote_bytes
from adsum.store import locks, writes
from adsum.store.commands import CONSUL, RunTransaction, StoreRequest
from adsum.store.entry_operations import OperationFailed, PlannedEntries
from adsum.store.external import bytes_of
from adsum.store.key_overlay import KeyOverlay
from adsum.store.keyspace import EVENTS_OF_ONE_ENTRY_MAX, NOTHING_REMAINS, Origin
from adsum.store.session_keys import HELD_KEYS_MAX
from adsum.transactions import (
    KEY_READS,
    EntryOperation,
    EntryVerb,
    KeyOperation,
    KeyOperationVerb,
    KeyResult,
    Operation,
    OperationError,
    Result,
    TransactionAnswer,
    encode_answer,
)

if TYPE_CHECKING:
    from adsum.store.machine import StoreMachine

OPERATIONS_MAX = 128
READ_MAX = 8_192  # records and entries that the answer tells, of all operations that read
READ_BYTES_MAX = 4 << 20
UUID_CHARACTERS = 36

NO_SESSION_ID = f"failed session lookup: index error: UUID must be {UUID_CHARACTERS} characters"
TOO_MANY = f"a transaction has at most {OPERATIONS_MAX} operations"
TOO_MUCH = (
    f"what this transaction reads is more than {READ_MAX} keys or {READ_BYTES_MAX} bytes: read it in parts, "
    "or without a transaction"
)


def run(
    machine: StoreMachine, command: RunTransaction, _request: StoreRequest, origin: Origin
) -> StoreAnswer:
    space = machine.keyspaces[CONSUL]
    if len(command.operations) > OPERATIONS_MAX:
        return machine.refused(TOO_MANY, space.revision)
    planned = PlannedTransaction(machine, origin, command.operations)
    told = planned.plan()
    changes = planned.take_changes()
    extras = AnswerExtras(transaction=encode_answer(told))
    if told.errors:
        return StoreAnswer(StoreOutcome.CONFLICT, space.revision, machine.applied, extras=extras)
    if changes:
        machine.is_changing = True
        for change in changes:
            change()
    revision = origin.revision if planned.has_changed else space.revision
    return StoreAnswer(StoreOutcome.DONE, revision, machine.applied, planned.keys_changed, extras=extras)


def read(machine: StoreMachine, operations: Sequence[Operation]) -> TransactionAnswer:
    """Of a transaction that changes nothing, as things are here."""
    if len(operations) > OPERATIONS_MAX:
        return TransactionAnswer(errors=[OperationError(OPERATIONS_MAX, TOO_MANY)])
    return PlannedTransaction(machine, Origin(0, "", 0), operations).plan()


class PlannedTransaction:
    def __init__(self, machine: StoreMachine, origin: Origin, operations: Sequence[Operation]) -> None:
        self.changes: list[Callable[[], None]] = []
        self._puts: list[tuple[bytes, KeyRecord]] = []  # the last of the changes, if it is one of keys
        self.keys_changed = 0
        self.has_changed = False
        self._machine = machine
        self._space = machine.keyspaces[CONSUL]
        self._origin = origin
        self._keys = KeyOverlay(self._space, origin, machine.cluster_ms)
        self._ended: dict[str, None] = {}
        self._operations = operations
        entries = [operation for operation in operations if isinstance(operation, EntryOperation)]
        self._entries = PlannedEntries(machine, origin, entries)
        self._events_left = EVENTS_OF_ONE_ENTRY_MAX
        self._reads_left, self._bytes_left = READ_MAX, READ_BYTES_MAX

    def plan(self) -> TransactionAnswer:
        """Changes nothing yet."""
        results: list[Result] = []
        errors: list[OperationError] = []
        for place, operation in enumerate(self._operations):
            try:
                results += self._results_of(operation)
            except OperationFailed as error:
                errors.append(OperationError(place, str(error)))
        return TransactionAnswer([] if errors else results, errors)

    def take_changes(self) -> list[Callable[[], None]]:
        """Once: they refer to this, and what refers to itself stays until Python's collector finds it."""
        changes, self.changes = self.changes, []
        return changes

    # Operations.

    def _results_of(self, operation: Operation) -> list[Result]:
        if isinstance(operation, EntryOperation):
            return self._results_of_entry(operation)
        verb = operation.verb
        if verb is KeyOperationVerb.SET:
            return [KeyResult(operation.key, without_value(self._set(operation)), shows_value=False)]
        if verb is KeyOperationVerb.GET_TREE:
            return self._tree(operation.key)
        if verb in (KeyOperationVerb.DELETE, KeyOperationVerb.DELETE_CAS, KeyOperationVerb.DELETE_TREE):
            self._delete(operation)
            return []
        if verb in KEY_READS:
            return self._read(operation)
        return [KeyResult(operation.key, without_value(self._written(operation)), shows_value=False)]

    def _results_of_entry(self, operation: EntryOperation) -> list[Result]:
        results = self._entries.results_of(operation)
        if operation.verb is EntryVerb.GET:
            for found in results:
                self._count_read(bytes_of(found.item))
        for session in self._entries.ending:
            if session.id not in self._ended:
                self._ended[session.id] = None
                self._keys.end(session, locks.delay_ms_of(session))
        for change in self._entries.take_changes():
            self._will(partial(self._change_entry, change))
        return [*results]

    def _read(self, operation: KeyOperation) -> list[Result]:
        key, verb = operation.key, operation.verb
        record, quoted = self._keys.get(key), quote_bytes(key)
        if verb is KeyOperationVerb.CHECK_NOT_EXISTS:
            if record is not None:
                raise OperationFailed(f"key {quoted} exists")
            return []
        if verb is KeyOperationVerb.GET_OR_EMPTY and record is None:
            return [KeyResult(key, None)]
        if record is None:
            what = {KeyOperationVerb.CHECK_INDEX: "failed to check index, "}
            what[KeyOperationVerb.CHECK_SESSION] = "failed to check session, "
            raise OperationFailed(f"{what.get(verb, '')}key {quoted} doesn't exist")
        if verb is KeyOperationVerb.CHECK_INDEX and record.modify != operation.index:
            told = f"current modify index {record.modify} != {operation.index}"
            raise OperationFailed(f"failed index check for key {quoted}, {told}")
        if verb is KeyOperationVerb.CHECK_SESSION and (record.lease or "") != operation.session:
            told = f"current session {quote(record.lease or '')} != {quote(operation.session)}"
            raise OperationFailed(f"failed session check for key {quoted}, {told}")
        if verb in (KeyOperationVerb.GET, KeyOperationVerb.GET_OR_EMPTY):
            self._count_read(len(key) + len(record.value))
            return [KeyResult(key, record)]
        return [KeyResult(key, without_value(record), shows_value=False)]

    def _tree(self, prefix: bytes) -> list[Result]:
        found: list[tuple[bytes, KeyRecord]] = []
        for key, record in self._keys.below(prefix):
            self._count_read(len(key) + len(record.value))
            found.append((key, record))
        return [KeyResult(key, record) for key, record in sorted(found)]

    def _count_read(self, bytes_: int) -> None:
        """One value is always told, however large it is."""
        if self._reads_left <= 0 or self._bytes_left <= 0:
            self._machine.reads_refused += 1
            raise OperationFailed(TOO_MUCH)
        self._reads_left -= 1
        self._bytes_left -= bytes_

    def _set(self, operation: KeyOperation) -> KeyRecord:
        key, before = operation.key, self._keys.get(operation.key)
        remains = self._keys.remains_of(key) if before is None else NOTHING_REMAINS
        after = writes.written(before, remains, operation.value, operation.flags, self._origin, None)
        if after is not before:
            self._keys.put(key, before, after)
            self._will_put(key, after)
        return after

    def _written(self, operation: KeyOperation) -> KeyRecord:
        """By an operation that writes on a condition; as it then is."""
        key, verb = operation.key, operation.verb
        before, content = self._keys.get(key), (operation.value, operation.flags)
        match verb:
            case KeyOperationVerb.LOCK:
                self._check_may_lock(operation, before)
                after = writes.acquired(
                    *(before, self._keys.remains_of(key) if before is None else NOTHING_REMAINS, *content),
                    session=operation.session,
                    origin=self._origin,
                    token=None,
                )
            case KeyOperationVerb.UNLOCK:
                if not operation.session:
                    raise OperationFailed("missing session")
                if before is None or before.lease != operation.session:
                    why = "lock isn't held, or is held by another session"
                    raise OperationFailed(f"failed to unlock key {quote_bytes(key)}, {why}")
                after = writes.released(before, *content, self._origin, None)
            case _:
                if operation.index != (before.modify if before is not None else 0):
                    raise OperationFailed(f"failed to set key {quote_bytes(key)}, index is stale")
                return self._set(operation)
        if after is not before:
            self._keys.put(key, before, after)
            self._will_put(key, after)
        return after

    def _check_may_lock(self, operation: KeyOperation, before: KeyRecord | None) -> None:
        session, quoted = operation.session, quote_bytes(operation.key)
        if not session:
            raise OperationFailed("missing session")
        if session in self._ended or self._machine.sessions.get(session) is None:
            is_id = len(session) == UUID_CHARACTERS
            raise OperationFailed(f"invalid session {quote(session)}" if is_id else NO_SESSION_ID)
        holder = before.lease if before is not None else None
        if holder == session:
            return
        if holder is not None:
            raise OperationFailed(f"failed to lock key {quoted}, lock is already held")
        if self._keys.delay_ms(operation.key):
            raise OperationFailed(f"failed to lock key {quoted} due to lock delay")
        if self._keys.held_by(session) >= HELD_KEYS_MAX:
            raise OperationFailed(f"failed to lock key {quoted}, its session holds {HELD_KEYS_MAX} keys")

    def _delete(self, operation: KeyOperation) -> None:
        key, verb = operation.key, operation.verb
        if verb is KeyOperationVerb.DELETE_TREE:
            self._keys.delete_tree(key)
            self._will(partial(self._take_tree, key))
            return
        before = self._keys.get(key)
        if before is None:
            return
        if verb is KeyOperationVerb.DELETE_CAS and before.modify != operation.index:
            raise OperationFailed(f"failed to delete key {quote_bytes(key)}, index is stale")
        self._keys.delete(key)
        self._will(partial(self._take, key))

    # The changes.

    def _will(self, change: Callable[[], None]) -> None:
        self._puts = []
        self.changes.append(change)

    def _will_put(self, key: bytes, record: KeyRecord) -> None:
        """Puts that follow on each other are done together."""
        if not self._puts:
            puts: list[tuple[bytes, KeyRecord]] = []
            self._will(partial(self._put, puts))
            self._puts = puts
        self._puts.append((key, record))

    def _put(self, puts: list[tuple[bytes, KeyRecord]]) -> None:
        self._space.put_all(puts, self._origin)
        self._note(len(puts))

    def _take(self, key: bytes) -> None:
        self._space.delete(key, self._origin)
        self._note(1)

    def _take_tree(self, prefix: bytes) -> None:
        deleted = self._space.delete_tree(prefix, self._origin, self._events_left)
        self._machine.keep_for_a_while(deleted.let_go)
        self._events_left -= deleted.events
        self._note(deleted.keys)

    def _change_entry(self, change: Callable[[], bool]) -> None:
        self.has_changed |= change()

    def _note(self, keys: int) -> None:
        self.keys_changed += keys
        self.has_changed |= keys > 0


def without_value(record: KeyRecord) -> KeyRecord:
    return KeyRecord(
        b"",
        record.create,
        record.modify,
        record.created_ms,
        record.modified_ms,
        record.flags,
        record.version,
        record.lock_index,
        record.lease,
        record.extras,
    )
