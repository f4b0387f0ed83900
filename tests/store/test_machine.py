"""What committed entries do, each with its literal answer."""

from __future__ import annotations

import hashlib
import itertools
import os
import subprocess
import sys

import pytest

from adsum.dedup import DedupKey
from adsum.kv import KeyRecord, RecordExtras, StoreAnswer, StoreOutcome, decode_answer
from adsum.raft.types import Entry, EntryKind, RevisionOffset, Term
from adsum.store.commands import (
    Delete,
    DeleteTree,
    LeaseRule,
    Put,
    StoreCommand,
    StoreRequest,
    encode_request,
)
from adsum.store.history import HistoryBounds
from adsum.store.machine import StoreMachine
from tests.store.stores import WALL_MS, Store, entry

DONE, FAILED = StoreOutcome.DONE, StoreOutcome.COMPARE_FAILED


def test_a_put_creates_and_replaces_with_the_revision_of_its_entry() -> None:
    store = Store()
    assert store.put(b"a", b"1") == StoreAnswer(DONE, revision=1, index=1, count=1)
    assert store.put(b"b", b"2") == StoreAnswer(DONE, revision=2, index=2, count=1)
    assert store.put(b"a", b"3") == StoreAnswer(DONE, revision=3, index=3, count=1)
    assert store.space.get(b"a") == KeyRecord(
        b"3", create=1, modify=3, created_ms=WALL_MS + 1, modified_ms=WALL_MS + 3, version=2
    )


def test_a_put_that_changes_nothing_moves_no_revision() -> None:
    store = Store()
    store.put(b"a", b"1")
    assert store.put(b"a", b"1") == StoreAnswer(DONE, revision=1, index=2)
    assert store.run(Put(b"a", b"1", skips_equal=False)) == StoreAnswer(DONE, revision=3, index=3, count=1)
    assert store.run(Put(b"a", b"1", flags=2**64 - 1, skips_equal=True)).revision == 4
    record = store.space.get(b"a")
    assert record is not None
    assert (record.flags, record.version) == (2**64 - 1, 3)


def test_check_and_set_compares_with_the_last_change_of_that_key() -> None:
    store = Store()
    assert store.put(b"a", b"1", cas=5) == StoreAnswer(FAILED, revision=0, index=1)
    assert store.put(b"a", b"1", cas=0).outcome is DONE
    assert store.put(b"a", b"2", cas=0) == StoreAnswer(FAILED, revision=2, index=3)
    assert store.put(b"a", b"2", cas=2).outcome is DONE
    assert store.put(b"a", b"3", cas=2) == StoreAnswer(FAILED, revision=4, index=5)
    assert store.delete(b"a", cas=2).outcome is FAILED
    assert store.delete(b"a", cas=0).outcome is FAILED
    assert store.delete(b"a", cas=4) == StoreAnswer(DONE, revision=8, index=8, count=1)
    assert store.delete(b"a", cas=4) == StoreAnswer(DONE, revision=8, index=9)


def test_an_answer_has_the_records_before_and_after_if_they_are_wanted() -> None:
    store = Store()
    store.put(b"a", b"1")
    before = store.space.get(b"a")
    answer = store.run(Put(b"a", b"2"), wants_records=True)
    assert (answer.before, answer.after) == (before, store.space.get(b"a"))
    assert store.run(Delete(b"a"), wants_records=True).before == answer.after


def test_a_tree_is_deleted_as_one_entry() -> None:
    store = Store()
    for key in (b"a", b"a/1", b"a/2", b"a0", b"b"):
        store.put(key, b"")
    assert store.delete_tree(b"a/") == StoreAnswer(DONE, revision=6, index=6, count=2)
    assert [key for key, _ in store.space.table.items(b"", None)] == [b"a", b"a0", b"b"]
    assert store.delete_tree(b"a/") == StoreAnswer(DONE, revision=6, index=7)
    assert store.delete_tree(b"").count == 3


