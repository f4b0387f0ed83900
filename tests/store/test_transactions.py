"""Operations in order, each seeing those before it; all done, or none and every failure told."""

from __future__ import annotations

import gc
import time

import pytest

from adsum.kv import KeyRecord, StoreOutcome
from adsum.session import SessionBehavior
from adsum.store.commands import Put, RunTransaction
from adsum.store.entry_operations import PlannedEntries
from adsum.store.transactions import PlannedTransaction
from adsum.transactions import (
    KeyOperation,
    KeyOperationVerb,
    KeyResult,
    OperationError,
    Result,
    TransactionAnswer,
    decode_answer,
)
from tests.store.stores import WALL_MS, Store

SET, CAS, LOCK, UNLOCK = (
    *(KeyOperationVerb.SET, KeyOperationVerb.CAS, KeyOperationVerb.LOCK, KeyOperationVerb.UNLOCK),
)
GET, TREE, EMPTY = KeyOperationVerb.GET, KeyOperationVerb.GET_TREE, KeyOperationVerb.GET_OR_EMPTY
INDEX, SESSION = KeyOperationVerb.CHECK_INDEX, KeyOperationVerb.CHECK_SESSION
ABSENT = KeyOperationVerb.CHECK_NOT_EXISTS
DELETE, DELETE_TREE, DELETE_CAS = (
    *(KeyOperationVerb.DELETE, KeyOperationVerb.DELETE_TREE, KeyOperationVerb.DELETE_CAS),
)
Operation = KeyOperation
UNKNOWN = "0f4b6c1e-93a1-4f53-9d6c-5b1f5a2f1a77"


def told(store: Store, *operations: Operation) -> TransactionAnswer:
    answer = store.run(RunTransaction(operations))
    assert answer.extras is not None
    said = decode_answer(answer.extras.transaction)
    assert answer.outcome is (StoreOutcome.CONFLICT if said.errors else StoreOutcome.DONE)
    return said


def failures(store: Store, *operations: Operation) -> list[tuple[int, str]]:
    before = store.machine.hash()
    said = told(store, *operations)
    store.index -= 1
    assert said.results == []
    store.machine.applied -= 1
    store.machine.cluster_ms -= 10
    assert store.machine.hash() == before, "it changed something"
    return [(each.place, each.sentence) for each in said.errors]


def keys(results: list[Result]) -> list[tuple[bytes, bytes | None]]:
    return [
        (each.key, each.record.value if each.record is not None else None)
        for each in results
        if isinstance(each, KeyResult)
    ]


def test_all_of_a_transaction_has_one_revision_and_its_changes_are_in_order() -> None:
    store = Store()
    store.put(b"old", b"1")
    answer = store.run(
        RunTransaction(
            (
                Operation(SET, b"b", b"1", flags=7),
                Operation(SET, b"a", b"1"),
                Operation(SET, b"b", b"2"),
                Operation(DELETE, b"old"),
            )
        )
    )
    assert (answer.outcome, answer.revision, answer.index, answer.count) == (StoreOutcome.DONE, 2, 2, 4)
    assert [(change[0], change[1]) for change in store.space.history.after(1)] == [
        *((2, b"b"), (2, b"a"), (2, b"b"), (2, b"old"))
    ]
    assert store.record(b"b") == KeyRecord(b"2", 2, 2, WALL_MS + 2, WALL_MS + 2, version=2)


def test_results_show_what_was_read_and_not_again_what_was_written() -> None:
    store = Store()
    store.put(b"t/a", b"1")
    store.put(b"t/b", b"2")
    said = told(
        store,
        Operation(SET, b"t/c", b"3", flags=9),
        Operation(GET, b"t/c"),
        Operation(TREE, b"t/"),
        Operation(EMPTY, b"none"),
        Operation(DELETE, b"t/a"),
        Operation(ABSENT, b"t/a"),
        Operation(INDEX, b"t/b", index=2),
    )
    assert keys(said.results) == [
        *((b"t/c", b""), (b"t/c", b"3"), (b"t/a", b"1"), (b"t/b", b"2"), (b"t/c", b"3")),
        *((b"none", None), (b"t/b", b"")),
    ]
    assert [each.shows_value for each in said.results if isinstance(each, KeyResult)] == [
        *(False, True, True, True, True, True, False)
    ]
    first = said.results[0]
    assert isinstance(first, KeyResult)
    assert first.record is not None
    assert (first.record.flags, first.record.create, first.record.modify) == (9, 3, 3)


