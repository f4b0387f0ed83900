"""Who is asked when, what is handed over, and how an owner that does not add up is mended."""

from __future__ import annotations

from itertools import pairwise

from adsum.catalog.replication import bodies
from adsum.catalog.replication.bodies import OwnerStanding
from adsum.catalog.replication.deltas import Delta, decode, push, span
from adsum.catalog.replication.effects import AskPeer, OwnerChanged
from adsum.catalog.replication.items import Item, term
from adsum.catalog.replication.publisher import TOMBSTONE_NS
from adsum.now import MILLISECOND, MINUTE, SECOND
from tests.catalog.replication.support import Group, Peer, at, owner_id, values

A1, B2, B3_GONE = Item(1, 1, b"a"), Item(2, 2, b"b"), Item(2, 3, None)


def begun(peer: Peer) -> list[AskPeer]:
    return [each for each in peer.take() if isinstance(each, AskPeer) and each.method == bodies.COMPARE]


def settled_pair() -> tuple[Group, Peer, Peer]:
    group = Group(2)
    group.pass_time(3 * SECOND)
    return group, group.peers[0], group.peers[1]


def test_a_newcomer_asks_somebody_at_once() -> None:
    group = Group(3)
    newcomer = Peer(9)
    for peer in group.peers:
        newcomer.core.joined(group.now, peer.short)
    newcomer.core.tick(at(100 * MILLISECOND))
    assert len(begun(newcomer)) == 1


def test_a_newcomer_whose_partner_fails_asks_another_after_a_second() -> None:
    newcomer = Peer(9)
    for number in range(1, 6):
        newcomer.core.joined(at(0), owner_id(number)[:8])
    newcomer.core.tick(at(SECOND))
    (ask,) = begun(newcomer)
    newcomer.core.answered(at(SECOND), ask.ticket, None)
    newcomer.core.tick(at(2 * SECOND))
    assert len(begun(newcomer)) == 1


def test_who_does_not_answer_within_two_seconds_is_not_waited_for() -> None:
    newcomer = Peer(9)
    for number in range(1, 6):
        newcomer.core.joined(at(0), owner_id(number)[:8])
    newcomer.core.tick(at(SECOND))
    (ask,) = begun(newcomer)
    newcomer.core.tick(at(3 * SECOND))
    assert newcomer.core.tally.exchanges_failed == 1
    newcomer.core.tick(at(4 * SECOND))
    assert len(begun(newcomer)) == 1
    newcomer.core.answered(at(4 * SECOND), ask.ticket, bodies.compared([], is_more=False))
    assert newcomer.core.tally.dropped == {"not asked for": 1}


def test_after_a_pause_somebody_is_asked_anew_and_nothing_counts_that_was_asked_before() -> None:
    _, one, other = settled_pair()
    for time_ms in range(3_000, 6_000, 100):
        one.core.root_heard(at(time_ms * MILLISECOND), other.short, b"unlike 8")
    (before,) = begun(one)
    one.core.compare_anew(at(120 * SECOND))
    one.core.answered(at(120 * SECOND), before.ticket, bodies.compared([], is_more=False))
    assert not one.core.is_settled_in
    assert one.core.tally.dropped == {"not asked for": 1}
    one.core.tick(at(120 * SECOND))
    (ask,) = begun(one)
    one.core.answered(at(121 * SECOND), ask.ticket, bodies.compared([], is_more=False))
    assert one.core.is_settled_in
    assert one.core.agreed_ns == 121 * SECOND


def test_after_a_pause_a_partner_that_fails_is_followed_by_another_within_a_second() -> None:
    _, one, _other = settled_pair()
    one.core.compare_anew(at(120 * SECOND))
    one.core.tick(at(120 * SECOND))
    (ask,) = begun(one)
    one.core.answered(at(120 * SECOND), ask.ticket, None)
    one.core.tick(at(121 * SECOND))
    assert len(begun(one)) == 1


