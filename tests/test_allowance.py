from __future__ import annotations

from adsum.allowance import Allowance, Allowances
from adsum.now import MILLISECOND, SECOND


def test_what_is_allowed_at_once_may_be_taken_at_once_and_then_no_more() -> None:
    allowance = Allowance(a_second=10, at_once=3)
    assert [allowance.take(0) for _ in range(4)] == [True, True, True, False]


def test_what_was_taken_comes_back_at_the_rate() -> None:
    allowance = Allowance(a_second=10, at_once=3)
    assert allowance.take(0, 3)
    assert not allowance.take(99 * MILLISECOND)
    assert allowance.take(100 * MILLISECOND)
    assert not allowance.take(100 * MILLISECOND)


def test_nothing_is_saved_up_beyond_what_is_allowed_at_once() -> None:
    allowance = Allowance(a_second=10, at_once=3)
    assert [allowance.take(3_600 * SECOND) for _ in range(4)] == [True, True, True, False]


def test_an_amount_that_does_not_fit_takes_nothing() -> None:
    allowance = Allowance(a_second=10, at_once=3)
    assert not allowance.take(0, 4)
    assert allowance.take(0, 3)


def test_work_that_turned_out_dearer_is_paid_off_before_anything_is_left_again() -> None:
    allowance = Allowance(a_second=10, at_once=3)
    allowance.charge(0, 13)
    assert not allowance.is_left(SECOND)
    assert allowance.is_left(SECOND + MILLISECOND)


def test_it_is_known_when_something_is_left_again() -> None:
    allowance = Allowance(a_second=10, at_once=3)
    assert allowance.left_in_ns(0) == 0
    allowance.charge(0, 13)
    left_in_ns = allowance.left_in_ns(250 * MILLISECOND)
    assert left_in_ns == 750 * MILLISECOND + 1
    assert not allowance.is_left(250 * MILLISECOND + left_in_ns - 1)
    assert allowance.is_left(250 * MILLISECOND + left_in_ns)


def test_each_source_has_an_allowance_of_its_own() -> None:
    allowances: Allowances[str] = Allowances(a_second=1, at_once=1, sources_max=10)
    assert allowances.take(0, "a")
    assert not allowances.take(0, "a")
    assert allowances.take(0, "b")


def test_sources_that_owe_nothing_make_room_for_new_ones() -> None:
    allowances: Allowances[int] = Allowances(a_second=1, at_once=2, sources_max=2)
    assert allowances.take(0, 1)
    assert allowances.take(SECOND, 2, 2)
    assert allowances.take(SECOND, 3)
    assert len(allowances) == 2
    assert not allowances.take(SECOND, 2)


def test_when_all_sources_owe_all_are_forgotten() -> None:
    allowances: Allowances[int] = Allowances(a_second=1, at_once=1, sources_max=2)
    assert allowances.take(0, 1)
    assert allowances.take(0, 2)
    assert allowances.take(0, 3)
    assert len(allowances) == 1


def test_it_is_known_from_when_on_some_can_be_taken() -> None:
    allowance = Allowance(a_second=10, at_once=3)
    allowance.take(SECOND, 3)
    assert allowance.can_take_from_ns() == SECOND + 100 * MILLISECOND
    assert allowance.can_take_from_ns(2) == SECOND + 200 * MILLISECOND
    assert not allowance.take(SECOND + 100 * MILLISECOND - 1)
    assert allowance.take(SECOND + 100 * MILLISECOND)
