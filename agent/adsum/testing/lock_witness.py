"""The servers' own log as the witness of what clients of sessions, locks and transactions were told.

Commands are run again by the model (`lock_model`), each once by its name: outcome, changes, the token of a
grant, the places of operations that failed and what the others show have to be the same. Then every answer
finds the entry that carried its request, behind all that had ended before it was asked; what was refused has
none, and no entry is left that nobody asked for.

Three rules are looked at once more, from what was done alone, without the model's keys: tokens of grants rise
with each key; a write under a token is done only if no newer grant came before it; a session that expires was
not renewed within twice its TTL.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from msgspec import structs

from adsum.kv import KeyVerb, KeyWrite, StoreAnswer, StoreOutcome, decode_answer
from adsum.now import MILLISECOND, SECOND
from adsum.raft.types import Entry
from adsum.session import EndCause, SessionCreate, SessionDestroy
from adsum.store.commands import (
    Acquire,
    CreateSession,
    Delete,
    EndSessions,
    Put,
    Release,
    RunTransaction,
    StoreCommand,
    decode_request,
)
from adsum.testing.checkers import demand
from adsum.testing.lock_model import LockExpected, LockModel, LockState
from adsum.testing.lock_requests import LockRequest, SessionRenewal
from adsum.testing.written import Ran, Written
from adsum.transactions import KeyResult, Result, Transaction
from adsum.transactions import decode_answer as decode_transaction

RUN = (
    *(StoreOutcome.DONE, StoreOutcome.COMPARE_FAILED, StoreOutcome.REFUSED, StoreOutcome.NO_SESSION),
    *(StoreOutcome.HELD, StoreOutcome.FENCED, StoreOutcome.CONFLICT),
)
DRIFT = 0.88  # of a server's clock against the world's, at most


class SessionEnd(NamedTuple):
    at: int  # index
    entry: Entry
    cause: EndCause


@dataclass(slots=True)
class LockStory:
    """What was done, in the order of the log."""

    entries: dict[Hashable, dict[int, None]] = field(default_factory=lambda: defaultdict(dict))
    grants: dict[bytes, list[tuple[int, str, int]]] = field(default_factory=lambda: defaultdict(list))
    ends: dict[str, SessionEnd] = field(default_factory=dict)
    outcomes: dict[tuple[str, StoreOutcome], int] = field(default_factory=lambda: defaultdict(int))


def judge_locks(requests: Sequence[LockRequest], written: Written) -> LockStory:
    """Raises `Violation`."""
    story = _replayed(written)
    happened = _traced(requests, story)
    _judge_order(happened)
    _judge_expiries(requests, written, story)
    return story


# The log.


def _replayed(written: Written) -> LockStory:
    model, story = LockModel(), LockStory()
    first_of: dict[Hashable, int] = {}
    for index in sorted(written.by_index):
        ran = written.by_index[index]
        answer = decode_answer(ran.answer)
        name = ran.entry.dedup.name if ran.entry.dedup is not None else index
        if answer.outcome not in RUN or answer.index != index:
            demand(not ran.changes, f"{index} was answered by {answer}, and changed {ran.changes}")
            if answer.outcome in RUN:
                first = first_of.get(name, 0)
                is_same = answer.index == first and ran.answer == written.by_index[first].answer
                demand(is_same, f"{name} was run at {first}, and repeated at {index} it was told {answer}")
            continue
        demand(first_of.setdefault(name, index) == index, f"{name} was run again at {index}")
        command = decode_request(ran.entry.data).command
        _judge_tokens(command, answer, index, story)
        if answer.outcome is StoreOutcome.FENCED and isinstance(command, Put | Acquire):
            model.floor_is(command.key, answer.extras.token if answer.extras is not None else 0)
        expected = model.run(command, ran.entry)
        _compare(command, ran, answer, expected, model)
        story.outcomes[type(command).__name__, answer.outcome] += 1
        if ran.entry.dedup is not None:
            story.entries[_told(command)][index] = None
        for session in expected.ended:
            cause = command.cause if isinstance(command, EndSessions) else EndCause.EXPIRED
            story.ends[session] = SessionEnd(index, ran.entry, cause)
    return story


def _compare(
    command: StoreCommand, ran: Ran, answer: StoreAnswer, expected: LockExpected, model: LockModel
) -> None:
    index = ran.entry.index
    told = f"{index} ({command}) was answered by {answer}"
    demand(answer.outcome is expected.outcome, f"{told}, and should have been by {expected.outcome.name}")
    assert ran.changes is not None, "the history holds what one command changes"
    changes = dict(ran.changes)
    same_keys = set(changes) == set(expected.changes)
    demand(same_keys, f"{told}, and changed {changes}, and should have changed {expected.changes}")
    for key, state in expected.changes.items():
        record = changes[key]
        if state is None or record is None:
            demand(record is None and state is None, f"{told}: {key!r} is {record}, not {state}")
            continue
        is_anew = state.create == index
        demand(state.is_like(record, is_anew=is_anew), f"{told}: {key!r} is {record}, and should be {state}")
        if is_anew:
            model.known_fence(key, record)
    if isinstance(command, Acquire) and answer.outcome is StoreOutcome.DONE:
        token = answer.extras.token if answer.extras is not None else 0
        demand(token == expected.token, f"{told}, and the token is {expected.token}")
    if isinstance(command, RunTransaction):
        assert answer.extras is not None, "it says what became of each operation"
        content = decode_transaction(answer.extras.transaction)
        failed = tuple(error.place for error in content.errors)
        demand(failed == expected.failed, f"{told}, {failed} failed, and should have: {expected.failed}")
        _compare_results(told, content.results, expected.told, index)


def _compare_results(
    told: str, results: Sequence[Result], should: Sequence[tuple[bytes, LockState]], index: int
) -> None:
    shown = [each for each in results if isinstance(each, KeyResult)]
    keys, should_keys = [each.key for each in shown], [key for key, _ in should]
    demand(keys == should_keys, f"{told}, and shows {keys}, and should have shown {should_keys}")
    for result, (key, state) in zip(shown, should, strict=True):
        record, is_anew = result.record, state.create == index
        seen = state if result.shows_value else replace(state, value=b"")
        is_like = record is not None and seen.is_like(record, is_anew=is_anew)
        demand(is_like, f"{told}, and shows {key!r} as {record}, and should have as {seen}")


def _judge_tokens(command: StoreCommand, answer: StoreAnswer, index: int, story: LockStory) -> None:
    if answer.outcome is not StoreOutcome.DONE:
        return
    granted: list[tuple[bytes, str, int]] = []
    if isinstance(command, Acquire):
        token = answer.extras.token if answer.extras is not None else 0
        granted.append((command.key, command.session, token))
    elif isinstance(command, RunTransaction) and answer.extras is not None:
        for result in decode_transaction(answer.extras.transaction).results:
            record = result.record if isinstance(result, KeyResult) else None
            if isinstance(result, KeyResult) and record is not None and record.lease and record.extras:
                granted.append((result.key, record.lease, record.extras.token))
    for key, session, token in granted:
        before = story.grants[key][-1] if story.grants[key] else (0, "", 0)
        is_again = before[:2] == (token, session)
        demand(is_again or token > before[0], f"at {index} {session} is told {token}, and before {before}")
        if not is_again:
            story.grants[key].append((token, session, index))
    if isinstance(command, Put | Release) and command.if_token is not None and command.key in story.grants:
        newest = story.grants[command.key][-1][0] if story.grants[command.key] else 0
        demand(command.if_token >= newest, f"{command} was done at {index}, after the grant {newest}")


# Who asked for what is in it.


def _told(command: StoreCommand) -> Hashable:
    match command:
        case Put():
            return KeyVerb.PUT, command.key, command.value, "", command.if_token
        case Delete():
            return KeyVerb.DELETE, command.key, b"", "", command.if_token
        case Acquire():
            return KeyVerb.ACQUIRE, command.key, command.value, command.session, command.if_token
        case Release():
            return KeyVerb.RELEASE, command.key, command.value, command.session, command.if_token
        case CreateSession(session):
            return "create", session.id
        case EndSessions(ids):
            return "destroy", *ids
        case RunTransaction(operations):
            return _plain(operations)
        case _:
            raise AssertionError("no client asks for anything else")


def _asked(asked: Any) -> Hashable:
    match asked:
        case KeyWrite():
            return asked.verb, asked.key, asked.value, asked.session, asked.if_token
        case SessionCreate(session):
            return "create", session.id
        case SessionDestroy(id_):
            return "destroy", id_
        case Transaction(operations):
            return _plain(operations)
        case _:
            raise AssertionError("it is not in the log")


def _plain(operations: Sequence[Any]) -> Hashable:
    return tuple(structs.astuple(operation) for operation in operations)


def _traced(requests: Sequence[LockRequest], story: LockStory) -> list[tuple[LockRequest, int]]:
    happened: list[tuple[LockRequest, int]] = []
    unknown: list[LockRequest] = []
    left = story.entries
    for request in requests:
        if isinstance(request.asked, SessionRenewal):
            continue
        if request.answer is not None:
            entries, position = left.get(_asked(request.asked), {}), request.answer.index
            demand(position in entries, f"{request} was told what is not in the log, or was another's")
            del entries[position]
            happened.append((request, position))
        elif not request.is_refused:
            unknown.append(request)
    for request in sorted(unknown, key=lambda each: each.invoked_ns):
        entries = left.get(_asked(request.asked), {})
        if entries:
            position = next(iter(entries))
            del entries[position]
            happened.append((request, position))
    nobodys = [(told, list(entries)) for told, entries in left.items() if entries]
    demand(not nobodys, f"was refused, or was run twice, and it is in the log: {nobodys[:3]}")
    return happened


def _judge_order(happened: list[tuple[LockRequest, int]]) -> None:
    returns = sorted(happened, key=lambda each: each[0].returned_ns)
    ended, highest = 0, 0
    for request, position in sorted(happened, key=lambda each: each[0].invoked_ns):
        while ended < len(returns) and returns[ended][0].returned_ns < request.invoked_ns:
            highest = max(highest, returns[ended][1])
            ended += 1
        demand(position > highest, f"{request} was asked when {highest} was known already")


# Time.


def _judge_expiries(requests: Sequence[LockRequest], written: Written, story: LockStory) -> None:
    renewed: dict[str, list[LockRequest]] = defaultdict(list)
    created: dict[str, SessionCreate] = {}
    for request in requests:
        if isinstance(request.asked, SessionRenewal):
            renewed[request.asked.id].append(request)
        elif isinstance(request.asked, SessionCreate):
            created[request.asked.session.id] = request.asked
    for id_, (index, _entry, cause) in story.ends.items():
        end_ns = written.first_ns[index]
        acknowledged = [each for each in renewed[id_] if each.is_renewed]
        for each in acknowledged:
            demand(each.invoked_ns < end_ns, f"{each}: it had ended at {index}")
        if cause is EndCause.EXPIRED and acknowledged:
            lived_ns = end_ns - max(each.invoked_ns for each in acknowledged)
            ttl_ns = created[id_].session.ttl_ms * MILLISECOND
            demand(lived_ns >= 2 * ttl_ns * DRIFT, f"{id_} expired {lived_ns / SECOND} s after a renewal")
    for id_, asked in renewed.items():
        for each in asked:
            demand(not each.is_gone or id_ in story.ends or _never(id_, story), f"{each}: it is there")


def _never(id_: str, story: LockStory) -> bool:
    """It was not created."""
    return ("create", id_) not in story.entries