def test_a_root_that_differs_for_a_moment_asks_nobody() -> None:
    _, one, other = settled_pair()
    for time_ms in range(3_000, 4_100, 100):
        one.core.root_heard(at(time_ms * MILLISECOND), other.short, b"unlike 8")
    assert begun(one) == []


def test_a_root_that_stays_different_asks_who_has_it_once() -> None:
    _, one, other = settled_pair()
    for time_ms in range(3_000, 6_000, 100):
        one.core.root_heard(at(time_ms * MILLISECOND), other.short, b"unlike 8")
    (ask,) = begun(one)
    assert ask.to == other.short


def test_differences_that_cannot_be_mended_are_looked_at_less_and_less() -> None:
    _, one, other = settled_pair()
    times = []
    for time_ms in range(3_000, 183_000, 100):
        one.core.root_heard(at(time_ms * MILLISECOND), other.short, b"unlike 8")
        for ask in begun(one):
            times.append(time_ms)
            one.core.answered(at(time_ms * MILLISECOND), ask.ticket, bodies.compared([], is_more=False))
    pauses = [after - before for before, after in pairwise(times)]
    assert 2_000 < pauses[0] < 4_000
    assert all(22_000 < pause < 38_000 for pause in pauses[-2:])


def test_one_step_that_was_made_just_now_is_left_to_the_push_that_brings_it() -> None:
    group, one, other = settled_pair()
    for peer in group.peers:
        peer.take()
    for time_ms, age, is_fetched in ((6_000, 1, False), (12_000, 4, True)):
        for step_ms in range(time_ms, time_ms + 3_000, 100):
            one.core.root_heard(at(step_ms * MILLISECOND), other.short, b"unlike 8")
        (ask,) = begun(one)
        one.core.hear(at(0), other.short, (push(other.short, 1, 1, term(A1), [A1]),))
        ahead = OwnerStanding(other.short, 1, 2, 0, 5, age)
        one.core.answered(
            at((time_ms + 3_000) * MILLISECOND), ask.ticket, bodies.compared([ahead], is_more=False)
        )
        fetches = [each for each in one.take() if isinstance(each, AskPeer) and each.method == bodies.FETCH]
        assert bool(fetches) == is_fetched


def test_everybody_compares_now_and_then_though_all_seems_equal() -> None:
    group, one, other = settled_pair()
    begun(one)
    begun(other)
    asked = 0
    for _ in range(150):
        group.pass_time(SECOND, answers=False)
        for ask in begun(one):
            asked += 1
            body = other.core.asked(group.now, one.short, ask.method, ask.body)
            one.core.answered(group.now, ask.ticket, body)
    assert asked == 2
    assert one.core.agreed_ns is not None


def test_while_equal_an_exchange_is_one_question_of_a_kilobyte() -> None:
    group, _, _ = settled_pair()
    for peer in group.peers:
        peer.core.publisher.put(group.now.monotonic_ns, "web", b"x")
    group.mix(8 * SECOND)
    calls, sent = group.calls, group.call_bytes
    group.pass_time(70 * SECOND)
    assert 1 <= group.calls - calls <= 4
    assert (group.call_bytes - sent) / (group.calls - calls) < 1_100


def test_who_is_below_the_forgotten_tombstones_is_given_the_whole_owner() -> None:
    _, one, other = settled_pair()
    now = at(MINUTE)
    whole = push(other.short, 1, 3, term(A1), [A1, B3_GONE])
    one.core.hear(now, other.short, (whole,))
    for peer in (one,):
        peer.core.tick(at(MINUTE + TOMBSTONE_NS))
    state = one.core.state(other.short)
    assert state is not None
    assert state.gc_version == 3
    assert served(one, OwnerStanding(other.short, 1, 2, 0, 5, 0)).since == 0
    assert served(one, OwnerStanding(other.short, 1, 2, 3, 5, 0)).since == 2, "it has begun with a whole one"


