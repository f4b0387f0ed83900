from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from adsum.net.replay import WINDOW, Window


def test_each_number_is_new_once() -> None:
    window = Window()
    for number in (5, 3, 4, 2_000, 1_999):
        assert window.is_new(number)
        window.add(number)
        assert not window.is_new(number)


def test_what_is_far_behind_is_never_new() -> None:
    window = Window()
    window.add(WINDOW)
    assert not window.is_new(0)
    assert window.is_new(1)


def test_a_jump_of_any_width_costs_nothing() -> None:
    window = Window()
    window.add(1)
    window.add(1 << 47)
    assert not window.is_new(1 << 47)
    assert window.is_new((1 << 47) - 1)


@given(st.lists(st.integers(0, 3 * WINDOW) | st.integers(0, 1 << 48), max_size=200))
def test_it_agrees_with_a_set(numbers: list[int]) -> None:
    window, seen, highest = Window(), set[int](), -1
    for number in numbers:
        expected = number not in seen and number > highest - WINDOW
        assert window.is_new(number) == expected
        if expected:
            window.add(number)
            seen.add(number)
            highest = max(highest, number)