def test_every_operation_that_fails_is_told_in_consuls_words() -> None:
    store = Store()
    store.create("one")
    store.create("two", lock_delay_ms=15_000)
    store.put(b"t1", b"1")
    store.acquire(b"held", "one")
    store.acquire(b"delayed", "two")
    store.end("two")
    assert failures(
        store,
        Operation(GET, b"zz"),
        Operation(INDEX, b"t1", index=1),
        Operation(SESSION, b"t1", session="abc"),
        Operation(ABSENT, b"t1"),
        Operation(CAS, b"t1", b"2", index=2),
        Operation(CAS, b"t1", b"2", index=0),
        Operation(CAS, b"new", b"2", index=9),
        Operation(LOCK, b"held", session=UNKNOWN),
        Operation(LOCK, b"held", session=""),
        Operation(UNLOCK, b"held", session="two"),
        Operation(UNLOCK, b"t1", session=""),
        Operation(DELETE_CAS, b"t1", index=1),
        Operation(INDEX, b"zz", index=1),
        Operation(SESSION, b"zz", session="abc"),
        Operation(SET, b"fine", b"1"),
        Operation(LOCK, b"delayed", session="one"),
        Operation(LOCK, b"held", session="two"),
        Operation(GET, b'a "key"\n\xff'),
    ) == [
        (0, 'key "zz" doesn\'t exist'),
        (1, 'failed index check for key "t1", current modify index 3 != 1'),
        (2, 'failed session check for key "t1", current session "" != "abc"'),
        (3, 'key "t1" exists'),
        (4, 'failed to set key "t1", index is stale'),
        (5, 'failed to set key "t1", index is stale'),
        (6, 'failed to set key "new", index is stale'),
        (7, f'invalid session "{UNKNOWN}"'),
        (8, "missing session"),
        (9, 'failed to unlock key "held", lock isn\'t held, or is held by another session'),
        (10, "missing session"),
        (11, 'failed to delete key "t1", index is stale'),
        (12, 'failed to check index, key "zz" doesn\'t exist'),
        (13, 'failed to check session, key "zz" doesn\'t exist'),
        (15, 'failed to lock key "delayed" due to lock delay'),
        (16, "failed session lookup: index error: UUID must be 36 characters"),
        (17, 'key "a \\"key\\"\\n\\xff" doesn\'t exist'),
    ]
    store.create("three")
    assert failures(store, Operation(LOCK, b"held", session="three")) == [
        (0, 'failed to lock key "held", lock is already held')
    ]


def test_an_operation_sees_those_before_it() -> None:
    store = Store()
    store.create("one")
    store.put(b"a", b"1")
    store.put(b"t/1", b"1")
    said = told(
        store,
        Operation(DELETE, b"a"),
        Operation(ABSENT, b"a"),
        Operation(CAS, b"a", b"2", index=0),
        Operation(LOCK, b"a", b"3", session="one"),
        Operation(SESSION, b"a", session="one"),
        Operation(INDEX, b"a", index=4),
        Operation(UNLOCK, b"a", b"4", session="one"),
        Operation(SET, b"t/2", b"2"),
        Operation(DELETE_TREE, b"t/"),
        Operation(SET, b"t/3", b"3"),
        Operation(TREE, b"t/"),
        Operation(GET, b"a"),
        Operation(ABSENT, b"t/1"),
        Operation(ABSENT, b"t/2"),
    )
    assert said.errors == []
    assert keys(said.results)[-2:] == [(b"t/3", b"3"), (b"a", b"4")]
    assert [key for key, _ in store.space.table.items(b"", None)] == [b"a", b"t/3"]
    assert store.record(b"a").lock_index == 1


def test_what_one_operation_made_is_nothing_to_those_after_one_that_failed() -> None:
    store = Store()
    store.put(b"a", b"1")
    assert failures(
        store,
        Operation(DELETE, b"a"),
        Operation(GET, b"a"),
        Operation(SET, b"a", b"2"),
        Operation(INDEX, b"a", index=9),
    ) == [
        (1, 'key "a" doesn\'t exist'),
        (3, 'failed index check for key "a", current modify index 2 != 9'),
    ]


