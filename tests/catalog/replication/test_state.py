from __future__ import annotations

from functools import reduce

import pytest

from adsum.catalog.replication import state as states
from adsum.catalog.replication.deltas import Delta, decode
from adsum.catalog.replication.items import Item, term
from adsum.catalog.replication.state import OwnerState, applied, collected, span_of

OWNER = b"ownerone"


def digest(*items: Item) -> int:
    return reduce(int.__xor__, map(term, items), 0)


def pushed(version: int, owner_digest: int, *items: Item) -> Delta:
    return Delta(OWNER, 1, version, owner_digest, items)


def told(
    version: int, owner_digest: int, *items: Item, since: int, through: int, gc_version: int = 0
) -> Delta:
    return Delta(OWNER, 1, version, owner_digest, items, since=since, through=through, gc_version=gc_version)


def holding(*deltas: Delta) -> OwnerState:
    return reduce(applied, deltas, OwnerState(OWNER, 1))


A1, B2, A3, B4_GONE = Item(1, 1, b"a"), Item(2, 2, b"b"), Item(1, 3, b"A"), Item(2, 4, None)


def values(state: OwnerState) -> dict[int, bytes | None]:
    return {item.number: item.value for item in state.live()}


def test_the_digest_of_a_push_tells_that_nothing_is_missing() -> None:
    state = holding(pushed(1, digest(A1), A1), pushed(2, digest(A1, B2), B2))
    assert (state.low_water, state.is_complete) == (2, True)


def test_a_missed_push_that_a_later_one_overtook_is_not_missed() -> None:
    state = holding(pushed(2, digest(A1, B2), B2), pushed(3, digest(A3, B2), A3))
    assert (state.low_water, state.is_complete) == (3, True)


def test_a_missed_push_is_visible_as_a_gap_and_closed_by_it_coming_late() -> None:
    gap = holding(pushed(1, digest(A1), A1), pushed(3, digest(A3, B2), A3))
    assert (gap.low_water, gap.is_complete, values(gap)) == (1, False, {1: b"A"})
    closed = applied(gap, pushed(2, digest(A1, B2), B2))
    assert (closed.low_water, closed.is_complete) == (3, True)


def test_older_news_than_what_is_known_of_an_item_changes_nothing() -> None:
    state = holding(pushed(3, digest(A3, B2), A3))
    assert applied(state, pushed(1, digest(A1), A1)) is state


def test_what_is_complete_does_not_take_back_what_was_removed_before_it_ever_heard_of_it() -> None:
    state = holding(pushed(3, digest(A3, B2), A3), pushed(4, digest(A3)))
    assert state.is_complete
    assert applied(state, pushed(2, digest(A1, B2), B2)) is state


def test_a_forgotten_tombstone_still_keeps_out_what_it_removed() -> None:
    state = collected(holding(pushed(4, 12345, B4_GONE)), 4)
    assert (state.items, state.gc_version, state.low_water) == ({}, 4, 0)
    assert values(applied(state, pushed(2, digest(A1, B2), B2))) == {}
    fresh = Item(2, 5, b"again")
    assert values(applied(state, pushed(5, 1, fresh))) == {2: b"again"}


def test_a_range_may_bring_what_is_older_than_a_forgotten_tombstone() -> None:
    state = collected(holding(pushed(4, digest(A3), B4_GONE)), 4)
    whole = told(4, digest(A3), A3, since=0, through=4, gc_version=4)
    assert values(applied(state, whole)) == {1: b"A"}
    assert applied(state, whole).is_complete


def test_a_range_that_does_not_begin_where_we_are_proves_nothing() -> None:
    state = holding(pushed(1, digest(A1), A1))
    after = applied(state, told(4, digest(A3), A3, since=2, through=4))
    assert (values(after), after.low_water) == ({1: b"A"}, 4)  # by its digest: nothing else was there
    other = applied(state, told(9, 12345, A3, since=2, through=9))
    assert (values(other), other.low_water) == ({1: b"A"}, 1)


def test_a_range_that_does_not_add_up_leaves_a_torn_state() -> None:
    state = holding(pushed(2, digest(A1, B2), A1, B2), told(4, digest(A3), A3, since=2, through=4))
    assert (state.is_torn, state.is_complete, state.low_water) == (True, False, 4)


def test_a_whole_owner_goes_without_tombstones_and_says_up_to_where() -> None:
    state = holding(pushed(4, digest(A3), A3, B2, B4_GONE))
    encoded, is_all = span_of(state, 0, 65_536)
    delta = decode(encoded)
    assert is_all
    assert (delta.items, delta.since, delta.through, delta.gc_version) == ((A3,), 0, 4, 4)
    encoded, _ = span_of(state, 2, 65_536)
    assert decode(encoded).items == (A3, B4_GONE)


def test_a_big_owner_is_told_in_pieces_oldest_first_that_add_up() -> None:
    items = [Item(number, 100 - number, bytes(1_000)) for number in range(50)]
    state = holding(pushed(100, digest(*items), *items))
    copy, turns = OwnerState(OWNER, 1), 0
    while not copy.is_complete:
        encoded, _ = span_of(state, copy.low_water, 8_000)
        assert len(encoded) < 8_300
        copy, turns = applied(copy, decode(encoded)), turns + 1
    assert turns == 8
    assert values(copy) == values(state)


def test_one_item_is_told_however_big_it_is() -> None:
    item = Item(1, 1, bytes(60_000))
    encoded, is_all = span_of(holding(pushed(1, digest(item), item)), 0, 100)
    assert is_all
    assert decode(encoded).items == (item,)


def test_what_is_not_complete_vouches_only_for_what_it_knows() -> None:
    state = holding(pushed(1, digest(A1), A1), pushed(3, digest(A3, B2), A3))
    delta = decode(span_of(state, 0, 65_536)[0])
    assert (delta.version, delta.through, delta.items) == (3, 1, (A3,))


def test_changes_are_what_a_reader_has_to_redo() -> None:
    before = holding(pushed(2, digest(A1, B2), A1, B2))
    after = applied(before, pushed(4, digest(A3), A3, B4_GONE))
    assert states.changes(before, after) == [(A1, A3), (B2, None)]
    assert states.changes(None, after) == [(None, A3)]
    assert states.changes(after, None) == [(A3, None)]
    assert states.changes(after, collected(after, 4)) == []


def test_too_many_items_are_refused_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states, "NUMBER_MAX", 1)
    state = holding(pushed(1, digest(A1), A1))
    with pytest.raises(states.TooBig):
        applied(state, pushed(2, digest(A1, B2), B2))
