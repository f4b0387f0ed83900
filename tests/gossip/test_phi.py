"""Surprise, by its numbers."""

from __future__ import annotations

import pytest

from adsum.gossip import phi
from adsum.gossip.phi import Phi
from adsum.now import HOUR, SECOND


def test_one_observers_cycle_is_worth_no_more_than_three_however_many_legs_failed() -> None:
    assert Phi().challenge([0.02] * 1, 0) == pytest.approx(1.68, abs=0.02)
    assert Phi().challenge([0.02] * 5, 0) == pytest.approx(3.0, abs=0.01)
    assert Phi().challenge([0.02] * 5, 7) < 1.0


def test_accusation_phi_rises_as_the_refutation_stays_out() -> None:
    values = [Phi().accusation(seconds * SECOND) for seconds in (0, 2, 5, 10)]
    assert values == sorted(values)
    assert values[0] == 0
    assert values[-1] > 2


def test_the_adaptive_wait_is_what_pauses_ask_for_and_falls_by_a_tenth_an_hour() -> None:
    surprise = Phi()
    for number in range(999):
        surprise.refuted(number, SECOND)
    assert surprise.adaptive_min_ns(0, 3 * SECOND, 12 * SECOND) == 12 * SECOND
    surprise.refuted(999, 5 * SECOND)
    first_ns = surprise.adaptive_min_ns(SECOND, 3 * SECOND, 12 * SECOND)
    assert first_ns == 12 * SECOND
    after_ns = surprise.adaptive_min_ns(HOUR + SECOND, 3 * SECOND, 12 * SECOND)
    assert after_ns == pytest.approx(12 * SECOND * 0.9, rel=0.001)
    for hour in range(2, 20):
        after_ns = surprise.adaptive_min_ns(hour * HOUR, 3 * SECOND, 12 * SECOND)
    assert after_ns == 5 * SECOND


def test_news_takes_a_second_at_a_thousand_members() -> None:
    assert phi.push_time_s(10) == pytest.approx(0.49, abs=0.01)
    assert phi.push_time_s(1_000) == pytest.approx(1.46, abs=0.01)
    assert phi.floor_ns(10, SECOND) == 3 * SECOND
    assert phi.floor_ns(1_000, SECOND) == pytest.approx(3.9 * SECOND, rel=0.02)
