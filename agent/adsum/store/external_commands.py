"""Nodes without an agent are registered and deregistered. A node that goes takes its sessions along, in the
same entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adsum.external import ExternalKind
from adsum.kv import StoreAnswer, StoreOutcome
from adsum.session import EndCause, Session
from adsum.store import locks
from adsum.store.commands import DeregisterExternal, RegisterExternal, StoreRequest
from adsum.store.keyspace import Origin

if TYPE_CHECKING:
    from adsum.store.machine import StoreMachine

DEREGISTERED = "its node was deregistered"
RENAMED = "its node has another name now"


def register(
    machine: StoreMachine, command: RegisterExternal, _request: StoreRequest, origin: Origin
) -> StoreAnswer:
    external = machine.external
    refusal = external.why_not(command.items)
    if refusal:
        return machine.refused(refusal, external.revision)
    machine.is_changing = True
    for item in command.items:
        if item.kind is ExternalKind.NODE and (gone := external.renamed_from(item)) is not None:
            end_sessions_on(machine, gone, RENAMED, origin)
        external.put(item, origin.revision, origin.wall_ms)
    return StoreAnswer(StoreOutcome.DONE, external.revision, machine.applied)


def deregister(
    machine: StoreMachine, command: DeregisterExternal, _request: StoreRequest, origin: Origin
) -> StoreAnswer:
    external = machine.external
    machine.is_changing = True
    if not command.service_id and not command.check_id:
        end_sessions_on(machine, command.node, DEREGISTERED, origin)
    external.remove(command.node, command.service_id, command.check_id, origin.revision)
    return StoreAnswer(StoreOutcome.DONE, external.revision, machine.applied)


def sessions_on(machine: StoreMachine, node: str) -> list[Session]:
    """Those of an agent of that name are not meant."""
    return [session for session in machine.sessions.of_node(node) if not session.node_id]


def end_sessions_on(machine: StoreMachine, node: str, evidence: str, origin: Origin) -> bool:
    """Whether there were any."""
    sessions = sessions_on(machine, node)
    for session in sessions:
        locks.end(machine, session, EndCause.NODE_GONE, evidence, origin)
    return bool(sessions)
