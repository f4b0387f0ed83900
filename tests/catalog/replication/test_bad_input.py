"""What comes from the network and is wrong, foreign or too much: counted, bounded, and nothing breaks."""

from __future__ import annotations

from random import Random

import pytest

from adsum.catalog.replication import bodies, core, owner_table
from adsum.catalog.replication.deltas import decode, push, span
from adsum.catalog.replication.effects import AskingPart, AskPeer, Confirmed, ForeignNews, OwnerChanged
from adsum.catalog.replication.items import COUNTER_MAX, Item, term
from adsum.effects import AskTicket
from adsum.now import HOUR, MILLISECOND, MINUTE, SECOND
from tests.catalog.replication.support import FIRST_WALL_MS, Group, Peer, at, values

WEB = Item(1, 1, b"web")


def one_push(owner: Peer, item: Item = WEB, *, generation: int = 1, version: int = 0) -> bytes:
    return push(owner.short, generation, version or item.version, term(item), [item])


@pytest.fixture
def pair() -> tuple[Peer, Peer]:
    one, other = Peer(1), Peer(2)
    one.core.joined(at(0), other.short)
    return one, other


def test_garbage_is_counted(pair: tuple[Peer, Peer]) -> None:
    one, other = pair
    random = Random(1)
    garbage = tuple(random.randbytes(random.randrange(80)) for _ in range(500))
    one.core.hear(at(0), other.short, garbage)
    assert one.core.tally.dropped == {"malformed": 500}
    assert not [each for each in one.take() if isinstance(each, OwnerChanged)]


def test_garbage_in_calls_is_counted_and_answered(pair: tuple[Peer, Peer]) -> None:
    one, other = pair
    for method in (bodies.COMPARE, bodies.FETCH, bodies.ITEMS, "catalog.burn"):
        assert one.core.asked(at(0), other.short, method, b"garbage") == bodies.REFUSED
    assert one.core.tally.dropped == {"malformed": 3, "unknown method": 1}
    one.core.answered(at(0), AskTicket(AskingPart.EXCHANGES, 1), b"nobody asked")
    one.core.answered(at(0), AskTicket(AskingPart.PULLS, 1), b"nobody asked")
    assert one.core.tally.dropped["not asked for"] == 2


def test_an_answer_reaches_nobody_but_the_part_that_asked(pair: tuple[Peer, Peer]) -> None:
    one, _other = pair
    one.core.confirm(at(SECOND), 1)
    (asked,) = [each for each in one.take() if isinstance(each, AskPeer)]
    assert asked.ticket == AskTicket(AskingPart.CONFIRMING, 1)
    nothing = bodies.compared([], is_more=False)
    for part in (AskingPart.EXCHANGES, AskingPart.PULLS, AskingPart.DOUBTS):
        one.core.answered(at(SECOND), AskTicket(part, 1), nothing)
    assert one.core.tally.dropped == {"not asked for": 2}
    assert not [each for each in one.take() if isinstance(each, Confirmed)]
    one.core.answered(at(SECOND), asked.ticket, nothing)
    assert [each for each in one.take() if isinstance(each, Confirmed)] == [Confirmed(1, "")]


def test_a_later_life_of_which_nothing_adds_up_is_not_shown_as_an_empty_one(pair: tuple[Peer, Peer]) -> None:
    """The whole of it was told, and its digest is not that of its items. What is shown has a version, and can
    be told on and saved."""
    one, other = pair
    holding = one.core._copies.holdings[other.short]
    for generation in (1, 2):
        told = span(other.short, generation, 5, 1, [WEB], since=0, through=5, gc_version=0)
        one.core._copies.hear(at(generation), other.short, holding, decode(told), is_push=False)
    for second in range(3, 60):
        one.core.tick(at(second * SECOND))
        one.take()
    assert holding.state is not None
    assert (holding.state.generation, holding.state.version) == (1, 5)
    assert values(one, other) == {1: b"web"}


def test_an_answer_that_is_garbage_ends_the_exchange_and_no_more() -> None:
    group = Group(2)
    one = group.peers[0]
    group.pass_time(SECOND, answers=False)
    (ask,) = [each for each in one.take() if isinstance(each, AskPeer)]
    one.core.answered(group.now, ask.ticket, b"garbage")
    assert one.core.tally.exchanges_failed == 1
    group.peers[1].core.publisher.put(group.now.monotonic_ns, "web", b"x")
    group.mix(5 * SECOND)
    assert values(one, group.peers[1]) == {1: b"x"}


def test_gaps_are_shown_counted_and_not_taken_for_complete(pair: tuple[Peer, Peer]) -> None:
    one, other = pair
    one.core.hear(at(0), other.short, (push(other.short, 1, 9, 12345, [Item(1, 9, b"web")]),))
    state = one.core.state(other.short)
    assert state is not None
    assert values(one, other) == {1: b"web"}
    assert (state.version, state.low_water, state.is_complete) == (9, 0, False)
    assert one.core.confirmed_ns(other.short) is None
    assert one.core.tally.gaps == 1


