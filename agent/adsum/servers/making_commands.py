"""From what a client asked to the command that the log carries, and how much larger that makes the store."""

from __future__ import annotations

from adsum.external import ExternalDeregister, ExternalItem, ExternalRegister
from adsum.kv import RECORD_OVERHEAD_BYTES, KeyVerb, KeyWrite
from adsum.session import EndCause, Session, SessionCreate, SessionDestroy
from adsum.store.commands import (
    Acquire,
    CreateSession,
    Delete,
    DeleteTree,
    DeregisterExternal,
    EndSessions,
    Put,
    RegisterExternal,
    Release,
    RunTransaction,
    StoreCommand,
)
from adsum.store.keyspace import Keyspace
from adsum.store_requests import StoreChange
from adsum.transactions import EntryVerb, KeyOperation, KeyOperationVerb, Operation, Transaction

SESSION_BYTES, ITEM_BYTES = 600, 300  # without their texts
DESTROYED = "a client destroyed it"
WRITING = (KeyOperationVerb.SET, KeyOperationVerb.CAS, KeyOperationVerb.LOCK, KeyOperationVerb.UNLOCK)


def command_of(write: KeyWrite | StoreChange) -> StoreCommand:
    if isinstance(write, KeyWrite):
        return _command_of_key(write)
    match write:
        case SessionCreate(session):
            return CreateSession(session)
        case SessionDestroy(session_id):
            return EndSessions((session_id,), EndCause.DESTROYED, DESTROYED)
        case Transaction(operations):
            return RunTransaction(operations)
        case ExternalRegister(items):
            return RegisterExternal(items)
        case ExternalDeregister(node, service_id, check_id):
            return DeregisterExternal(node, service_id, check_id)


def _command_of_key(write: KeyWrite) -> StoreCommand:
    match write.verb:
        case KeyVerb.PUT:
            return Put(
                *(write.key, write.value),
                flags=write.flags,
                cas=write.cas,
                skips_equal=True,
                if_token=write.if_token,
            )
        case KeyVerb.DELETE:
            return Delete(write.key, cas=write.cas, if_token=write.if_token)
        case KeyVerb.DELETE_TREE:
            return DeleteTree(write.key)
        case KeyVerb.ACQUIRE:
            return Acquire(write.key, write.value, write.session, write.flags, if_token=write.if_token)
        case KeyVerb.RELEASE:
            return Release(write.key, write.value, write.session, write.flags, if_token=write.if_token)


def growth_of(write: KeyWrite | StoreChange, space: Keyspace) -> tuple[int, int]:
    """By how many keys and bytes at most; what deletes and ends is nothing."""
    match write:
        case KeyWrite():
            is_put = write.verb in (KeyVerb.PUT, KeyVerb.ACQUIRE, KeyVerb.RELEASE)
            return _growth_by_put(space, write.key, write.value) if is_put else (0, 0)
        case SessionCreate(session):
            return 0, _bytes_of_session(session)
        case Transaction(operations):
            growths = [_growth_by_operation(space, operation) for operation in operations]
            return sum(keys for keys, _bytes in growths), sum(count for _keys, count in growths)
        case ExternalRegister(items):
            return 0, sum(map(_bytes_of_item, items))
        case _:
            return 0, 0


def growth_at_most(write: KeyWrite | Transaction) -> tuple[int, int]:
    """As if none of its keys were there, without a look at each."""
    if isinstance(write, KeyWrite):
        return 1, len(write.key) + RECORD_OVERHEAD_BYTES + len(write.value)
    keys = bytes_ = 0
    for operation in write.operations:
        if not isinstance(operation, KeyOperation):
            bytes_ += _bytes_of_item(operation.item)
        elif operation.verb in WRITING:
            keys += 1
            bytes_ += len(operation.key) + RECORD_OVERHEAD_BYTES + len(operation.value)
    return keys, bytes_


def items_put_by(write: KeyWrite | StoreChange) -> list[ExternalItem]:
    """Of nodes without an agent."""
    match write:
        case ExternalRegister(items):
            return list(items)
        case Transaction(operations):
            return [
                operation.item
                for operation in operations
                if not isinstance(operation, KeyOperation)
                and operation.verb in (EntryVerb.SET, EntryVerb.CAS)
            ]
        case _:
            return []


def _growth_by_operation(space: Keyspace, operation: Operation) -> tuple[int, int]:
    if not isinstance(operation, KeyOperation):
        is_put = operation.verb in (EntryVerb.SET, EntryVerb.CAS)
        return 0, _bytes_of_item(operation.item) if is_put else 0
    if operation.verb in WRITING:
        return _growth_by_put(space, operation.key, operation.value)
    return 0, 0


def _growth_by_put(space: Keyspace, key: bytes, value: bytes) -> tuple[int, int]:
    before = space.get(key)
    if before is None:
        return 1, len(key) + RECORD_OVERHEAD_BYTES + len(value)
    return 0, len(value) - len(before.value)


def _bytes_of_session(session: Session) -> int:
    texts = (session.name, session.node, *session.node_checks, *session.service_checks)
    return SESSION_BYTES + sum(map(len, texts))


def _bytes_of_item(item: ExternalItem) -> int:
    return ITEM_BYTES + len(item.row) + len(item.output)
