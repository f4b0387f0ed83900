"""Keys taken and given back by sessions, and what becomes of them when a session ends.

A grant's fencing token is the revision of its entry. It stands in the record while the key is held, and the
key's fence rises to it, so that whoever held the key before is refused where tokens are asked for.

An end frees all keys in its own entry, and each gets the session's lock-delay: whoever held them may not know
yet, and need some time to stop. Who releases knows, so nobody waits for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adsum.kv import AnswerExtras, StoreAnswer, StoreOutcome
from adsum.session import LOCK_DELAY_NS_MAX, EndCause, EndedSession, Session, SessionBehavior
from adsum.store import writes
from adsum.store.commands import Acquire, Release, StoreRequest
from adsum.store.key_commands import fenced_off
from adsum.store.keyspace import NOTHING_REMAINS, Origin
from adsum.store.session_keys import HELD_KEYS_MAX

if TYPE_CHECKING:
    from adsum.store.machine import StoreMachine

NS_OF_MS = 1_000_000
HOLDS_TOO_MANY = (
    f"this session holds {HELD_KEYS_MAX} keys, and one may not hold more: release some, or take others with "
    "another session"
)


def acquire(machine: StoreMachine, command: Acquire, request: StoreRequest, origin: Origin) -> StoreAnswer:
    space, key = machine.keyspaces[command.keyspace], command.key
    if machine.sessions.get(command.session) is None:
        return StoreAnswer(StoreOutcome.NO_SESSION, space.revision, machine.applied)
    token = command.if_token
    if token is not None and (refused := fenced_off(machine, space, key, token)):
        return refused
    before = space.get(key)
    holder = before.lease if before is not None else None
    if holder != command.session:
        extras = None
        if holder is not None:
            extras = AnswerExtras(holder=holder)
        elif delay_ms := space.delays.left_ms(key, machine.cluster_ms):
            extras = AnswerExtras(delay_ms=delay_ms)
        if extras is not None:
            shown = before if request.wants_records else None
            return StoreAnswer(
                StoreOutcome.HELD, space.revision, machine.applied, 0, shown, shown, extras=extras
            )
        if machine.keys_held_by(command.session) >= HELD_KEYS_MAX:
            return machine.refused(HOLDS_TOO_MANY, space.revision)
    after = writes.acquired(
        before,
        space.remains_of(key) if before is None else NOTHING_REMAINS,
        command.value,
        command.flags,
        session=command.session,
        origin=origin,
        token=token,
    )
    assert after.extras is not None, "it has the token of its grant"
    extras = AnswerExtras(token=after.extras.token)
    revision, count = space.revision, 0
    if after is not before:
        machine.is_changing = True
        space.put(key, after, origin)
        revision, count = origin.revision, 1
    if request.wants_records:
        return StoreAnswer(StoreOutcome.DONE, revision, machine.applied, count, before, after, extras)
    return StoreAnswer(StoreOutcome.DONE, revision, machine.applied, count, extras=extras)


def release(machine: StoreMachine, command: Release, request: StoreRequest, origin: Origin) -> StoreAnswer:
    """By the holder, who need not know whether its session is still there."""
    space, key = machine.keyspaces[command.keyspace], command.key
    before = space.get(key)
    if before is None or before.lease is None:
        return machine.unchanged(StoreOutcome.COMPARE_FAILED, space, before, request)
    token = command.if_token
    if token is not None and (refused := fenced_off(machine, space, key, token)):
        return refused
    if before.lease != command.session:
        shown = before if request.wants_records else None
        extras = AnswerExtras(holder=before.lease)
        return StoreAnswer(StoreOutcome.HELD, space.revision, machine.applied, 0, shown, shown, extras)
    after = writes.released(before, command.value, command.flags, origin, token)
    machine.is_changing = True
    space.put(key, after, origin)
    if request.wants_records:
        return StoreAnswer(StoreOutcome.DONE, origin.revision, machine.applied, 1, before, after)
    return StoreAnswer(StoreOutcome.DONE, origin.revision, machine.applied, 1)


def end(machine: StoreMachine, session: Session, cause: EndCause, evidence: str, origin: Origin) -> int:
    """How many keys it held."""
    machine.is_changing = True
    until_ms = machine.cluster_ms + delay_ms_of(session)
    count = 0
    for space in machine.keyspaces:
        held = space.held.records_of(session.id)
        for key, record in held:
            if session.behavior is SessionBehavior.DELETE:
                space.delete(key, origin)
            else:
                space.put(key, writes.freed(record, origin), origin)
        if until_ms > machine.cluster_ms:
            space.delays.start([key for key, _record in held], until_ms)
        space.held.forget(session.id)
        count += len(held)
    machine.sessions.end(EndedSession(session, cause, evidence, origin.revision, origin.wall_ms, count))
    return count


def delay_ms_of(session: Session) -> int:
    return -(-min(session.lock_delay_ns, LOCK_DELAY_NS_MAX) // NS_OF_MS)
