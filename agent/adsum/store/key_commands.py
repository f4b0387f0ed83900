"""Puts and deletions of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adsum.kv import BELOW_FLOOR, AnswerExtras, StoreAnswer, StoreOutcome
from adsum.store.commands import Delete, DeleteTree, LeaseRule, Put, StoreRequest
from adsum.store.keyspace import Keyspace, Origin
from adsum.store.writes import changed, created, fence_alone, with_fence, without_token

if TYPE_CHECKING:
    from adsum.store.machine import StoreMachine

GIVEN_TO_NOBODY = "no grant has the fencing token {}: the newest revision is {}"
BELOW_FENCE = "the fencing token {} was shown under this key"


def put(machine: StoreMachine, command: Put, request: StoreRequest, origin: Origin) -> StoreAnswer:
    space = machine.keyspaces[command.keyspace]
    before = space.get(command.key)
    token = command.if_token
    if token is not None and not machine.knows_sessions:
        token = None  # as versions do that know no tokens
    if token is not None and (refused := fenced_off(machine, space, command.key, token)):
        return refused
    if command.cas is not None and command.cas != (before.modify if before is not None else 0):
        return machine.unchanged(StoreOutcome.COMPARE_FAILED, space, before, request)
    lease = before.lease if before is not None else None
    if command.lease_rule is not LeaseRule.KEEP:
        lease = command.lease if command.lease_rule is LeaseRule.THIS else None
    if before is None:
        remains = space.remains_of(command.key)
        extras = fence_alone(max(remains.fence, token or 0))
        after = created(remains.lock_index, command.value, command.flags, origin, lease, extras)
    else:
        extras = before.extras
        if token is not None and token > before.fence:
            extras = with_fence(extras, token)
        if lease != before.lease:
            extras = without_token(extras)
        if (
            command.skips_equal
            and before.value == command.value
            and before.flags == command.flags
            and before.lease == lease
            and before.extras == extras
        ):
            return machine.unchanged(StoreOutcome.DONE, space, before, request)
        after = changed(before, command.value, command.flags, origin, lease, before.lock_index, extras)
    machine.is_changing = True
    space.put(command.key, after, origin)
    if request.wants_records:
        return StoreAnswer(StoreOutcome.DONE, origin.revision, machine.applied, 1, before, after)
    return StoreAnswer(StoreOutcome.DONE, origin.revision, machine.applied, 1)


def delete(machine: StoreMachine, command: Delete, request: StoreRequest, origin: Origin) -> StoreAnswer:
    space = machine.keyspaces[command.keyspace]
    before = space.get(command.key)
    token = command.if_token
    if token is not None and not machine.knows_sessions:
        token = None  # as versions do that know no tokens
    if token is not None and (refused := fenced_off(machine, space, command.key, token)):
        return refused
    if before is None:
        if token is not None and token > space.fence_of(command.key):
            machine.is_changing = True
            space.delete(command.key, origin, token)
            return StoreAnswer(StoreOutcome.DONE, origin.revision, machine.applied)
        return machine.unchanged(StoreOutcome.DONE, space, None, request)
    if command.cas is not None and command.cas != before.modify:
        return machine.unchanged(StoreOutcome.COMPARE_FAILED, space, before, request)
    machine.is_changing = True
    space.delete(command.key, origin, token or 0)
    shown = before if request.wants_records else None
    return StoreAnswer(StoreOutcome.DONE, origin.revision, machine.applied, 1, shown)


def delete_tree(
    machine: StoreMachine, command: DeleteTree, _request: StoreRequest, origin: Origin
) -> StoreAnswer:
    space = machine.keyspaces[command.keyspace]
    machine.is_changing = True
    deleted = space.delete_tree(command.prefix, origin)
    machine.keep_for_a_while(deleted.let_go)
    revision = origin.revision if deleted.keys else space.revision
    return StoreAnswer(StoreOutcome.DONE, revision, machine.applied, deleted.keys)


def fenced_off(machine: StoreMachine, space: Keyspace, key: bytes, token: int) -> StoreAnswer | None:
    """None if the token reaches the key's fence. A token is the revision of a grant: what is above the newest
    one was given to nobody, and as a fence it would shut out all whom it will be given to."""
    newest = machine.revision_of(machine.applied)
    if token > newest:
        return machine.refused(GIVEN_TO_NOBODY.format(token, newest), space.revision)
    fence = space.fence_of(key)
    if token >= fence:
        return None
    is_by_floor = space.get(key) is None and space.remains_of(key).is_by_floor
    sentence = (BELOW_FLOOR if is_by_floor else BELOW_FENCE).format(fence)
    return StoreAnswer(
        *(StoreOutcome.FENCED, space.revision, machine.applied),
        extras=AnswerExtras(token=fence, sentence=sentence),
    )
