from __future__ import annotations

import pytest

from adsum.gossip.broadcasts import Broadcasts, Class, Queue, scale_of
from adsum.gossip.recent_news import mark_of, marks_of


def taken(queue: Queue, room_bytes: int, told_max: int) -> list[bytes]:
    return [entry.payload for entry in queue.take(room_bytes, told_max)]


def make(retransmit_mult: int = 4) -> Broadcasts:
    return Broadcasts(members_max=100, retransmit_mult=retransmit_mult)


def test_news_is_told_four_times_per_digit_of_the_cluster_and_then_no_more() -> None:
    for members, times in ((9, 4), (100, 12), (1_000, 16)):
        broadcasts = make()
        broadcasts.queues[Class.MEMBERSHIP].put(0, "a", b"news")
        told = 0
        while broadcasts:
            told += len(broadcasts.take(0, 1_000, members)[0])
            broadcasts.take_marks()
        assert told == times


@pytest.mark.parametrize(("is_marked", "least"), [(True, 4), (False, 6)])
def test_the_catalog_is_told_half_as_often_but_some_times_at_least(*, is_marked: bool, least: int) -> None:
    for members, times in ((2, least), (60, least), (1_000, 8), (10_000, 10)):
        broadcasts = Broadcasts(members_max=100, retransmit_mult=4, is_marked=is_marked)
        broadcasts.queues[Class.CATALOG].put(0, "a", b"delta", is_urgent=False)
        told = 0
        while broadcasts:
            told += len(broadcasts.take(0, 1_000, members).carried)
            broadcasts.take_marks()
        assert told == times


@pytest.mark.parametrize(("members", "times"), [(60, 4), (1_000, 4), (10_000, 5)])
def test_what_a_flood_keeps_from_being_pushed_is_told_less_often(members: int, times: int) -> None:
    broadcasts = Broadcasts(members_max=100, retransmit_mult=4)
    queue = broadcasts.queues[Class.CATALOG]
    queue.put(0, "a", b"delta", is_urgent=False, spared=queue.spared(scale_of(members)))
    told = 0
    while broadcasts:
        told += len(broadcasts.take(0, 1_000, members).carried)
        broadcasts.take_marks()
    assert told == times


def test_newer_news_about_one_subject_replaces_the_older_and_is_told_afresh() -> None:
    broadcasts = make()
    for number in range(1_000):
        broadcasts.queues[Class.MEMBERSHIP].put(0, "a", b"%d" % number)
        broadcasts.take(0, 1_000, 9)
    assert len(broadcasts.queues[Class.MEMBERSHIP]) == 1
    assert broadcasts.take(0, 1_000, 9) == ([b"999"], [0], [], 994)


def test_the_least_told_goes_first_and_the_newest_among_equals() -> None:
    queue = Queue(entries_max=10, mult=4)
    queue.put(0, "old", b"old")
    assert taken(queue, 6, 9) == [b"old"]
    queue.put(0, "new", b"new")
    queue.put(0, "newest", b"newest")
    assert taken(queue, 15, 9) == [b"newest", b"new"]
    assert taken(queue, 6, 9) == [b"new"]
    assert taken(queue, 9, 9) == [b"newest"]


def test_what_does_not_fit_lets_smaller_news_by_and_keeps_its_place() -> None:
    queue = Queue(entries_max=10, mult=4)
    queue.put(0, "small", b"s")
    queue.put(0, "big", b"B" * 500)
    assert taken(queue, 100, 9) == [b"s"]
    assert taken(queue, 1_000, 9)[0] == b"B" * 500


def test_membership_is_first_and_leaves_a_quarter_to_the_others_while_they_wait() -> None:
    broadcasts = make()
    for number in range(100):
        broadcasts.queues[Class.MEMBERSHIP].put(0, number, b"m" * 97)
    assert len(broadcasts.take(0, 1_000, 9)[0]) == 10
    for number in range(100):
        broadcasts.queues[Class.CATALOG].put(0, number, b"c" * 97)
    news, _ages, carried, _room = broadcasts.take(0, 1_000, 9)
    assert (len(news), len(carried)) == (7, 3)


def test_no_flood_of_the_catalog_keeps_membership_or_events_waiting() -> None:
    broadcasts = make()
    for number in range(8_000):
        broadcasts.queues[Class.CATALOG].put(0, number, b"c" * 97)
    broadcasts.queues[Class.EVENTS].put(0, "e", b"event")
    broadcasts.queues[Class.MEMBERSHIP].put(0, "m", b"member")
    news, _ages, carried, _room = broadcasts.take(0, 1_000, 9)
    assert news == [b"member", b"event"]
    assert len(carried) == 7


