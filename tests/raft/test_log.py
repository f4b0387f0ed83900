"""The log in memory, and what its tickets prove about the disk."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from adsum.raft.log import Log
from adsum.raft.types import (
    ENTRY_OVERHEAD_BYTES,
    NEWEST_APPLY_LEVEL,
    Configuration,
    Entry,
    RevisionOffset,
    SnapshotMeta,
    Term,
    Ticket,
    bootstrap,
)
from tests.raft.support import A, B, C, entries, entry

THREE = Configuration((A, B, C))
FIRST = bootstrap(THREE)


def snapshot(index: int, term: int) -> SnapshotMeta:
    return SnapshotMeta(index, Term(term), THREE)


def log_of(*terms: int, commit: int = 1) -> Log:
    """As after a start: entries from index 2 on, all of them stored."""
    return Log(FIRST, entries(2, terms), commit=commit)


def terms(log: Log) -> list[int]:
    return [each.term for each in log.entries(log.first_index, log.last_index)]


# What it holds.


def test_a_new_log_ends_at_its_snapshot() -> None:
    log = log_of()
    assert (log.first_index, log.last_index, log.last_term) == (2, 1, 1)
    assert (log.term_at(0), log.term_at(1), log.term_at(2)) == (None, 1, None)


def test_a_log_that_reaches_back_before_its_snapshot_keeps_those_entries() -> None:
    log = Log(snapshot(5, 1), entries(3, [1, 1, 1, 2]))
    assert (log.first_index, log.last_index) == (4, 6)
    assert (log.term_at(2), log.term_at(3), log.term_at(6)) == (None, 1, 2)
    assert (log.commit, log.applied) == (5, 5)


def test_a_slice_ends_before_it_is_too_large_but_holds_one_entry() -> None:
    log = Log(FIRST, [entry(2, 1, b"x" * 10), entry(3, 1, b"x" * 20), entry(4, 1, b"x" * 30)])
    size = ENTRY_OVERHEAD_BYTES
    assert log.last_within(2, 4, 1) == 2
    assert log.last_within(2, 4, 2 * size + 29) == 2
    assert log.last_within(2, 4, 2 * size + 30) == 3
    assert log.last_within(2, 4, 1000) == 4
    assert log.last_within(3, 3, 1000) == 3
    assert log.bytes_between(2, 4) == 2 * size + 50


def test_a_slice_begins_where_all_of_it_is_small_enough() -> None:
    log = Log(FIRST, [entry(2, 1, b"x" * 10), entry(3, 1, b"x" * 20), entry(4, 1, b"x" * 30)])
    size = ENTRY_OVERHEAD_BYTES
    assert log.first_within(4, 1) == 5
    assert log.first_within(4, size + 30) == 4
    assert log.first_within(4, 2 * size + 49) == 4
    assert log.first_within(4, 2 * size + 50) == 3
    assert log.first_within(4, 3 * size + 60) == 2
    assert log.first_within(4, 1000) == 2
    assert log.first_within(2, size + 10) == 2
    assert log.first_within(2, size + 9) == 3


@pytest.mark.parametrize(
    ("index", "term", "expected"),
    [(9, 5, (9, 5)), (9, 4, (6, 3)), (9, 2, (4, 2)), (9, 1, (2, 1)), (5, 5, (5, 3)), (99, 5, (9, 5))],
)
def test_a_hint_skips_every_entry_of_a_later_term(index: int, term: int, expected: tuple[int, int]) -> None:
    log = log_of(1, 2, 2, 3, 3, 5, 5, 5)
    assert log.agreement_hint(index, Term(term)) == expected


def test_a_hint_before_what_was_compacted_has_no_term() -> None:
    log = Log(snapshot(5, 3), entries(6, [4]))
    assert log.agreement_hint(3, Term(2)) == (3, 0)
    assert log.agreement_hint(6, Term(2)) == (5, 3)


# How it grows.


def test_a_leader_leaves_no_gap() -> None:
    with pytest.raises(AssertionError, match="gaps"):
        log_of(1).append(entry(4, 1))


def test_cluster_time_does_not_run_backwards() -> None:
    log = log_of()
    log.append(entry(2, 1, time_ms=10, level=NEWEST_APPLY_LEVEL))
    with pytest.raises(AssertionError, match="cluster time"):
        log.append(entry(3, 1, time_ms=9, level=NEWEST_APPLY_LEVEL))


def test_what_a_leader_sends_replaces_only_what_contradicts_it() -> None:
    log = log_of(1, 1, 2, 2)
    assert log.merge(2, entries(3, [1, 3])) == 4
    assert terms(log) == [1, 1, 3]


def test_b4_a_late_duplicate_does_not_shorten_the_log() -> None:
    log = log_of(1, 1, 1, 1)
    assert log.merge(1, entries(2, [1, 1])) == 3
    assert terms(log) == [1, 1, 1, 1]
    assert log.merge(3, ()) == 3
    assert log.last_index == 5


def test_what_is_committed_is_never_cut() -> None:
    log = log_of(1, 1, 1, commit=3)
    with pytest.raises(AssertionError, match="follow"):
        log.merge(2, entries(3, [2]))


def test_commit_does_not_move_back_nor_past_the_end() -> None:
    log = log_of(1, 1)
    assert log.commit_to(3)
    assert not log.commit_to(2)
    assert log.commit == 3
    with pytest.raises(AssertionError, match="only what is here"):
        log.commit_to(4)


def test_b5_a_snapshot_replaces_even_entries_of_its_own_index() -> None:
    log = log_of(1, 1, 1, 1)
    log.restore(snapshot(4, 3))
    assert (log.first_index, log.last_index, log.last_term, log.commit) == (5, 4, 3, 4)
    assert log.take_unstored(Ticket(1)) == (snapshot(4, 3), None, [])


def test_compaction_keeps_what_the_snapshot_lacks() -> None:
    log = log_of(1, 1, 2, 2, commit=5)
    log.hand_out(4)
    log.applied_to(4)
    log.compact(snapshot(4, 2), 4)
    assert (log.first_index, log.last_index, log.term_at(3)) == (4, 5, 1)
    with pytest.raises(AssertionError, match="must stay"):
        log.compact(snapshot(4, 2), 6)
    with pytest.raises(AssertionError, match="of what was applied"):
        log.compact(snapshot(5, 2), 4)


# What the disk is known to hold.


def test_entries_are_handed_to_the_disk_once() -> None:
    log = log_of()
    log.merge(1, entries(2, [1, 1]))
    assert log.take_unstored(Ticket(1)) == (None, None, list(entries(2, [1, 1])))
    assert log.take_unstored(Ticket(2)) == (None, None, [])
    assert log.stable == 1
    log.stored(Ticket(2))
    assert log.stable == 3


def test_a_cut_is_told_to_the_disk_only_for_what_it_was_given() -> None:
    log = log_of()
    log.merge(1, entries(2, [1, 1]))
    log.merge(1, entries(2, [2]))
    assert log.take_unstored(Ticket(1)) == (None, None, list(entries(2, [2])))
    log.merge(1, entries(2, [3]))
    assert log.take_unstored(Ticket(2)) == (None, 2, list(entries(2, [3])))


def test_b7_a_write_that_ends_late_proves_nothing_of_what_was_brought_back_since() -> None:
    log = log_of()
    log.merge(1, entries(2, [1, 1]))
    log.take_unstored(Ticket(1))
    log.merge(1, entries(2, [2]))
    log.take_unstored(Ticket(2))
    log.merge(1, entries(2, [1, 1, 3]))  # the very entries of the first write
    log.take_unstored(Ticket(3))
    log.stored(Ticket(1))
    assert log.stable == 1
    log.stored(Ticket(2))
    assert log.stable == 1
    log.stored(Ticket(3))
    assert log.stable == 4


def test_only_what_is_durable_here_is_handed_out() -> None:
    log = log_of()
    log.merge(1, entries(2, [1, 1, 1]))
    log.commit_to(3)
    assert log.next_committed(10**6) == []
    log.take_unstored(Ticket(1))
    log.stored(Ticket(1))
    assert log.next_committed(10**6) == list(entries(2, [1, 1]))
    with pytest.raises(AssertionError, match="may yet be lost"):
        log.hand_out(4)


def test_nothing_is_handed_out_before_the_state_machine_stands_on_the_snapshot() -> None:
    log = log_of(1, 1, commit=3)
    log.restore(snapshot(7, 2))
    log.merge(7, entries(8, [2]))
    log.commit_to(8)
    assert log.is_restoring
    assert log.next_committed(10**6) == []
    log.take_unstored(Ticket(1))
    with pytest.raises(AssertionError, match="may yet be lost"):
        log.restored(7)
    log.stored(Ticket(1))
    assert (log.is_restoring, log.stable) == (True, 8)
    assert log.next_committed(10**6) == []
    assert log.restored(7)
    assert (log.is_restoring, log.applied, log.stable) == (False, 7, 8)
    assert log.next_committed(10**6) == list(entries(8, [2]))


def test_b5_a_second_snapshot_overtakes_the_first() -> None:
    log = log_of(1)
    log.restore(snapshot(5, 2))
    log.take_unstored(Ticket(1))
    log.restore(snapshot(9, 2))
    log.take_unstored(Ticket(2))
    log.stored(Ticket(1))
    assert not log.restored(5)
    log.stored(Ticket(2))
    assert log.is_restoring
    assert log.restored(9)
    assert (log.is_restoring, log.applied, log.stable) == (False, 9, 9)
    assert not log.restored(9)


# Any course of events, beside a disk that does exactly what it was told.


class LogBesideDisk(RuleBasedStateMachine):
    """`stable` may be modest, but what it claims must be on the disk."""

    @initialize()
    def begin(self) -> None:
        self.log = log_of()
        self.disk: list[Entry] = []  # entries behind the first snapshot's, or the last one installed
        self.disk_offset = 1
        self.writes: list[tuple[Ticket, SnapshotMeta | None, int | None, list[Entry]]] = []
        self.ticket = 0
        self.term = 1

    @rule(back=st.integers(0, 4), count=st.integers(0, 4), rise=st.integers(0, 2))
    def a_leader_appends(self, back: int, count: int, rise: int) -> None:
        self.term += rise
        prev = max(self.log.last_index - back, self.log.commit)
        first_term = self.log.term_at(prev) or 1
        new = entries(prev + 1, [max(first_term, self.term)] * count)
        self.log.merge(prev, new)

    @rule(forward=st.integers(0, 3))
    def commit_moves(self, forward: int) -> None:
        self.log.commit_to(min(self.log.commit + forward, self.log.last_index))

    @rule(ahead=st.integers(1, 4))
    def a_snapshot_arrives(self, ahead: int) -> None:
        self.log.restore(snapshot(self.log.commit + ahead, self.term))

    @rule()
    def a_batch_is_taken(self) -> None:
        self.ticket += 1
        self.writes.append((Ticket(self.ticket), *self.log.take_unstored(Ticket(self.ticket))))

    @precondition(lambda self: self.writes)
    @rule()
    def the_disk_is_done_with_one(self) -> None:
        ticket, install, truncate_from, new = self.writes.pop(0)
        if install is not None:
            self.disk, self.disk_offset = [], install.index
        if truncate_from is not None:
            del self.disk[truncate_from - self.disk_offset - 1 :]
        assert not new or new[0].index == self.disk_offset + len(self.disk) + 1, "a hole on the disk"
        self.disk += new
        self.log.stored(ticket)

    @precondition(lambda self: self.log.is_restoring and self.log.stable >= self.log.first_index - 1)
    @rule()
    def the_state_was_read(self) -> None:
        assert self.log.restored(self.log.first_index - 1)

    @rule()
    def everything_ready_is_applied(self) -> None:
        ready = self.log.next_committed(10**6)
        if ready:
            self.log.hand_out(ready[-1].index)
            self.log.applied_to(ready[-1].index)

    @invariant()
    def what_is_called_stable_is_on_the_disk(self) -> None:
        log = self.log
        for index in range(max(log.first_index, self.disk_offset + 1), log.stable + 1):
            assert self.disk[index - self.disk_offset - 1].term == log.term_at(index)

    @invariant()
    def marks_keep_their_order(self) -> None:
        log = self.log
        if not log.is_restoring:
            assert log.first_index - 1 <= log.applied <= log.handed_out <= min(log.commit, log.stable)
        assert log.commit <= log.last_index

    @invariant()
    def totals_are_the_sum_of_sizes(self) -> None:
        log = self.log
        held = log.entries(log.first_index, log.last_index)
        assert log.bytes_between(log.first_index - 1, log.last_index) == sum(e.bytes_total for e in held)


TestLogBesideDisk = LogBesideDisk.TestCase
TestLogBesideDisk.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_the_offset_of_revisions_only_rises_and_goes_with_the_snapshot() -> None:
    offset = RevisionOffset(1_000, 3)
    log = Log(FIRST, entries(2, [1, 1, 1]), commit=4, offset=offset)
    assert [log.offset_at(index) for index in (2, 3, 4)] == [0, 1_000, 1_000]
    log.hand_out(4)
    log.applied_to(2)
    assert log.snapshot_point(Configuration((A,)), 0).offset == 0
    log.applied_to(3)
    meta = log.snapshot_point(Configuration((A,)), 0)
    assert meta.offset == 1_000
    log.compact(meta, 4)
    assert log.offset_at(4) == 1_000
    assert Log(meta, entries(4, [1])).offset_at(4) == 1_000
    log.restore(SnapshotMeta(9, Term(2), Configuration((A,)), offset=5_000))
    assert log.revision_offset == RevisionOffset(5_000, 9)