def test_locks_of_a_transaction_are_grants_like_others() -> None:
    store = Store()
    for id_ in ("one", "two"):
        store.create(id_, lock_delay_ms=1_000, behavior=SessionBehavior.DELETE)
    store.acquire(b"b", "two", b"x")
    store.release(b"b", "two", b"x")
    told(store, Operation(LOCK, b"a", b"1", session="one"), Operation(LOCK, b"b", b"2", session="one"))
    for key, lock_index in ((b"a", 1), (b"b", 2)):
        record = store.record(key)
        assert (record.lease, record.lock_index, record.fence) == ("one", lock_index, 5)
        assert record.extras is not None
        assert record.extras.token == 5
    assert store.run(Put(b"b", b"late", if_token=3)).outcome is StoreOutcome.FENCED
    store.end("one")
    assert len(store.space.table) == 0
    assert store.acquire(b"a", "two").outcome is StoreOutcome.HELD


def test_lock_index_and_fence_go_on_through_a_deletion_in_the_same_transaction() -> None:
    store = Store()
    store.create("one")
    store.acquire(b"t/a", "one")
    store.release(b"t/a", "one")
    told(store, Operation(DELETE_TREE, b"t/"), Operation(LOCK, b"t/a", session="one"))
    record = store.record(b"t/a")
    assert (record.lock_index, record.fence, record.create) == (2, 4, 4)
    told(store, Operation(DELETE, b"t/a"), Operation(SET, b"t/a", b"plain"))
    assert (store.record(b"t/a").lock_index, store.record(b"t/a").fence) == (2, 4)


def test_a_session_takes_no_more_keys_in_a_transaction_than_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("adsum.store.transactions.HELD_KEYS_MAX", 2)
    store = Store()
    store.create("one")
    store.acquire(b"a", "one")
    three = [Operation(LOCK, key, session="one") for key in (b"a", b"b", b"c")]
    assert failures(store, *three) == [(2, 'failed to lock key "c", its session holds 2 keys')]
    assert told(store, Operation(UNLOCK, b"a", session="one"), *three[1:]).errors == []


def test_a_transaction_that_changes_nothing_moves_nothing() -> None:
    store = Store()
    store.put(b"a", b"1")
    answer = store.run(
        RunTransaction(
            (Operation(SET, b"a", b"1"), Operation(DELETE, b"none"), Operation(DELETE_TREE, b"none"))
        )
    )
    assert (answer.revision, answer.count, store.space.revision) == (1, 0, 1)
    assert answer.extras is not None
    result = decode_answer(answer.extras.transaction).results[0]
    assert isinstance(result, KeyResult)
    assert result.record is not None
    assert result.record.modify == 1


def test_reads_alone_need_no_entry() -> None:
    store = Store()
    store.put(b"a", b"1")
    before = store.machine.hash()
    said = store.machine.read_transaction((Operation(GET, b"a"), Operation(TREE, b"")))
    assert keys(said.results) == [(b"a", b"1"), (b"a", b"1")]
    assert store.machine.read_transaction((Operation(GET, b"b"),)).errors == [
        OperationError(0, 'key "b" doesn\'t exist')
    ]
    assert store.machine.hash() == before


def test_more_than_128_operations_are_refused() -> None:
    store = Store()
    answer = store.run(RunTransaction(tuple(Operation(SET, b"%d" % number) for number in range(129))))
    assert answer.outcome is StoreOutcome.REFUSED
    assert len(store.space.table) == 0


def test_trees_that_are_too_much_for_one_answer_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adsum.store.transactions.READ_MAX", 3)
    store = Store()
    for number in range(2):
        store.put(b"t/%d" % number, b"1")
    said = store.machine.read_transaction((Operation(TREE, b"t/"), Operation(TREE, b"t/")))
    assert [each.place for each in said.errors] == [1]
    assert "without a transaction" in said.errors[0].sentence


@pytest.mark.parametrize("verb", [GET, EMPTY])
def test_one_large_key_that_is_read_again_and_again_is_too_much_too_and_nothing_is_done(
    verb: KeyOperationVerb,
) -> None:
    """128 of them would be 64 MB, encoded by every server when the entry is applied."""
    store = Store()
    store.put(b"large", bytes(512 << 10))
    reads = [Operation(verb, b"large")] * 9
    sentence = (
        "what this transaction reads is more than 8192 keys or 4194304 bytes: read it in parts, or without a "
        "transaction"
    )
    assert failures(store, Operation(SET, b"a", b"1"), *reads) == [(9, sentence)]
    assert store.space.get(b"a") is None
    assert told(store, Operation(SET, b"a", b"1"), *reads[:8]).errors == []
    assert store.machine.reads_refused == 1