def test_versions_that_are_far_ahead_are_dropped_from_pushes(pair: tuple[Peer, Peer]) -> None:
    one, other = pair
    ahead = WEB._replace(version=owner_table.AHEAD_MAX + 2)
    one.core.hear(at(0), other.short, (one_push(other), one_push(other, ahead)))
    assert one.core.tally.dropped == {"version ahead": 1}
    assert values(one, other) == {1: b"web"}


def test_a_life_that_is_over_is_dropped(pair: tuple[Peer, Peer]) -> None:
    one, other = pair
    one.core.hear(at(0), other.short, (one_push(other, generation=5), one_push(other, generation=4)))
    assert one.core.tally.dropped == {"older generation": 1}


def test_an_owner_that_floods_is_cut_off_and_repaired_by_an_exchange() -> None:
    group = Group(2)
    one, flooder = group.peers
    item = WEB
    for version in range(1, 1_001):
        item = Item(1, version, b"%d" % version)
        one.core.hear(group.now, flooder.short, (one_push(flooder, item),))
    assert one.core.tally.dropped == {"flood": 800 - 1}  # the first of an owner is free
    assert one.core.tally.news == 201


def test_a_range_does_not_come_by_gossip(pair: tuple[Peer, Peer]) -> None:
    one, other = pair
    encoded = span(other.short, 1, 1, term(WEB), [WEB], since=0, through=1, gc_version=0)
    one.core.hear(at(0), other.short, (encoded,))
    assert one.core.tally.dropped == {"range in a push": 1}