def served(peer: Peer, wanted: OwnerStanding) -> Delta:
    now = at(20 * MINUTE)
    guest = b"a guest!"
    assert peer.core.asked(now, guest, bodies.COMPARE, bodies.compare(0, bytes(1023) + b"x")) != bodies.BUSY
    served_ranges = bodies.read_fetched(peer.core.asked(now, guest, bodies.FETCH, bodies.fetch([wanted], [])))
    peer.core._serving._served_ns = 0  # its time is not what is tried here
    return decode(served_ranges[0])


def test_unknown_owners_come_first_the_small_before_the_big_then_the_most_behind() -> None:
    one = Peer(1)
    for number, size in ((2, 900), (3, 10), (4, 100), (5, 10), (6, 10)):
        owner = owner_id(number)[:8]
        one.core.joined(at(0), owner)
        version = number * 10
        item = Item(1, version, bytes(size))
        one.core.hear(at(0), owner, (push(owner, 1, version, term(item), [item]),))
    wanted = [
        OwnerStanding(owner_id(number)[:8], 1, 5 if number in (3, 5) else 0, 0, 9, 0)
        for number in (2, 3, 4, 5, 6)
    ]
    body = bodies.compare(0, bytes(1023) + b"x")
    one.core.asked(at(SECOND), b"a guest!", bodies.COMPARE, body)
    answer = one.core.asked(at(SECOND), b"a guest!", bodies.FETCH, bodies.fetch(wanted, []))
    told = [decode(encoded).owner[0] for encoded in bodies.read_fetched(answer)]
    assert told == [6, 4, 2, 5, 3]


