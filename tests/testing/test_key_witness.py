"""The witness of what clients of keys were told, on logs small enough to judge by eye: what it lets pass, and
each thing that it must not."""

from __future__ import annotations

import pytest

from adsum.dedup import DedupKey
from adsum.kv import (
    KeyRead,
    KeyRecord,
    KeysFound,
    KeyVerb,
    KeyWrite,
    ReadMode,
    ReadShape,
    StoreAnswer,
    StoreOutcome,
)
from adsum.kv import encode as encode_answer
from adsum.raft.types import Entry, EntryKind, Term
from adsum.store.commands import Delete, Put, StoreCommand, StoreRequest, encode_request
from adsum.testing.checkers import Violation
from adsum.testing.judged_request import JudgedRequest
from adsum.testing.key_judgement import judge_keys
from adsum.testing.key_witness import check_keys
from adsum.testing.written import Changes, Ran, Written

DONE, FAILED = StoreOutcome.DONE, StoreOutcome.COMPARE_FAILED


def ran(
    index: int, command: StoreCommand, answer: StoreAnswer, changes: Changes = (), *, sequence: int = 0
) -> Ran:
    name = DedupKey("agent", 1, sequence or index, 1)
    data = encode_request(StoreRequest(command, 0))
    entry = Entry(index, Term(1), EntryKind.COMMAND, 0, 1, name, data)
    return Ran(entry, encode_answer(answer), changes)


def log(*entries: Ran) -> Written:
    written = Written()
    for each in entries:
        written.add(each)
    return written


def record(value: bytes, create: int, modify: int, version: int = 1) -> KeyRecord:
    return KeyRecord(value, create, modify, 0, 0, 0, version)


A_AT_2 = ran(2, Put(b"k", b"a", skips_equal=True), StoreAnswer(DONE, 2, 2, 1), ((b"k", record(b"a", 2, 2)),))
B_AT_3 = ran(
    3, Put(b"k", b"b", skips_equal=True), StoreAnswer(DONE, 3, 3, 1), ((b"k", record(b"b", 2, 3, 2)),)
)
GONE_AT_4 = ran(4, Delete(b"k"), StoreAnswer(DONE, 4, 4, 1), ((b"k", None),))


def put(value: bytes, invoked: int, returned: int, at: int, *, cas: int | None = None) -> JudgedRequest:
    asked = KeyWrite(KeyVerb.PUT, b"k", value, cas=cas)
    return JudgedRequest(1, asked, invoked, b"", returned, StoreAnswer(DONE, at, at, 1), newest=at)


def delete(invoked: int, returned: int, at: int) -> JudgedRequest:
    asked = KeyWrite(KeyVerb.DELETE, b"k")
    return JudgedRequest(1, asked, invoked, b"", returned, StoreAnswer(DONE, at, at, 1), newest=at)


def unanswered(value: bytes, invoked: int, *, is_refused: bool = False) -> JudgedRequest:
    return JudgedRequest(1, KeyWrite(KeyVerb.PUT, b"k", value), invoked, is_refused=is_refused)


def got(
    found: KeyRecord | None,
    invoked: int,
    returned: int,
    *,
    index: int,
    since: int = 0,
    mode: ReadMode = ReadMode.DEFAULT,
) -> JudgedRequest:
    asked = KeyRead(ReadShape.KEY, b"k", since=since, mode=mode)
    outcome = KeysFound(index, [b"k"], [found]) if found is not None else KeysFound(index, [], [])
    return JudgedRequest(2, asked, invoked, b"", returned, outcome, newest=4)


def test_a_true_history_passes_and_each_operation_has_its_place() -> None:
    read = got(record(b"a", 2, 2), 15, 25, index=2)
    history = [
        put(b"a", 10, 20, 2),
        read,
        put(b"b", 30, 40, 3),
        delete(50, 60, 4),
        got(None, 70, 80, index=4),
    ]
    written = log(A_AT_2, B_AT_3, GONE_AT_4)
    happened, _timeline = check_keys(history, written)
    assert sorted(each.position for each in happened) == [2, 2, 3, 4, 4]
    judge_keys(history, written)