HELD, OTHER = "session-1", "session-2"


@pytest.mark.parametrize(
    ("held", "rule", "given", "then"),
    [
        (None, LeaseRule.KEEP, None, None),
        (None, LeaseRule.KEEP, OTHER, None),
        (None, LeaseRule.NONE, None, None),
        (None, LeaseRule.THIS, OTHER, OTHER),
        (HELD, LeaseRule.KEEP, None, HELD),
        (HELD, LeaseRule.KEEP, OTHER, HELD),
        (HELD, LeaseRule.NONE, None, None),
        (HELD, LeaseRule.NONE, OTHER, None),
        (HELD, LeaseRule.THIS, OTHER, OTHER),
    ],
)
def test_a_put_says_what_happens_to_the_lease(
    held: str | None, rule: LeaseRule, given: str | None, then: str | None
) -> None:
    store = Store()
    store.run(Put(b"a", b"1", lease_rule=LeaseRule.THIS, lease=held))
    store.run(Put(b"a", b"2", lease_rule=rule, lease=given))
    record = store.space.get(b"a")
    assert record is not None
    assert record.lease == then


def test_a_repeated_request_is_answered_and_not_run_again() -> None:
    store = Store()
    key = DedupKey("agent-1", generation=7, sequence=1, low_water=0)
    first = store.run(Put(b"a", b"1"), key)
    store.put(b"a", b"2")
    assert store.run(Put(b"a", b"1"), key.again()) == first
    record = store.space.get(b"a")
    assert record is not None
    assert record.value == b"2"


def test_who_is_told_to_begin_anew_is_told_the_revision_of_now() -> None:
    """With it a fresh agent is past the floor; it had seen nothing before."""
    store = Store(StoreMachine(results_bytes_max=1))
    store.run(Put(b"a", b"1"), DedupKey("agent-1", 7, 1, 0))
    answer = store.run(Put(b"a", b"2"), DedupKey("agent-2", 7, 1, 0), seen=0)
    assert answer == StoreAnswer(StoreOutcome.NOT_DONE, revision=2, index=2)
    anew = store.run(Put(b"a", b"2"), DedupKey("agent-2", 7, 2, 0), seen=2)
    assert anew == StoreAnswer(StoreOutcome.DONE, revision=3, index=3, count=1)


def test_an_older_run_of_an_agent_is_refused_with_the_generation_in_force() -> None:
    store = Store()
    store.run(Put(b"a", b"1"), DedupKey("agent-1", 7, 1, 0))
    answer = store.run(Put(b"a", b"2"), DedupKey("agent-1", 6, 2, 0))
    assert answer == StoreAnswer(StoreOutcome.OLD_GENERATION, revision=7, index=2)


def test_what_the_log_cannot_mean_is_an_answer() -> None:
    machine = StoreMachine()
    assert decode_answer(machine.apply(entry(1, b"\xff"))).outcome is StoreOutcome.MALFORMED
    assert decode_answer(machine.apply(entry(2, b""))).outcome is StoreOutcome.MALFORMED
    unknown = encode_request(StoreRequest(Put(b"a", b"", keyspace=9), 0))
    assert decode_answer(machine.apply(entry(3, unknown))).outcome is StoreOutcome.MALFORMED
    assert machine.apply(Entry(4, Term(1), EntryKind.TERM_BEGIN, 77, 1, None, b"")) == b""
    assert (machine.applied, machine.cluster_ms) == (4, 77)


