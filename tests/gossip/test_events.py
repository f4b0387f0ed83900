"""User events, each heard once."""

from __future__ import annotations

from adsum.gossip.claims import UserEvent, user_event
from adsum.gossip.events import TICKS_KEPT, GossipEvents
from adsum.now import SECOND, Now
from tests.gossip.support import short

NOW = Now(1_000 * SECOND, 0)


def event(clock: int, number: int = 1, origin: str = "a") -> UserEvent:
    return user_event(short(origin), clock, number, "deploy", b"")


def test_an_event_is_new_once() -> None:
    events = GossipEvents()
    assert events.is_new(NOW, event(5))
    assert not events.is_new(NOW, event(5))
    assert events.is_new(NOW, event(5, number=2))
    assert events.is_new(NOW, event(5, origin="b"))
    assert events.clock == 6


def test_events_older_than_the_memory_are_taken_as_heard() -> None:
    events = GossipEvents()
    events.is_new(NOW, event(TICKS_KEPT + 100))
    assert not events.is_new(NOW, event(50))
    assert events.dropped == 1


def test_the_memory_of_events_is_bounded() -> None:
    events = GossipEvents()
    for clock in range(5_000):
        for number in range(3):
            events.is_new(Now(clock * SECOND, 0), event(clock, number))
    assert len(events._heard) == TICKS_KEPT
    for number in range(1_000):
        events.is_new(Now((5_000 + number) * SECOND, 0), event(5_000, number))
    assert max(map(len, events._heard.values())) == 64


def test_an_origin_fires_only_so_many_at_once_and_a_second_and_others_are_heard_meanwhile() -> None:
    events = GossipEvents()
    taken = [events.is_new(NOW, event(clock)) for clock in range(1, 200)]
    assert taken.count(True) == 128
    assert events.is_new(NOW, event(1, origin="b"))
    later = Now(NOW.monotonic_ns + SECOND, 0)
    assert [events.is_new(later, event(clock)) for clock in range(300, 320)].count(True) == 16


def test_all_origins_together_fire_only_so_many() -> None:
    events = GossipEvents()
    taken = [events.is_new(NOW, event(clock, origin=str(clock // 10))) for clock in range(1, 1_000)]
    assert taken.count(True) == 512


def test_an_event_beyond_the_rate_moves_no_clock() -> None:
    events = GossipEvents()
    for clock in range(1, 200):
        events.is_new(NOW, event(clock))
    assert events.clock == 129
