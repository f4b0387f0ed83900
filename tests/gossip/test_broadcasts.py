from __future__ import annotations

from adsum.gossip.broadcasts import Broadcasts, Class, Queue


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
        assert told == times


def test_the_catalog_is_told_half_as_often_but_six_times_at_least() -> None:
    for members, times in ((2, 6), (60, 6), (1_000, 8), (10_000, 10)):
        broadcasts = make()
        broadcasts.queues[Class.CATALOG].put(0, "a", b"delta")
        told = 0
        while broadcasts:
            told += len(broadcasts.take(0, 1_000, members).carried)
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
