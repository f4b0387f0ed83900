from __future__ import annotations

from adsum.consensus.effects import StoreGroup
from adsum.consensus.storing import Storing
from adsum.raft.batch import Batch, LogChange
from adsum.raft.types import Entry, EntryKind, HardState, SnapshotMeta, SnapshotRef, Term, Ticket


def batch(ticket: int, *, index: int = 0, commit: int = 0, install: SnapshotMeta | None = None) -> Batch:
    """With an entry or a snapshot, or only with the news of a commit."""
    entries = [Entry(index, Term(1), EntryKind.COMMAND, 0, 1, None, b"x")] if index else []
    hard_state = HardState(Term(1), None, commit)
    must_sync = bool(entries) or install is not None
    return Batch(Ticket(ticket), hard_state, None, entries, install, must_sync, [], [], [], [], None)


def tickets(group: list[Batch]) -> list[int]:
    return [each.ticket for each in group]


def with_one_under_way() -> Storing:
    made = Storing(None)
    made.add(batch(1, index=1))
    assert made.next_group() is not None
    return made


def test_what_gathers_while_one_group_is_on_its_way_goes_together() -> None:
    made = with_one_under_way()
    for ticket in (2, 3, 4):
        made.add(batch(ticket, index=ticket))
    assert made.next_group() is None  # one at a time
    assert tickets(made.stored(Ticket(1))) == [1]
    group = made.next_group()
    assert group is not None
    assert (group.ticket, len(group.changes)) == (4, 3)
    assert tickets(made.stored(Ticket(4))) == [2, 3, 4]
    assert (made.counters.groups, made.counters.sizes.total) == (2, 4)


def test_news_of_a_commit_makes_no_trip_of_its_own_and_rides_with_the_next_group() -> None:
    made = with_one_under_way()
    made.stored(Ticket(1))
    made.add(batch(2, commit=1))
    passed = made.next_without_sync()
    assert passed is not None
    assert (passed.ticket, made.counters.groups) == (2, 1)
    assert made.commit_to_keep == HardState(Term(1), None, 1)
    made.add(third := batch(3, index=2, commit=1))
    change = LogChange(entries=third.entries, hard_state=third.hard_state)
    assert made.next_group() == StoreGroup(
        Ticket(3), [LogChange(hard_state=HardState(Term(1), None, 1)), change]
    )
    assert made.commit_to_keep is None


def test_what_needs_no_sync_waits_for_what_is_ahead_of_it() -> None:
    made = with_one_under_way()
    made.add(batch(2, commit=1))
    assert made.next_without_sync() is None


def test_a_group_that_found_no_room_is_written_later_and_promised_only_then() -> None:
    made = with_one_under_way()
    made.found_no_room(Ticket(1))
    assert (made.has_room, made.counters.disk_full) == (False, 1)
    made.add(batch(2, index=2))
    assert made.next_group() is None  # not before it is told to try again
    made.try_again()
    group = made.next_group()
    assert group is not None
    assert group.ticket == 2
    assert tickets(made.stored(Ticket(2))) == [1, 2]


def test_a_snapshot_is_the_last_of_its_group() -> None:
    meta = SnapshotMeta(40, Term(1))
    ref = SnapshotRef(40, Term(1), 1_000, b"hash")
    made = Storing(None)
    made.note_snapshot(meta, ref)
    made.add(batch(1, install=meta))
    made.add(batch(2, index=41))
    change = LogChange(ref, entries=[], hard_state=HardState(Term(1), None, 0))
    assert made.next_group() == StoreGroup(Ticket(1), [change])
    assert made.newest is None
    made.stored(Ticket(1))
    assert made.newest == ref


def test_on_a_full_disk_answers_to_heartbeats_do_not_gather() -> None:
    made = with_one_under_way()
    made.found_no_room(Ticket(1))
    for number in range(2, 1_000):
        made.add(batch(number, commit=min(number, 7)))
    made.add(batch(1_000, index=2, commit=8))
    made.add(batch(1_001, commit=9))
    made.try_again()
    group = made.next_group()
    assert group is not None
    assert [change.hard_state for change in group.changes] == [
        HardState(Term(1), None, commit) for commit in (0, 7, 8, 9)
    ]
    assert tickets(made.stored(group.ticket)) == [1, 999, 1_000, 1_001]


def test_what_waits_to_be_installed_is_not_forgotten_for_later_snapshots() -> None:
    made = with_one_under_way()
    made.found_no_room(Ticket(1))
    meta = SnapshotMeta(40, Term(1))
    made.note_snapshot(meta, SnapshotRef(40, Term(1), 1_000, b"hash"))
    made.add(batch(2, install=meta))
    for index in range(50, 60):
        made.note_snapshot(SnapshotMeta(index, Term(1)), SnapshotRef(index, Term(1), 1_000, b"hash"))
    made.try_again()
    group = made.next_group()
    assert group is not None
    assert group.changes[-1].install == SnapshotRef(40, Term(1), 1_000, b"hash")


def test_of_the_snapshots_in_place_only_the_last_few_are_offered() -> None:
    made = Storing(None)
    metas = [SnapshotMeta(index, Term(1)) for index in range(1, 7)]
    for meta in metas:
        made.note_snapshot(meta, SnapshotRef(meta.index, Term(1), 1, b""))
    assert [made.ref_of(meta) is not None for meta in metas] == [False, False, True, True, True, True]
    made.forget_snapshot(SnapshotRef(6, Term(1), 1, b""))
    assert made.ref_of(metas[5]) is None
