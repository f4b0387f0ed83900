"""Nodes without an agent are registered and deregistered. A node that goes takes its sessions along.

It does so in the same entry, as far as one entry may end sessions. The leader sees that those who are left
have no node, and ends them with entries of its own; until then nobody gets the node's name, else they would
live on with a node that is not theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from adsum.external import ExternalItem, ExternalKind
from adsum.kv import StoreAnswer, StoreOutcome
from adsum.session import EndCause, Session
from adsum.store import session_commands
from adsum.store.commands import DeregisterExternal, RegisterExternal, RenewExternal, StoreRequest
from adsum.store.keyspace import Origin

if TYPE_CHECKING:
    from adsum.store.machine import StoreMachine

DEREGISTERED = "its node was deregistered"
RENAMED = "its node has another name now"
STILL_ENDING = (
    "failed inserting node: sessions of the node that was called {} before are still ending, {} of them: try "
    "again in a moment"
)


def register(
    machine: StoreMachine, command: RegisterExternal, _request: StoreRequest, origin: Origin
) -> StoreAnswer:
    external = machine.external
    refusal = external.why_not(command.items)
    if refusal := refusal or why_not_yet(machine, command.items):
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


def renew(
    machine: StoreMachine, command: RenewExternal, _request: StoreRequest, _origin: Origin
) -> StoreAnswer:
    if command.generation > machine.external.generation:
        machine.is_changing = True
        machine.external.begin_anew(command.generation)
    return StoreAnswer(StoreOutcome.DONE, machine.external.revision, machine.applied)


def sessions_on(machine: StoreMachine, node: str) -> list[Session]:
    """Those of an agent of that name are not meant."""
    return [session for session in machine.sessions.of_node(node) if not session.node_id]


def end_sessions_on(machine: StoreMachine, node: str, evidence: str, origin: Origin) -> None:
    """The leader ends what is more than one entry may."""
    sessions = sessions_on(machine, node)
    ended, _freed = session_commands.end_first(machine, sessions, EndCause.NODE_GONE, evidence, origin)
    machine.sessions.left_to_leader += len(sessions) - ended


def why_not_yet(machine: StoreMachine, items: Sequence[ExternalItem]) -> str:
    """Empty if no name is given to a node for which sessions of another one wait."""
    for item in items:
        if item.kind is ExternalKind.NODE and machine.external.get(item.node, ExternalKind.NODE) is None:
            left = sessions_on(machine, item.node)
            if left:
                return STILL_ENDING.format(item.node, len(left))
    return ""