def test_strangers_wait_in_a_small_room_until_they_are_introduced() -> None:
    one = Peer(1)
    strangers = [
        bytes([number // 256, number % 256]).ljust(8, b".") for number in range(core.WAITING_MAX + 10)
    ]
    for stranger in strangers:
        one.core.hear(at(0), stranger, (push(stranger, 1, 1, term(WEB), [WEB]),))
    assert one.core.tally.dropped == {"unknown owner": 10}
    one.core.joined(at(1), strangers[0])
    assert one.core.state(strangers[0]) is not None
    one.core.joined(at(1), strangers[-1])
    assert one.core.state(strangers[-1]) is None


def test_strangers_that_nobody_introduces_make_room_after_two_minutes() -> None:
    one = Peer(1)
    for number in range(core.WAITING_MAX):
        stranger = number.to_bytes(8, "big")
        one.core.hear(at(0), stranger, (push(stranger, 1, 1, term(WEB), [WEB]),))
    one.core.tick(at(MINUTE))
    one.core.tick(at(2 * MINUTE))
    one.core.hear(at(2 * MINUTE), b"stranger", (push(b"stranger", 1, 1, term(WEB), [WEB]),))
    assert one.core.tally.dropped == {}


def test_who_says_more_of_me_than_i_did_is_named(pair: tuple[Peer, Peer]) -> None:
    one, other = pair
    one.core.publisher.put(0, "web", b"web")
    one.core.tick(at(0))
    one.take()
    mine = push(one.short, 1, 2, 1, [Item(1, 2, b"older me")])
    one.core.hear(at(1), other.short, (mine, mine))
    assert one.take() == [ForeignNews(other.short, 1, 2)]
    assert one.core.tally.dropped == {"foreign": 2}
    assert one.published() == {1: b"web"}


def test_a_generation_of_next_week_makes_no_owner_unbelievable(pair: tuple[Peer, Peer]) -> None:
    """Of me it would make me go beyond it, of another it would make all that it says old."""
    one, other = pair
    wild = FIRST_WALL_MS + 7 * 24 * HOUR // MILLISECOND
    for generation in (wild, COUNTER_MAX - 1):
        forged = (one_push(one, generation=generation), one_push(other, generation=generation))
        one.core.hear(at(0), other.short, forged)
    assert one.core.tally.dropped == {"generation ahead": 4}
    assert one.take() == []
    one.core.hear(at(1), other.short, (one_push(other),))
    assert values(one, other) == {1: b"web"}


def test_who_compares_and_has_another_me_is_named_too() -> None:
    group = Group(2)
    one, other = group.peers
    other.core.hear(group.now, one.short, (push(one.short, 1, 7, 1, [Item(1, 7, b"another life")]),))
    other.core.hear(
        group.now, one.short, (push(one.short, 1, 7, term(Item(1, 7, b"x")), [Item(1, 7, b"x")]),)
    )
    told: list[ForeignNews] = []
    for _ in range(10):
        group.mix(SECOND)
        told += [each for each in one.take() if isinstance(each, ForeignNews)]
    assert {each.relay for each in told} == {other.short}
    one.core.renew(group.now, 2)
    group.mix(5 * SECOND)
    assert values(other, one) == {}


def test_an_owner_may_not_grow_without_bound(
    pair: tuple[Peer, Peer], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = pair
    monkeypatch.setattr("adsum.catalog.replication.state.OWNER_BYTES_MAX", 100)
    one.core.hear(at(0), other.short, (one_push(other, Item(1, 1, bytes(50))),))
    one.core.hear(at(0), other.short, (push(other.short, 1, 2, 5, [Item(2, 2, bytes(50))]),))
    assert one.core.tally.dropped == {"too big": 1}
    assert values(one, other) == {1: bytes(50)}


def test_owners_may_not_be_without_number(pair: tuple[Peer, Peer], monkeypatch: pytest.MonkeyPatch) -> None:
    one, _ = pair
    monkeypatch.setattr(owner_table, "OWNERS_MAX", 2)
    one.core.joined(at(0), b"stranger")
    assert one.core.tally.dropped == {"too many owners": 1}
    assert b"stranger" not in one.core.owners()


def test_who_left_is_forgotten_at_once_and_comes_back_by_a_newer_life_only(pair: tuple[Peer, Peer]) -> None:
    one, other = pair
    one.core.hear(at(0), other.short, (one_push(other, generation=5),))
    one.take()
    one.core.member_left(at(1), other.short, 5)
    gone = one.take()[0]
    assert isinstance(gone, OwnerChanged)
    assert gone.after is None
    one.core.joined(at(2), other.short)
    one.core.hear(at(3), other.short, (one_push(other, generation=5),))
    assert values(one, other) == {}
    assert one.core.tally.dropped == {"buried": 1}
    one.core.hear(at(4), other.short, (one_push(other, generation=6),))
    assert values(one, other) == {1: b"web"}


def test_who_gave_way_by_mistake_comes_back_with_all_that_it_published(pair: tuple[Peer, Peer]) -> None:
    one, other = pair
    one.core.hear(at(0), other.short, (one_push(other, generation=5),))
    one.core.member_left(at(1), other.short, 4)
    one.core.joined(at(2), other.short)
    one.core.hear(at(3), other.short, (one_push(other, generation=5),))
    assert values(one, other) == {1: b"web"}


def test_who_is_present_in_the_generation_that_was_called_over_is_taken_with_all_that_it_published(
    pair: tuple[Peer, Peer],
) -> None:
    """It stood still for longer than it was remembered, and nobody told it meanwhile."""
    one, other = pair
    one.core.hear(at(0), other.short, (one_push(other, generation=5),))
    one.core.member_left(at(1), other.short, 5)
    one.core.joined(at(2), other.short, 5)
    one.core.hear(at(3), other.short, (one_push(other, generation=5),))
    assert values(one, other) == {1: b"web"}


def test_who_failed_is_kept_for_three_days_out_of_the_root_after_half_and_then_reaped(
    pair: tuple[Peer, Peer],
) -> None:
    one, other = pair
    empty = one.core.root
    one.core.hear(at(0), other.short, (one_push(other),))
    full = one.core.root
    one.core.member_failed(at(0), other.short)
    for hours, root, is_kept in ((35, full, True), (37, empty, True), (71, empty, True), (73, empty, False)):
        one.core.tick(at(hours * HOUR))
        assert (one.core.root, one.core.state(other.short) is not None) == (root, is_kept), hours
    one.core.joined(at(74 * HOUR), other.short)
    one.core.hear(at(74 * HOUR), other.short, (one_push(other),))
    assert values(one, other) == {}


def test_who_comes_back_in_time_is_as_before(pair: tuple[Peer, Peer]) -> None:
    one, other = pair
    one.core.hear(at(0), other.short, (one_push(other),))
    full = one.core.root
    one.core.member_failed(at(0), other.short)
    one.core.tick(at(40 * HOUR))
    one.take()
    one.core.joined(at(40 * HOUR), other.short)
    assert one.core.root == full
    assert not [each for each in one.take() if isinstance(each, OwnerChanged)]


def test_busy_partners_are_left_alone_and_served_twice_a_second() -> None:
    one = Peer(1)
    words = bodies.compare(0, bytes(1023) + b"x")
    answers = [one.core.asked(at(MINUTE), bytes([number] * 8), bodies.COMPARE, words) for number in range(10)]
    assert answers.count(bodies.BUSY) == 8
    assert one.core.tally.exchanges_refused == 8
    assert one.core.asked(at(MINUTE + SECOND // 2), b"another1", bodies.COMPARE, words) != bodies.BUSY


def test_who_did_not_compare_first_is_not_served() -> None:
    one = Peer(1)
    assert one.core.asked(at(0), b"stranger", bodies.FETCH, bodies.fetch([], [])) == bodies.BUSY
