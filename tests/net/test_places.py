from __future__ import annotations

from adsum.net.introduction import Purpose, WelcomeRefusal
from adsum.net.places import NONE, Most, Places, StreamCounters, StreamPlace


def places(counters: StreamCounters | None = None, *, most: int = 10, most_per_host: int = 10) -> Places:
    by_purpose = {Purpose.PING: Most(10, 10), Purpose.CALLS: Most(3, 1), Purpose.SYNC: NONE}
    return Places(counters or StreamCounters(), most=most, most_per_host=most_per_host, by_purpose=by_purpose)


def place(purpose: Purpose = Purpose.PING, *, host: str = "a", is_stranger: bool = False) -> StreamPlace:
    return StreamPlace(host, purpose, is_stranger)


def test_what_is_not_served_is_refused_as_that_and_not_as_busy() -> None:
    assert places().take(place(Purpose.SYNC)) is WelcomeRefusal.NOT_SERVED


def test_beyond_the_limit_of_all_of_a_host_and_of_a_purpose_we_are_busy() -> None:
    for limited, another in (
        (places(most=2), place(host="b")),
        (places(most_per_host=2), place()),
    ):
        assert [limited.take(place()) for _ in range(2)] == [None, None]
        assert limited.take(another) is WelcomeRefusal.BUSY
    counters = StreamCounters()
    by_purpose = places(counters)
    assert [by_purpose.take(place(Purpose.CALLS)) for _ in range(4)] == [
        None,
        None,
        None,
        WelcomeRefusal.BUSY,
    ]
    assert (counters.busy, counters.turned_away) == (1, 0)


def test_strangers_leave_places_to_members() -> None:
    given = places()
    stranger = place(Purpose.CALLS, is_stranger=True)
    assert given.take(stranger) is None
    assert given.take(stranger) is WelcomeRefusal.BUSY
    assert given.take(place(Purpose.CALLS)) is None
    given.leave(stranger)
    assert given.take(stranger) is None


def test_strangers_of_one_host_leave_places_to_those_of_others() -> None:
    by_purpose = {Purpose.CALLS: Most(8, 5)}
    given = Places(StreamCounters(), most=10, most_per_host=10, by_purpose=by_purpose)
    one, other = (place(Purpose.CALLS, host=host, is_stranger=True) for host in "ab")
    assert [given.take(one) for _ in range(4)] == [None, None, None, WelcomeRefusal.BUSY]
    assert [given.take(other) for _ in range(3)] == [None, None, WelcomeRefusal.BUSY]
    given.leave(one)
    assert given.take(one) is None


def test_places_are_counted_and_given_back() -> None:
    counters = StreamCounters()
    given = places(counters, most=1)
    assert given.take(place()) is None
    assert given.take(place()) is WelcomeRefusal.BUSY
    assert (counters.open, counters.turned_away) == (1, 1)
    given.leave(place())
    assert counters.open == 0
    assert given.take(place(host="b")) is None
