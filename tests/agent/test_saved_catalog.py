"""The saved copy of the catalog: what it holds, and when it is written."""

from __future__ import annotations

from collections import UserDict
from dataclasses import replace
from itertools import pairwise

import pytest

from adsum.address import Address
from adsum.agent import saved_catalog
from adsum.agent.saved_catalog import (
    BYTES_A_SLICE,
    RANGES_A_SLICE,
    SAVE_NS,
    SLICE_NS,
    Copying,
    KnownOwner,
    KnownStore,
    OtherFormat,
    SavedCopy,
    SavedOwner,
)
from adsum.agent.saved_files import COPY
from adsum.catalog.replication.deltas import Delta, decode
from adsum.catalog.replication.items import Item, term
from adsum.catalog.replication.state import OwnerState, applied, merged, span_of
from adsum.catalog.saved import DamagedFile, sealed
from adsum.effects import WriteFile
from adsum.gossip.claims import Profile
from adsum.now import HOUR, MILLISECOND, Now
from adsum.owners import STORE

WALL_MS = 1_800_000_000_000


def at(ns: int) -> Now:
    return Now(ns, WALL_MS + ns // MILLISECOND)


def owner(number: int, items: int = 2, value: bytes = b"x", *, is_shown: bool = True) -> KnownOwner:
    profile = Profile(number.to_bytes(8) + bytes(8), f"n{number}", Address("10.0.0.1", 8301), b"meta")
    listed = tuple(Item(each, each + 1, value) for each in range(items))
    digest = 0
    for item in listed:
        digest ^= term(item)
    state = applied(OwnerState(profile.short, 7), Delta(profile.short, 7, items, digest, listed))
    return KnownOwner(profile, state, is_shown)


def content(changes: tuple[object, ...]) -> SavedCopy:
    (change,) = changes
    assert isinstance(change, WriteFile)
    assert change.path == COPY
    return saved_catalog.decode(change.content)


def test_what_is_saved_is_what_was_known() -> None:
    shown, hidden = owner(1), owner(2, is_shown=False)
    first, second = content(Copying(at(0)).last(at(5), [shown, hidden])).owners
    assert (first.profile, first.is_shown) == (shown.profile, True)
    assert (second.profile, second.is_shown) == (hidden.profile, False)
    again = saved_catalog.recalled(first)
    assert again is not None
    assert (again.generation, again.items, again.is_complete) == (7, shown.state.items, True)


@pytest.mark.parametrize("form", [1, 2, 4])
def test_a_copy_of_another_format_is_none(form: int) -> None:
    (saved,) = content(Copying(at(0)).last(at(5), [owner(1)])).owners
    who = saved.profile
    row = [who.node_id, who.name, *who.address, who.meta, list(saved.spans), True]
    assert saved_catalog.decode(sealed([3, WALL_MS, [row]])) == SavedCopy(WALL_MS, (saved,))
    with pytest.raises(OtherFormat, match=f"it is of format {form}, and this version writes 3"):
        saved_catalog.decode(sealed([form, WALL_MS, [row]]))


@pytest.mark.parametrize("value", [[3], [3, "a date", []], [True, WALL_MS, []], [3, WALL_MS, {}], "copy"])
def test_a_copy_of_our_format_that_makes_no_sense_is_damaged(value: object) -> None:
    with pytest.raises(DamagedFile, match="it holds no catalog"):
        saved_catalog.decode(sealed(value))


def test_the_version_of_a_member_is_kept_with_it() -> None:
    profile = replace(owner(1).profile, version="0.1.0")
    copy = SavedCopy(WALL_MS, (SavedOwner(profile, ()),))
    assert saved_catalog.decode(saved_catalog.encode(copy)) == copy


def test_what_servers_publish_is_kept_beside_the_members() -> None:
    published = KnownStore(owner(3).state, None)
    saved = content(Copying(at(0)).last(at(5), [owner(1)], published))
    assert (len(saved.owners), len(saved.store)) == (1, 1)
    assert content(Copying(at(0)).last(at(5), [], published)).store == saved.store
    assert content(Copying(at(0)).last(at(5), [owner(1)])).store == ()


@pytest.mark.parametrize("more", [[], [None], [[7, "text"]], [{}, 1]])
def test_a_copy_that_says_nothing_sensible_of_the_store_is_as_one_without(more: list[object]) -> None:
    assert saved_catalog.decode(sealed([3, WALL_MS, [], *more])) == SavedCopy(WALL_MS, ())


def test_an_owner_larger_than_a_frame_is_saved_in_several() -> None:
    large = owner(1, items=100, value=bytes(2_000))
    (saved,) = content(Copying(at(0)).last(at(5), [large])).owners
    assert len(saved.spans) > 1
    again = saved_catalog.recalled(saved)
    assert again is not None
    assert (again.items, again.is_complete) == (large.state.items, True)


def test_a_file_is_written_a_minute_after_the_start_and_then_only_after_a_change() -> None:
    copying, known = Copying(at(0)), [owner(1)]
    assert copying.tick(at(SAVE_NS - 1), known, b"root") == ()
    assert len(content(copying.tick(at(SAVE_NS), known, b"root")).owners) == 1
    assert copying.tick(at(2 * SAVE_NS), known, b"root") == ()
    assert copying.deadline() == 3 * SAVE_NS
    assert len(content(copying.tick(at(3 * SAVE_NS), known, b"other")).owners) == 1


def test_where_nothing_changes_the_date_of_the_file_is_never_much_older_than_an_hour() -> None:
    copying, dates = Copying(at(0)), list[int]()
    while copying.deadline() < 5 * HOUR:
        now = at(copying.deadline())
        dates += [content((file,)).wall_ms for file in copying.tick(now, [owner(1)], b"root")]
    hours = [(later - earlier) * MILLISECOND / HOUR for earlier, later in pairwise(dates)]
    assert [round(each) for each in hours] == [1, 1, 1, 1]


def test_who_is_hidden_now_is_a_change_though_the_catalog_is_the_same() -> None:
    copying = Copying(at(0))
    copying.tick(at(SAVE_NS), [owner(1)], b"root")
    (saved,) = content(copying.tick(at(2 * SAVE_NS), [owner(1, is_shown=False)], b"root")).owners
    assert not saved.is_shown
    assert copying.tick(at(3 * SAVE_NS), [owner(1, is_shown=False)], b"root") == ()


def test_many_owners_are_encoded_a_slice_at_a_time() -> None:
    copying, known = Copying(at(0)), [owner(number) for number in range(2 * RANGES_A_SLICE + 1)]
    assert copying.tick(at(SAVE_NS), known, b"root") == ()
    assert copying.tick(at(SAVE_NS + SLICE_NS), known, b"root") == ()
    assert len(content(copying.tick(at(SAVE_NS + 2 * SLICE_NS), known, b"root")).owners) == len(known)


class CountedItems(UserDict[int, Item]):
    """Items that count how often one of them was looked at."""

    looks = 0

    def __getitem__(self, number: int) -> Item:
        self.looks += 1
        return super().__getitem__(number)


def counted_store(items: int, value_bytes: int) -> tuple[KnownStore, CountedItems]:
    listed = [Item(each, each + 1, bytes(value_bytes)) for each in range(items)]
    state = merged(OwnerState(STORE, 7), listed, items, 0)
    counted = CountedItems(state.items)
    state.items = counted
    return KnownStore(state, None), counted


def test_no_slice_looks_at_more_of_a_large_store_than_a_few_ranges_and_at_no_item_twice() -> None:
    store, counted = counted_store(20_000, value_bytes=240)
    copying, time_ns, looks = Copying(at(0)), SAVE_NS, [0]
    while not (files := copying.tick(at(time_ns), [], b"root", store)):
        time_ns = copying.deadline()
        looks.append(counted.looks)
    slices = [after - before for before, after in pairwise((*looks, counted.looks))]
    assert (len(slices), max(slices) < 1_500, sum(slices)) == (16, True, 20_000)
    assert recalled_store(content(files)).is_complete


def test_at_an_orderly_end_no_item_of_a_large_store_is_looked_at_twice_either() -> None:
    store, counted = counted_store(20_000, value_bytes=240)
    assert len(content(Copying(at(0)).last(at(5), [], store)).store) == 79
    assert counted.looks == 20_000


def recalled_store(copy: SavedCopy) -> OwnerState:
    state = saved_catalog.recalled(SavedOwner(owner(1).profile, copy.store))
    assert state is not None
    return state


def test_a_store_that_changes_with_every_slice_is_saved_all_the_same_and_again_a_minute_later() -> None:
    copying, time_ns, number = Copying(at(0)), SAVE_NS, 7
    while not (files := copying.tick(at(time_ns), [], bytes([number]), changing(number))):
        time_ns, number = copying.deadline(), number + 1
    assert (number, recalled_store(content(files)).generation) == (9, 7)
    last = changing(number)
    for _ in range(3):
        time_ns = copying.deadline()
        files = copying.tick(at(time_ns), [], bytes([number]), last)
    assert recalled_store(content(files)).generation == 9
    assert copying.tick(at(copying.deadline()), [], bytes([number]), last) == ()


def changing(generation: int) -> KnownStore:
    """Two slices and a half."""
    count = 5 * BYTES_A_SLICE // 2 // 10_000
    listed = [Item(each, each + 1, bytes(10_000)) for each in range(count)]
    return KnownStore(merged(OwnerState(STORE, generation), listed, count, 0), None)


def test_what_is_again_as_it_was_written_before_the_next_file_is_complete_is_not_due_at_once() -> None:
    copying, known = Copying(at(0)), [owner(number) for number in range(2 * RANGES_A_SLICE)]
    for time_ns in (SAVE_NS, SAVE_NS + SLICE_NS, SAVE_NS + 2 * SLICE_NS):
        files = copying.tick(at(time_ns), known, b"root")
    assert len(content(files).owners) == len(known)
    again = [owner(number) for number in range(2 * RANGES_A_SLICE)]
    assert copying.tick(at(3 * SAVE_NS), again, b"other") == ()
    assert copying.tick(at(3 * SAVE_NS + SLICE_NS), again, b"root") == ()
    assert copying.deadline() == 4 * SAVE_NS + SLICE_NS


def test_when_the_last_server_went_is_saved_with_what_they_published() -> None:
    state = owner(3).state
    present = content(Copying(at(0)).last(at(9 * HOUR), [], KnownStore(state, None)))
    assert (present.store_gone_ms, present.store_wall_ms) == (None, WALL_MS + 9 * HOUR // MILLISECOND)
    alone = content(Copying(at(0)).last(at(9 * HOUR), [], KnownStore(state, 2 * HOUR)))
    assert alone.store_wall_ms == WALL_MS + 2 * HOUR // MILLISECOND
    assert alone.wall_ms == WALL_MS + 9 * HOUR // MILLISECOND
    before = content(Copying(at(0)).last(at(0), [], KnownStore(state, -3 * HOUR)))  # before this start
    assert before.store_wall_ms == WALL_MS - 3 * HOUR // MILLISECOND


@pytest.mark.parametrize("gone", ["yesterday", True, None, []])
def test_a_date_of_the_store_that_is_none_is_that_of_the_copy(gone: object) -> None:
    copy = saved_catalog.decode(sealed([3, WALL_MS, [], [b"a range"], gone]))
    assert (copy.store, copy.store_wall_ms) == ((b"a range",), WALL_MS)


@pytest.mark.parametrize("length", [0, 1, 23, 24, 255, 256, 65_535, 65_536])
def test_a_copy_is_encoded_in_pieces_as_it_would_be_as_a_whole(length: int) -> None:
    store = (bytes(length), *[b"r"] * length)
    copy = SavedCopy(WALL_MS, (), store=store, store_gone_ms=5)
    assert saved_catalog.encode(copy) == sealed([3, WALL_MS, [], list(store), 5])


def test_ranges_that_each_vouch_for_a_part_are_recalled_as_well() -> None:
    """As versions before this one wrote them."""
    state, since, is_all = owner(1, items=100, value=bytes(2_000)).state, 0, False
    spans: list[bytes] = []
    while not is_all:
        encoded, is_all = span_of(state, since, 65_536)
        spans.append(encoded)
        since = decode(encoded).through or 0
    assert [decode(each).since for each in spans] == [0, 32, 64, 96]
    again = saved_catalog.recalled(SavedOwner(owner(1).profile, tuple(spans)))
    assert again is not None
    assert (again.items, again.is_complete) == (state.items, True)
    part = saved_catalog.recalled(SavedOwner(owner(1).profile, (*spans[:3], b"damaged", spans[3])))
    assert part is not None
    assert (part.low_water, len(part.items)) == (96, 96)


def test_what_was_removed_is_not_saved_and_known_to_be_gone() -> None:
    known = owner(1, items=100, value=bytes(2_000))
    profile, state = known.profile, merged(known.state, [Item(50, 101, None)], 101, 0)
    (saved,) = content(Copying(at(0)).last(at(5), [KnownOwner(profile, state, is_shown=True)])).owners
    again = saved_catalog.recalled(saved)
    assert again is not None
    assert (again.is_complete, again.gc_version, 50 in again.items, len(again.items)) == (
        True,
        101,
        False,
        99,
    )


def test_of_an_owner_that_is_known_in_part_that_part_is_saved() -> None:
    known = owner(1, items=100, value=bytes(2_000))
    ahead = Delta(known.profile.short, 7, 200, 1, (Item(150, 200, b"y"),))
    partly = KnownOwner(known.profile, applied(known.state, ahead), is_shown=True)
    (saved,) = content(Copying(at(0)).last(at(5), [partly])).owners
    again = saved_catalog.recalled(saved)
    assert again is not None
    assert (again.low_water, again.version, len(again.items), again.is_complete) == (100, 200, 101, False)


def test_an_agent_that_knows_nobody_leaves_no_file() -> None:
    assert Copying(at(0)).last(at(5), []) == ()


@pytest.mark.parametrize("damage", [b"", b"adsum1\n", b"adsum1\n" + bytes(40)])
def test_a_damaged_file_is_known_as_such(damage: bytes) -> None:
    with pytest.raises(DamagedFile):
        saved_catalog.decode(damage)


def test_spans_that_make_no_sense_are_not_recalled() -> None:
    profile = owner(1).profile
    assert saved_catalog.recalled(SavedOwner(profile, (b"\xff",))) is None
    assert saved_catalog.recalled(SavedOwner(profile, ())) is None


@pytest.mark.parametrize(
    "change",
    [{2: "fe80::1%a\0b"}, {2: "example.com"}, {3: 0}, {3: 1 << 40}, {0: b"short"}, {5: [7]}, {6: 1}],
    ids=["a NUL in the scope", "a name", "no port", "a port too great", "no id", "no spans", "no boolean"],
)
def test_an_owner_that_makes_no_sense_is_left_out_alone(change: dict[int, object]) -> None:
    owners = content(Copying(at(0)).last(at(5), [owner(1), owner(2)])).owners
    whos = [each.profile for each in owners]
    rows = [[who.node_id, who.name, *who.address, b"", [], True] for who in whos]
    for place, value in change.items():
        rows[1][place] = value
    copy = saved_catalog.decode(sealed([3, WALL_MS, rows]))
    assert [each.profile.name for each in copy.owners] == ["n1"]
    assert copy.unreadable == 1


def test_of_an_owner_with_more_than_anybody_may_have_nothing_is_recalled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (saved,) = content(Copying(at(0)).last(at(5), [owner(1)])).owners
    monkeypatch.setattr("adsum.catalog.replication.state.OWNER_BYTES_MAX", 1)
    state = saved_catalog.recalled(saved)
    assert state is not None
    assert state.items == {}