def test_a_read_of_what_was_replaced_before_it_began_is_found() -> None:
    history = [put(b"a", 10, 20, 2), put(b"b", 30, 40, 3), got(record(b"a", 2, 2), 50, 60, index=2)]
    with pytest.raises(Violation, match="was told what was not so any more after 3"):
        check_keys(history, log(A_AT_2, B_AT_3))


def test_a_stale_read_of_it_may_pass_and_so_may_one_that_waits() -> None:
    writes = [put(b"a", 10, 20, 2), put(b"b", 30, 40, 3)]
    stale = got(record(b"a", 2, 2), 50, 60, index=2, mode=ReadMode.STALE)
    waited = got(record(b"a", 2, 2), 50, 60, index=2, since=1)
    check_keys([*writes, stale, waited], log(A_AT_2, B_AT_3))


def test_who_waits_sees_nothing_older_than_what_it_knew() -> None:
    waited = got(record(b"a", 2, 2), 50, 60, index=3, since=3)
    with pytest.raises(Violation, match="was told what was not so any more after 3"):
        check_keys([put(b"a", 10, 20, 2), put(b"b", 30, 40, 3), waited], log(A_AT_2, B_AT_3))


def test_nobody_reads_what_no_server_has_yet() -> None:
    early = got(record(b"b", 2, 3, 2), 5, 8, index=3)
    early.newest = 2
    with pytest.raises(Violation, match="has an index that nothing has yet"):
        check_keys([put(b"a", 1, 2, 2), early, put(b"b", 30, 40, 3)], log(A_AT_2, B_AT_3))


def test_an_index_before_its_own_content_is_found_for_a_watcher_would_see_it_again() -> None:
    with pytest.raises(Violation, match="an index before its own content"):
        check_keys([put(b"a", 10, 20, 2), got(record(b"a", 2, 2), 30, 40, index=1)], log(A_AT_2))


def test_an_acknowledged_write_that_is_not_in_the_log_is_found() -> None:
    with pytest.raises(Violation, match="was acknowledged, and is not in the log"):
        check_keys([put(b"a", 10, 20, 2), put(b"b", 30, 40, 3)], log(A_AT_2))


def test_a_write_before_something_that_had_ended_is_found() -> None:
    history = [put(b"a", 30, 40, 2), put(b"b", 10, 20, 3)]
    with pytest.raises(Violation, match="was asked when 3 was known already"):
        check_keys(history, log(A_AT_2, B_AT_3))


def test_what_was_refused_and_is_in_the_log_is_found_and_what_nobody_knows_may_be_there() -> None:
    check_keys([unanswered(b"a", 10)], log(A_AT_2))
    check_keys([unanswered(b"a", 10)], log())
    with pytest.raises(Violation, match="was refused, or was run twice"):
        check_keys([unanswered(b"a", 10, is_refused=True)], log(A_AT_2))


def test_a_request_that_was_run_twice_is_found_under_one_name_and_under_two() -> None:
    changes: Changes = ((b"k", record(b"a", 2, 3, 2)),)
    again = ran(3, Put(b"k", b"a"), StoreAnswer(DONE, 3, 3, 1), changes, sequence=2)
    with pytest.raises(Violation, match="was run at 2, and again at 3"):
        check_keys([put(b"a", 10, 20, 2)], log(A_AT_2, again))
    renamed = ran(3, Put(b"k", b"a", skips_equal=True), StoreAnswer(DONE, 2, 3, 0))
    with pytest.raises(Violation, match="was refused, or was run twice"):
        check_keys([put(b"a", 10, 20, 2)], log(A_AT_2, renamed))


def test_a_compare_that_was_not_met_and_was_done_is_found() -> None:
    changes: Changes = ((b"k", record(b"b", 2, 3, 2)),)
    done = ran(3, Put(b"k", b"b", cas=1), StoreAnswer(DONE, 3, 3, 1), changes)
    with pytest.raises(Violation, match="COMPARE_FAILED"):
        check_keys([put(b"a", 10, 20, 2), put(b"b", 30, 40, 3, cas=1)], log(A_AT_2, done))


def test_servers_that_answer_differently_are_found_at_once() -> None:
    with pytest.raises(Violation, match="at 2 one server has"):
        log(A_AT_2, A_AT_2._replace(answer=encode_answer(StoreAnswer(FAILED, 0, 2))))
