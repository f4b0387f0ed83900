"""Operations of a transaction on nodes without an agent, their services and checks.

They are tried on a small table that has only what they are about, by the rules of the real one, and so each
sees those before it. A node goes with all its sessions or stays: where they are more than one entry may end,
the operation fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from adsum.external import ExternalItem, ExternalKind
from adsum.quoting import quote
from adsum.session import EndCause, Session
from adsum.store import external_commands, locks
from adsum.store.external import SERVICE_MISSING
from adsum.store.external_commands import DEREGISTERED, RENAMED, STILL_ENDING
from adsum.store.keyspace import Origin
from adsum.store.session_commands import ENDS_OF_ONE_ENTRY_MAX, FREED_BY_ONE_ENTRY_MAX
from adsum.transactions import EntryOperation, EntryResult, EntryVerb

if TYPE_CHECKING:
    from adsum.store.machine import StoreMachine

COMPARING = (EntryVerb.CAS, EntryVerb.DELETE_CAS)
NOT_TOLD_HERE = "failed inserting node: "  # as a registration begins
TOO_MANY_SESSIONS = (
    f"node {{}} has more sessions than one entry ends, {ENDS_OF_ONE_ENTRY_MAX} or those that hold "
    f"{FREED_BY_ONE_ENTRY_MAX} keys: deregister it without a transaction"
)


class OperationFailed(Exception):
    """The message is told."""


class PlannedEntries:
    def __init__(self, machine: StoreMachine, origin: Origin, operations: Sequence[EntryOperation]) -> None:
        self.changes: list[Callable[[], bool]] = []
        self.ending: list[Session] = []  # by the last operation
        self._ended: dict[str, None] = {}  # by those so far
        self._freed = 0  # keys that they held before
        self._machine = machine
        self._origin = origin
        self._part = machine.external.part_for([operation.item for operation in operations])

    def results_of(self, operation: EntryOperation) -> list[EntryResult]:
        self.changes, self.ending = [], []
        item, verb = operation.item, operation.verb
        if verb is EntryVerb.GET:
            found = self._found(item)
            if found is None:
                raise OperationFailed(f"{_named(item)} doesn't exist")
            return [EntryResult(found)]
        before = self._part.get(item.node, item.kind, item.id)
        if verb in (EntryVerb.SET, EntryVerb.CAS):
            if verb is EntryVerb.CAS and item.modify != (before.modify if before is not None else 0):
                raise OperationFailed(f"failed to set {_named(item)}, index is stale")
            return [EntryResult(self._set(item))]
        if verb is EntryVerb.DELETE_CAS and (before is None or before.modify != item.modify):
            raise OperationFailed(f"failed to delete {_named(item)}, index is stale")
        if before is not None:
            self._delete(item)
        return []

    def take_changes(self) -> list[Callable[[], bool]]:
        """Of the last operation, once, as those of a whole transaction."""
        changes, self.changes = self.changes, []
        return changes

    # Inside.

    def _found(self, item: ExternalItem) -> ExternalItem | None:
        if item.kind is ExternalKind.NODE:
            return self._part.node_of(item)
        return self._part.get(item.node, item.kind, item.id)

    def _set(self, item: ExternalItem) -> ExternalItem:
        part, revision, wall_ms = self._part, self._origin.revision, self._origin.wall_ms
        if refusal := part.why_not((item,)) or self._why_not_yet(item):
            is_of_service = SERVICE_MISSING in refusal
            raise OperationFailed(SERVICE_MISSING if is_of_service else refusal.removeprefix(NOT_TOLD_HERE))
        if item.kind is ExternalKind.NODE and (gone := part.renamed_from(item)) is not None:
            self._end_sessions_on(gone, RENAMED)
        part.put(item, revision, wall_ms)
        self.changes.append(partial(self._machine.external.put, item, revision, wall_ms))
        found = part.get(item.node, item.kind, item.id)
        assert found is not None, "it was put there"
        return found

    def _delete(self, item: ExternalItem) -> None:
        service_id = item.id if item.kind is ExternalKind.SERVICE else ""
        check_id = item.id if item.kind is ExternalKind.CHECK else ""
        if item.kind is ExternalKind.NODE:
            self._end_sessions_on(item.node, DEREGISTERED)
        gone = item.node, service_id, check_id, self._origin.revision
        self._part.remove(*gone)
        self.changes.append(partial(self._machine.external.remove, *gone))

    def _why_not_yet(self, item: ExternalItem) -> str:
        """As a registration; those whom this transaction ends are in nobody's way."""
        if item.kind is not ExternalKind.NODE or self._part.get(item.node, ExternalKind.NODE) is not None:
            return ""
        left = [each for each in self._sessions_on(item.node) if each.id not in self._ended]
        return STILL_ENDING.format(item.node, len(left)) if left else ""

    def _end_sessions_on(self, node: str, evidence: str) -> None:
        ending, freed = list[Session](), self._freed
        for session in self._sessions_on(node):
            if session.id in self._ended:
                continue
            if len(self._ended) + len(ending) == ENDS_OF_ONE_ENTRY_MAX or freed >= FREED_BY_ONE_ENTRY_MAX:
                raise OperationFailed(TOO_MANY_SESSIONS.format(quote(node)))
            ending.append(session)
            freed += sum([len(space.held.of(session.id)) for space in self._machine.keyspaces])
        self.ending, self._freed = ending, freed
        self._ended |= dict.fromkeys(session.id for session in ending)
        self.changes.append(partial(self._end, ending, evidence))

    def _end(self, sessions: list[Session], evidence: str) -> bool:
        for session in sessions:
            locks.end(self._machine, session, EndCause.NODE_GONE, evidence, self._origin)
        return bool(sessions)

    def _sessions_on(self, node: str) -> list[Session]:
        return external_commands.sessions_on(self._machine, node)


def _named(item: ExternalItem) -> str:
    match item.kind:
        case ExternalKind.NODE:
            return f"node {quote(item.node)}"
        case ExternalKind.SERVICE:
            return f"service {quote(item.id)} on node {quote(item.node)}"
        case ExternalKind.CHECK:
            return f"check {quote(item.id)} on node {quote(item.node)}"