def test_hundreds_of_owners_are_fetched_in_pieces_and_the_big_one_last() -> None:
    group, one, other = settled_pair()
    owners = [number.to_bytes(2, "big").ljust(8, b".") for number in range(600)]
    for owner in owners:
        one.core.joined(group.now, owner)
        other.core.joined(group.now, owner)
        one.core.hear(group.now, owner, (push(owner, 1, 1, term(A1), [A1]),))
    big = [Item(number, number + 2, bytes(1_000)) for number in range(2, 152)]
    everything = term(A1)
    for item in big:
        everything ^= term(item)
    whole = span(owners[0], 1, 153, everything, [A1, *big], since=0, through=153, gc_version=0)
    one.core._copies.hear(group.now, b"a third!", one.core.owners()[owners[0]], decode(whole), is_push=False)
    for peer in group.peers:
        peer.take()
    group.by_short |= dict.fromkeys(owners, one)
    order: list[bytes] = []
    for _ in range(40):
        group.mix(SECOND // 2)
        order += [each.owner for each in other.take() if isinstance(each, OwnerChanged)]
    assert sorted(set(order)) == owners
    pieces = order.count(owners[0])
    assert 3 <= pieces <= 5
    assert len(order) == 599 + pieces
    assert order[-2:] == [owners[0]] * 2
    state = other.core.state(owners[0])
    assert state is not None
    assert state.is_complete


def test_who_has_only_something_to_give_gives_it_in_a_good_exchange() -> None:
    group, one, other = settled_pair()
    one.core.publisher.put(group.now.monotonic_ns, "web", b"x")
    one.core.tick(group.now)
    one.payloads()
    for time_ms in range(6_000, 9_000, 100):
        one.core.root_heard(at(time_ms * MILLISECOND), other.short, other.core.root)
    group.now = at(9 * SECOND)
    group.settle_calls()
    assert values(other, one) == {1: b"x"}
    for peer in group.peers:
        assert (peer.core.tally.exchanges_failed, peer.core.tally.dropped) == (0, {})
    assert (one.core.tally.owners_given, other.core.tally.owners_fetched) == (1, 1)


def test_who_has_published_nothing_yet_gives_nothing() -> None:
    group, one, other = settled_pair()
    other.core.hear(group.now, one.short, (push(one.short, 0, 1, term(A1), [A1]),))
    for time_ms in range(6_000, 9_000, 100):
        one.core.root_heard(at(time_ms * MILLISECOND), other.short, other.core.root)
    group.now = at(9 * SECOND)
    group.settle_calls()
    assert (one.core.tally.exchanges_failed, one.core.tally.dropped) == (0, {})


def test_a_frame_is_64_kilobytes_and_the_rest_is_asked_for_again() -> None:
    group = Group(2)
    owner, other = group.peers
    for number in range(300):
        owner.core.publisher.put(group.now.monotonic_ns, f"item {number}", bytes(1_000))
    group.mix(4 * SECOND)
    assert values(other, owner) == owner.published()
    assert len(values(other, owner)) == 300
    assert group.calls >= 5


def test_an_owner_that_does_not_add_up_is_built_anew_and_shown_meanwhile() -> None:
    group, one, owner = settled_pair()
    owner.core.publisher.put(group.now.monotonic_ns, "a", b"a")
    owner.core.publisher.put(group.now.monotonic_ns, "b", b"b")
    group.mix(6 * SECOND)
    owner.core.publisher.remove(group.now.monotonic_ns, "b")
    group.pass_time(2 * SECOND, answers=False)
    owner.payloads()
    torn = span(owner.short, 1, 3, term(A1), [], since=2, through=3, gc_version=0)  # without the tombstone
    holding = one.core.owners()[owner.short]
    one.core._copies.hear(group.now, b"a third!", holding, decode(torn), is_push=False)
    assert holding.state is not None
    assert holding.state.is_torn
    assert values(one, owner) == {1: b"a", 2: b"b"}
    group.pass_time(30 * SECOND, answers=False)
    assert holding.aside is not None, "it is not given up: there is no other way"
    for peer in group.peers:
        peer.take()
    group.pass_time(40 * SECOND, answers=False)
    group.mix(30 * SECOND)
    assert values(one, owner) == {1: b"a"}


def test_a_whole_owner_as_of_a_while_ago_does_not_replace_newer_news() -> None:
    one, owner = Peer(1), Peer(2)
    one.core.joined(at(0), owner.short)
    holding, both = one.core.owners()[owner.short], term(A1) ^ term(B2)
    one.core.hear(at(0), owner.short, (push(owner.short, 1, 2, both, [A1, B2]),))
    newer = Item(1, 6, b"A")
    one.core.hear(at(0), owner.short, (push(owner.short, 1, 6, 12345, [newer]),))
    old = Item(3, 4, b"c")
    whole = span(owner.short, 1, 4, term(A1) ^ term(old), [A1, old], since=0, through=4, gc_version=3)
    one.core._copies.hear(at(1), b"a third!", holding, decode(whole), is_push=False)
    assert values(one, owner)[1] == b"A"
    assert holding.aside is not None
    assert holding.aside.low_water == 4


def test_a_new_life_is_shown_when_it_is_complete() -> None:
    one, owner = Peer(1), Peer(2)
    one.core.joined(at(0), owner.short)
    one.core.hear(at(0), owner.short, (push(owner.short, 1, 2, term(A1) ^ term(B2), [A1, B2]),))
    next_a, next_b = Item(1, 1, b"A"), Item(2, 2, b"B")
    both = term(next_a) ^ term(next_b)
    one.take()
    one.core.hear(at(1), owner.short, (push(owner.short, 2, 2, both, [next_a]),))
    assert values(one, owner) == {1: b"a", 2: b"b"}
    one.core.hear(at(2), owner.short, (push(owner.short, 2, 2, both, [next_b]),))
    assert values(one, owner) == {1: b"A", 2: b"B"}
    assert len([each for each in one.take() if isinstance(each, OwnerChanged)]) == 1


def test_a_new_life_that_stays_incomplete_is_shown_after_ten_seconds() -> None:
    one, owner = Peer(1), Peer(2)
    one.core.joined(at(0), owner.short)
    one.core.hear(at(0), owner.short, (push(owner.short, 1, 1, term(A1), [A1]),))
    one.core.hear(at(0), owner.short, (push(owner.short, 2, 5, 12345, [Item(3, 5, b"new")]),))
    one.core.tick(at(9 * SECOND))
    assert values(one, owner) == {1: b"a"}
    one.core.tick(at(11 * SECOND))
    assert values(one, owner) == {3: b"new"}
    assert one.core.tally.swaps_incomplete == 1
