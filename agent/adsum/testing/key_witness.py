"""The servers' own log as the witness of what clients of keys were told. It takes time in proportion to the
history, and decides always.

Commands are run again by the model, each once by its name: what was answered and changed has to be the same.
Then everything that a client asked finds its place. A write is the entry that carried it: one that was
acknowledged has just one, one that was refused none, and no entry is left that nobody asked for. A read
stands at the first index, not before all that had ended when it began, at which the store was as it was told.
If there is none, or a write stands before something that had ended, no order of events fits the answers.

That is one order for all keys together, which is more than the search can ask, key by key. Two kinds of reads
may be of an earlier moment: stale ones; and those that wait for a change, for they join others that ask the
same and were confirmed before. Nobody who waits may see less than what it knew.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeAlias

from adsum.kv import KeyRead, KeysFound, KeyVerb, KeyWrite, ReadMode, StoreAnswer, StoreOutcome, decode_answer
from adsum.store.commands import Delete, DeleteTree, Put, StoreCommand, decode_request
from adsum.testing.checkers import demand
from adsum.testing.judged_request import JudgedRequest
from adsum.testing.key_model import Expected, KeyModel, stored_of
from adsum.testing.key_timeline import KeyTimeline
from adsum.testing.written import Ran, Written

RUN = (StoreOutcome.DONE, StoreOutcome.COMPARE_FAILED)
Told: TypeAlias = tuple[object, ...]  # what a command says, in the words of clients


def check_keys(
    operations: Sequence[JudgedRequest], written: Written
) -> tuple[list[JudgedRequest], KeyTimeline]:
    """Raises `Violation`, or returns the operations that happened, each at its position."""
    timeline, entries = _replayed(written)
    happened = _traced(operations, entries)
    _put_in_order(happened, timeline)
    return happened, timeline


# The log.


def _replayed(written: Written) -> tuple[KeyTimeline, dict[Told, list[int]]]:
    """And at which indexes each command was run."""
    model, timeline = KeyModel(), KeyTimeline()
    first_of: dict[tuple[str, int, int], int] = {}
    entries: dict[Told, list[int]] = defaultdict(list)
    for index in sorted(written.by_index):
        ran = written.by_index[index]
        answer = decode_answer(ran.answer)
        assert ran.entry.dedup is not None, "agents name their writes"
        name = ran.entry.dedup.name
        if answer.outcome in RUN and answer.index == index:
            first = first_of.setdefault(name, index)
            demand(first == index, f"{name} was run at {first}, and again at {index}")
            command = decode_request(ran.entry.data).command
            expected = model.run(command, index)
            _compare(ran, answer, expected)
            entries[_told(command)].append(index)
            for key, stored in expected.changes.items():
                timeline.changed(index, key, stored)
            continue
        demand(not ran.changes, f"{index} was answered by {answer}, and changed {ran.changes}")
        if answer.outcome in RUN:
            first = first_of.get(name, 0)
            is_same = answer.index == first and ran.answer == written.by_index[first].answer
            demand(is_same, f"{name} was run at {first}, and repeated at {index} it was told {answer}")
    return timeline, entries


def _compare(ran: Ran, answer: StoreAnswer, expected: Expected) -> None:
    index = ran.entry.index
    told = (answer.outcome, answer.revision, answer.count)
    should = (expected.outcome, expected.revision, len(expected.changes))
    demand(told == should, f"{index} was answered by {told}, and should have been by {should}")
    if ran.changes is not None:
        changes = {key: stored_of(record) if record else None for key, record in ran.changes}
        is_same = changes == expected.changes
        demand(is_same, f"{index} changed {changes}, and should have changed {expected.changes}")


def _told(command: StoreCommand) -> Told:
    if isinstance(command, Put):
        return KeyVerb.PUT, command.key, command.value, command.flags, command.cas
    if isinstance(command, Delete):
        return KeyVerb.DELETE, command.key, b"", 0, command.cas
    assert isinstance(command, DeleteTree), "no client asks for anything else"
    return KeyVerb.DELETE_TREE, command.prefix, b"", 0, None


# Who asked for what is in it.


def _traced(operations: Sequence[JudgedRequest], entries: dict[Told, list[int]]) -> list[JudgedRequest]:
    happened = [each for each in operations if not each.is_write and each.outcome is not None]
    unknown: list[JudgedRequest] = []
    left = {told: dict.fromkeys(indexes) for told, indexes in entries.items()}
    for operation in operations:
        if isinstance(operation.outcome, StoreAnswer):
            operation.position = operation.outcome.index
            is_there = operation.position in left.get(_asked(operation), {})
            demand(
                is_there, f"{operation} was acknowledged, and is not in the log, or it was somebody else's"
            )
            del left[_asked(operation)][operation.position]
            happened.append(operation)
        elif operation.is_write and not operation.is_refused:
            unknown.append(operation)
    # Of equal ones that were not answered, any may be the one: the first asked may stand anywhere that a
    # later one may.
    for operation in sorted(unknown, key=lambda each: each.invoked_ns):
        indexes = left.get(_asked(operation))
        if indexes:
            operation.position = next(iter(indexes))
            del indexes[operation.position]
            happened.append(operation)
    nobodys = [(told, list(indexes)) for told, indexes in left.items() if indexes]
    demand(not nobodys, f"was refused, or was run twice, and it is in the log: {nobodys[:3]}")
    return happened


def _asked(operation: JudgedRequest) -> Told:
    asked = operation.asked
    assert isinstance(asked, KeyWrite), "it is a write"
    return asked.verb, asked.key, asked.value, asked.flags, asked.cas


# In one order.


def _put_in_order(happened: list[JudgedRequest], timeline: KeyTimeline) -> None:
    returns = sorted(happened, key=lambda operation: operation.returned_ns)
    ended, highest = 0, 0
    for operation in sorted(happened, key=lambda operation: operation.invoked_ns):
        while ended < len(returns) and returns[ended].returned_ns < operation.invoked_ns:
            highest = max(highest, returns[ended].position)
            ended += 1
        if isinstance(operation.outcome, KeysFound):
            operation.position = _place(operation, operation.outcome, timeline, highest)
        else:
            is_after = operation.position > highest
            demand(is_after, f"{operation} was asked when {highest} was known already")


def _place(operation: JudgedRequest, found: KeysFound, timeline: KeyTimeline, highest: int) -> int:
    read = operation.asked
    assert isinstance(read, KeyRead), "it is a read"
    demand(not found.is_foreign, f"{operation} takes an index of this cluster for another's")
    newest_seen = max((record.modify for record in found.records), default=0)
    earliest = read.since if read.since else 0 if read.mode is ReadMode.STALE else highest
    changes = timeline.changes(read)
    position = max(earliest, newest_seen)
    while not timeline.fits(read, found, position):
        later = bisect_right(changes, position)
        is_there = later < len(changes) and changes[later] <= operation.newest
        demand(is_there, f"{operation} was told what was not so any more after {earliest}")
        position = changes[later]
    # Whoever waits with this index is answered when anything later changes.
    changed = bisect_right(changes, position)
    is_covered = changed == 0 or changes[changed - 1] <= found.index
    demand(is_covered, f"{operation} has an index before its own content, of {changes[:changed][-1:]}")
    is_known = found.index <= max(operation.newest, read.since)
    demand(is_known, f"{operation} has an index that nothing has yet, after {operation.newest}")
    return position