def test_an_error_before_the_first_change_is_an_answer_and_one_after_it_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Store()
    store.put(b"a", b"1")
    with monkeypatch.context() as patch:
        patch.setattr(store.space.tombstones, "get", lambda _key: 1 // 0)
        assert store.put(b"b", b"2").outcome is StoreOutcome.INTERNAL_ERROR
    assert store.machine.internal_errors == 1
    with monkeypatch.context() as patch:
        patch.setattr(store.space.history, "add", lambda _change: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            store.put(b"b", b"2")
    with monkeypatch.context() as patch:
        patch.setattr(store.space, "get", lambda _key: (_ for _ in ()).throw(MemoryError))
        with pytest.raises(MemoryError):
            store.put(b"c", b"2")


def test_revisions_rise_by_the_offset_from_its_index_on() -> None:
    machine = StoreMachine(RevisionOffset(1_000, from_index=3))
    answers = [
        decode_answer(machine.apply(entry(index, encode_request(StoreRequest(Put(b"a", b"%d" % index), 0)))))
        for index in range(1, 5)
    ]
    assert [answer.revision for answer in answers] == [1, 2, 1_003, 1_004]
    assert [answer.index for answer in answers] == [1, 2, 3, 4]


def test_fence_and_lock_index_survive_deletion() -> None:
    store = Store()
    store.put(b"a", b"1")
    record = store.space.get(b"a")
    assert record is not None
    held = KeyRecord(b"1", 1, 1, 0, 0, lock_index=3, extras=RecordExtras(token=1, fence=41))
    store.space.table.put(b"a", held)
    store.delete(b"a")
    assert store.space.fence_of(b"a") == 41
    store.put(b"a", b"2")
    again = store.space.get(b"a")
    assert again is not None
    assert (again.version, again.create, again.lock_index, again.fence) == (1, 3, 3, 41)


def told_of_a_life() -> str:
    """All answers, and the hash in the end."""
    store = Store(StoreMachine(bounds=HistoryBounds(20, 1 << 20), results_bytes_max=2_000))
    answers = []
    for number, key in itertools.product(range(50), (b"a", b"b/1", b"b/2")):
        dedup = DedupKey(f"agent-{number % 3}", 1, number, number - 5)
        answers.append(store.run(Put(key, b"%d" % number), dedup, seen=store.index))
        if number % 7 == 0:
            answers.append(store.delete_tree(b"b/"))
    return hashlib.sha256(f"{answers} {store.machine.hash()!r}".encode()).hexdigest()


def test_b19_answers_and_hash_depend_on_the_entries_alone() -> None:
    """Not on the seed of hashes, by which sets are ordered, nor on a clock: each process has another time."""
    program = "from tests.store.test_machine import *; print(told_of_a_life())"
    told = [
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "7")
    ]
    assert told == [told_of_a_life()] * 2


def hash_of(*commands: StoreCommand, results_bytes_max: int = 1 << 20) -> bytes | None:
    store = Store(StoreMachine(bounds=HistoryBounds(2, 1 << 20), results_bytes_max=results_bytes_max))
    for command in commands:
        store.run(command, DedupKey("agent-1", 1, store.index + 1, 1))
    return store.machine.hash()


def test_whatever_is_different_has_another_hash() -> None:
    first, last = Put(b"a", b"1"), Put(b"z", b"1")
    several = [
        hash_of(first, last),
        hash_of(first, last, results_bytes_max=110),
        hash_of(Put(b"a", b"2"), last),
        hash_of(Put(b"a", b"1", flags=1), last),
        hash_of(Put(b"b", b"1"), last),
        hash_of(first, Delete(b"a")),
        hash_of(Put(b"b", b"1"), Delete(b"b")),
        hash_of(first, DeleteTree(b"a")),
        hash_of(first, DeleteTree(b"")),
        hash_of(first, Delete(b"absent")),
        hash_of(first, first),
        hash_of(first, last, last),
        hash_of(first, last, last, last),
        hash_of(first, last, Put(b"y", b"1")),
    ]
    assert len(set(several)) == len(several)


def test_text_that_is_no_utf_8_is_an_answer() -> None:
    request = encode_request(StoreRequest(Put(b"a", b"", lease="xyz"), 0)).replace(b"xyz", b"\xff\xff\xff")
    assert decode_answer(StoreMachine().apply(entry(1, request))).outcome is StoreOutcome.MALFORMED
