from __future__ import annotations

from adsum.timers import STALE_ENTRIES_MAX, Timers


def test_names_are_due_by_deadline_and_among_equals_in_the_order_they_were_set() -> None:
    timers: Timers[str] = Timers()
    for name, deadline_ns in (("b", 20), ("a", 20), ("c", 10), ("d", 30)):
        timers.set(name, deadline_ns)
    assert timers.earliest() == 10
    assert list(timers.take_due(20)) == ["c", "b", "a"]
    assert timers.earliest() == 30


def test_setting_again_moves_and_cancelling_removes() -> None:
    timers: Timers[str] = Timers()
    timers.set("a", 10)
    timers.set("a", 30)
    timers.set("b", 20)
    timers.cancel("b")
    assert list(timers.take_due(25)) == []
    assert timers.earliest() == 30
    assert "b" not in timers


def test_a_timer_set_again_while_due_ones_are_taken_is_taken_too_when_due() -> None:
    timers: Timers[str] = Timers()
    timers.set("a", 10)
    taken = []
    for name in timers.take_due(15):
        taken.append(name)
        if len(taken) < 3:
            timers.set("a", 12)
    assert taken == ["a", "a", "a"]


def test_moving_one_timer_for_ever_does_not_grow_the_heap() -> None:
    timers: Timers[str] = Timers()
    for deadline_ns in range(10_000):
        timers.set("a", deadline_ns)
    assert len(timers._heap) <= STALE_ENTRIES_MAX + 2
