"""Operations of a transaction on nodes without an agent, their services and checks.

They are tried on a small table that has only what they are about, by the rules of the real one, and so each
sees those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from adsum.external import ExternalItem, ExternalKind
from adsum.quoting import quote
from adsum.session import Session
from adsum.store import external_commands
from adsum.store.external import SERVICE_MISSING
from adsum.store.external_commands import DEREGISTERED, RENAMED
from adsum.store.keyspace import Origin
from adsum.transactions import EntryOperation, EntryResult, EntryVerb, Result

if TYPE_CHECKING:
    from adsum.store.machine import StoreMachine

COMPARING = (EntryVerb.CAS, EntryVerb.DELETE_CAS)
NOT_TOLD_HERE = "failed inserting node: "  # as a registration begins


class OperationFailed(Exception):
    """The message is told."""


class PlannedEntries:
    def __init__(self, machine: StoreMachine, origin: Origin, operations: Sequence[EntryOperation]) -> None:
        self.changes: list[Callable[[], bool]] = []
        self.ending: list[Session] = []  # by the last operation
        self._machine = machine
        self._origin = origin
        self._part = machine.external.part_for([operation.item for operation in operations])

    def results_of(self, operation: EntryOperation) -> list[Result]:
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

    # Inside.

    def _found(self, item: ExternalItem) -> ExternalItem | None:
        if item.kind is ExternalKind.NODE:
            return self._part.node_of(item)
        return self._part.get(item.node, item.kind, item.id)

    def _set(self, item: ExternalItem) -> ExternalItem:
        part, revision, wall_ms = self._part, self._origin.revision, self._origin.wall_ms
        if refusal := part.why_not((item,)):
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

    def _end_sessions_on(self, node: str, evidence: str) -> None:
        self.ending = external_commands.sessions_on(self._machine, node)
        self.changes.append(
            partial(external_commands.end_sessions_on, self._machine, node, evidence, self._origin)
        )


def _named(item: ExternalItem) -> str:
    match item.kind:
        case ExternalKind.NODE:
            return f"node {quote(item.node)}"
        case ExternalKind.SERVICE:
            return f"service {quote(item.id)} on node {quote(item.node)}"
        case ExternalKind.CHECK:
            return f"check {quote(item.id)} on node {quote(item.node)}"