def test_a_full_queue_drops_what_was_told_most_and_counts_it() -> None:
    queue = Queue(entries_max=2, mult=4)
    queue.put(0, "told", b"t")
    queue.take(100, 9)
    queue.put(0, "a", b"a")
    queue.put(0, "b", b"b")
    assert (len(queue), queue.dropped) == (2, 1)
    assert taken(queue, 100, 9) == [b"b", b"a"]


def test_a_full_queue_drops_what_is_only_named_any_more_before_what_waits_to_be_told() -> None:
    queue = Queue(entries_max=3, mult=4)
    for name in ("pushed", "pushed too"):
        queue.pushed(queue.put(0, name, b"p"), 4)
    queue.put(0, "waits", b"w")
    queue.put(0, "newest", b"n")
    assert list(queue.entries) == ["pushed too", "waits", "newest"]


def test_what_a_flood_leaves_behind_is_named_for_six_seconds_and_not_for_a_hundred() -> None:
    broadcasts = make()
    queue = broadcasts.queues[Class.CATALOG]
    for number in range(8_000):
        queue.pushed(queue.put(0, number, b"%d" % number), queue.told_max(1))
    ticks = 0
    while broadcasts:
        broadcasts.take_marks()
        ticks += 1
    assert ticks == 32


def test_what_is_urgent_is_told_before_the_rest_of_its_class() -> None:
    queue = Broadcasts(members_max=9, retransmit_mult=4).queues[Class.CATALOG]
    queue.put(0, "failing", b"critical")
    queue.put(0, "well", b"passing", is_urgent=False)
    assert [taken(queue, 11, 9) for _turn in range(3)] == [[b"critical"], [b"critical"], [b"passing"]]


def test_a_push_is_worth_all_tellings_of_the_catalog_and_all_but_three_of_the_rest() -> None:
    broadcasts = make()
    for kind, left in ((Class.MEMBERSHIP, 3), (Class.CATALOG, 0), (Class.EVENTS, 3)):
        queue = broadcasts.queues[kind]
        queue.pushed(queue.put(0, "a", b"news"), queue.told_max(2))
        told = [len(queue.take(1_000, queue.told_max(2))) for _turn in range(5)]
        assert sum(told) == left


@pytest.mark.parametrize(("kind", "ticks"), [(Class.CATALOG, 4), (Class.EVENTS, 3)])
def test_what_was_told_is_named_by_its_mark_in_some_ticks_and_then_forgotten(kind: Class, ticks: int) -> None:
    broadcasts = make()
    queue = broadcasts.queues[kind]
    entry = queue.put(0, "a", b"news")
    assert broadcasts.take_marks() == b""
    queue.pushed(entry, queue.told_max(1))
    assert [broadcasts.take_marks() for _tick in range(ticks)] == [entry.mark] * ticks
    for _turn in range(3):
        broadcasts.take(0, 1_000, 1)
    assert not broadcasts


def test_without_marks_news_is_forgotten_when_it_was_told_often_enough() -> None:
    broadcasts = Broadcasts(members_max=9, retransmit_mult=1, is_marked=False)
    broadcasts.queues[Class.MEMBERSHIP].put(0, "a", b"news")
    assert broadcasts.take(0, 1_000, 2).claims == [b"news"]
    assert (broadcasts.take_marks(), bool(broadcasts)) == (b"", False)


def test_a_tick_names_the_newest_sixty_four() -> None:
    broadcasts = make()
    queue = broadcasts.queues[Class.CATALOG]
    for number in range(100):
        queue.pushed(queue.put(0, number, b"%d" % number), queue.told_max(1))
    newest = [mark_of(b"%d" % number) for number in range(99, 35, -1)]
    assert marks_of(broadcasts.take_marks()) == newest


def test_no_flood_of_the_catalog_keeps_an_event_from_being_named() -> None:
    broadcasts = make()
    events, catalog = broadcasts.queues[Class.EVENTS], broadcasts.queues[Class.CATALOG]
    for number in range(500):
        catalog.pushed(catalog.put(0, number, b"%d" % number), catalog.told_max(1))
    events.pushed(events.put(0, "deploy", b"deploy"), events.told_max(1))
    assert mark_of(b"deploy") in marks_of(broadcasts.take_marks())