def test_one_value_is_read_however_large_it_is() -> None:
    store = Store()
    store.put(b"large", bytes(4 << 20))
    assert told(store, Operation(SET, b"a", b"1"), Operation(GET, b"large")).errors == []
    assert [place for place, _ in failures(store, *[Operation(GET, b"large")] * 2)] == [1]


def test_trees_that_are_deleted_together_have_as_many_events_as_one_entry_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rest raises the floor, and what is written afterwards in the same entry stands."""
    monkeypatch.setattr("adsum.store.transactions.EVENTS_OF_ONE_ENTRY_MAX", 5)
    store = Store()
    store.create("one")
    for tree in (b"a", b"b", b"c"):
        for number in range(3):
            store.acquire(b"%b/%d" % (tree, number), "one")
    told(
        store,
        *(Operation(DELETE_TREE, tree) for tree in (b"a/", b"b/", b"c/")),
        Operation(SET, b"a/0", b"again"),
        Operation(LOCK, b"b/0", session="one"),
    )
    assert store.space.history.floor == 11
    assert [key for key, _ in store.space.table.items(b"", None)] == [b"a/0", b"b/0"]
    assert [(store.record(key).lock_index, store.record(key).fence) for key in (b"a/0", b"b/0")] == [
        *((1, 2), (2, 11))
    ]
    assert store.restarted().space.held.of("one") == store.space.held.of("one") == [b"b/0"]
    assert store.space.fence_floor == 10


@pytest.mark.parametrize("keys_of_a_tree", [64, 8_000])
def test_128_trees_are_deleted_within_the_time_of_a_round(keys_of_a_tree: int) -> None:
    """Processor time, beside what a single large tree takes on the same machine."""

    def time_s(trees: int, keys_each: int) -> float:
        store = Store()
        held = KeyRecord(b"v", 1, 1, 0, 0, lock_index=1)
        for tree in range(trees):
            names = [b"%03d/%05d" % (tree, number) for number in range(keys_each)]
            for at in range(0, keys_each, 200):
                store.space.table.load(names[at : at + 200], [held] * len(names[at : at + 200]))
        operations = tuple(Operation(DELETE_TREE, b"%03d/" % tree) for tree in range(trees))
        began_s = time.thread_time()
        told(store, *operations)
        took_s = time.thread_time() - began_s
        assert len(store.space.table) == 0
        return took_s

    one = min(time_s(1, 8_192) for _ in range(3))
    assert min(time_s(128, keys_of_a_tree) for _ in range(3)) < 4 * one


def test_servers_count_alike_what_a_session_holds_when_a_large_tree_went(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One still has its keys in an index, the other came by a snapshot."""
    for module in ("session_keys", "locks", "transactions"):
        monkeypatch.setattr(f"adsum.store.{module}.HELD_KEYS_MAX", 4)
    store = Store.with_history(2)
    store.create(UNKNOWN)
    for key in (b"t/a", b"t/b", b"t/c"):
        store.acquire(key, UNKNOWN)
    store.delete_tree(b"t/")
    other = store.restarted()
    locks = Operation(LOCK, b"d", session=UNKNOWN), Operation(LOCK, b"e", session=UNKNOWN)
    assert told(other, *locks).errors == []
    assert told(store, *locks).errors == []
    assert store.machine.hash() == other.machine.hash()


def test_nothing_of_a_transaction_is_left_to_the_collector() -> None:
    """A server keeps its store from it now and then (`servers/collector.py`), with all that lives then."""
    store = Store()
    gc.collect()
    gc.disable()
    try:
        told(store, Operation(SET, b"a", b"1"), Operation(DELETE_TREE, b"b/"), Operation(TREE, b""))
        told(store, Operation(SET, b"a", b"2"), Operation(GET, b"missing"))
        planned = [each for each in gc.get_objects() if isinstance(each, PlannedTransaction | PlannedEntries)]
        assert planned == []
    finally:
        gc.enable()
