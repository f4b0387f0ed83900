"""Sessions begin and end, and what a leader notes of them for the next one.

What a leader proposes is done only in the term in which it proposed it: whoever was leader once, and paused,
ends nobody's session. One entry ends sessions until so many keys are freed, or so many sessions have ended;
the others stay, and the leader sees that they are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adsum.external import ExternalKind
from adsum.kv import StoreAnswer, StoreOutcome
from adsum.session import EndCause, Session
from adsum.store import locks
from adsum.store.commands import CreateSession, EndSessions, ExpireSessions, NoteRemaining, StoreRequest
from adsum.store.external import NO_NODE
from adsum.store.keyspace import Origin

if TYPE_CHECKING:
    from adsum.store.machine import StoreMachine

ENDS_OF_ONE_ENTRY_MAX = 1_024
FREED_BY_ONE_ENTRY_MAX = 2_048  # keys; the session that reaches it still ends as a whole

HAS_ENDED = "this session has ended already; a new one needs another id"
OTHER_TERM = "a leader of another term proposed this"


def create(
    machine: StoreMachine, command: CreateSession, _request: StoreRequest, origin: Origin
) -> StoreAnswer:
    """One that is there was created by an earlier attempt of the same request, and is answered as then. A
    node without an agent is kept here, so it is known whether it is still there."""
    known = machine.sessions.get(command.session.id)
    if known is not None:
        return StoreAnswer(StoreOutcome.DONE, known.create, machine.applied)
    if command.session.id in machine.sessions.ended:
        return machine.refused(HAS_ENDED, machine.sessions.revision)
    session = command.session
    if not session.node_id and machine.external.get(session.node, ExternalKind.NODE) is None:
        return machine.refused(NO_NODE, machine.sessions.revision)
    machine.is_changing = True
    machine.sessions.create(session, origin.revision)
    return StoreAnswer(StoreOutcome.DONE, origin.revision, machine.applied)


def end(machine: StoreMachine, command: EndSessions, _request: StoreRequest, origin: Origin) -> StoreAnswer:
    if command.term not in (None, machine.term):
        return machine.refused(OTHER_TERM, machine.sessions.revision)
    present = [session for id_ in dict.fromkeys(command.ids) if (session := machine.sessions.get(id_))]
    return end_all(machine, present, command.cause, command.evidence, origin)


def expire(
    machine: StoreMachine, command: ExpireSessions, _request: StoreRequest, origin: Origin
) -> StoreAnswer:
    if command.term != machine.term:
        return machine.refused(OTHER_TERM, machine.sessions.revision)
    present = [
        session
        for id_, renewals in dict(command.sessions).items()
        if (session := machine.sessions.get(id_)) and session.renewals == renewals
    ]
    return end_all(machine, present, EndCause.EXPIRED, "it was not renewed in twice its TTL", origin)


def note_remaining(
    machine: StoreMachine, command: NoteRemaining, _request: StoreRequest, _origin: Origin
) -> StoreAnswer:
    if command.term != machine.term:
        return machine.refused(OTHER_TERM, machine.sessions.revision)
    for id_, remaining_ms in command.sessions:
        session = machine.sessions.get(id_)
        if session is not None:
            machine.is_changing = True
            machine.sessions.renew(session, remaining_ms)
    return StoreAnswer(StoreOutcome.DONE, machine.sessions.revision, machine.applied)


def end_all(
    machine: StoreMachine, sessions: list[Session], cause: EndCause, evidence: str, origin: Origin
) -> StoreAnswer:
    _ended, freed = end_first(machine, sessions, cause, evidence, origin)
    revision = origin.revision if sessions else machine.sessions.revision
    return StoreAnswer(StoreOutcome.DONE, revision, machine.applied, freed)


def end_first(
    machine: StoreMachine, sessions: list[Session], cause: EndCause, evidence: str, origin: Origin
) -> tuple[int, int]:
    """As many as one entry may end: how many those are, and how many keys they held."""
    ended = freed = 0
    for session in sessions[:ENDS_OF_ONE_ENTRY_MAX]:
        freed += locks.end(machine, session, cause, evidence, origin)
        ended += 1
        if freed >= FREED_BY_ONE_ENTRY_MAX:
            break
    return ended, freed
