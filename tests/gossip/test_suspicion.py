from __future__ import annotations

import pytest

from adsum.gossip import suspicion
from adsum.gossip.suspicion import Suspicion, Timeouts
from adsum.now import MILLISECOND, SECOND
from tests.gossip.support import suspect

LAN = Timeouts(4 * SECOND, 24 * SECOND)


@pytest.mark.parametrize(
    ("members", "min_ms"), [(5, 3_000), (10, 3_000), (50, 5_096), (100, 6_000), (1_000, 9_000)]
)
def test_the_shortest_wait_grows_with_the_logarithm_of_the_cluster(members: int, min_ms: int) -> None:
    """memberlist's own vectors, with its multiplier of 3."""
    timeouts = suspicion.classic(members, SECOND, mult=3, max_mult=6)
    assert timeouts.min_ns // MILLISECOND == pytest.approx(min_ms, abs=2)
    assert timeouts.max_ns == 6 * timeouts.min_ns


@pytest.mark.parametrize(
    ("confirmations", "wait_ms"), [(0, 24_000), (1, 14_000), (2, 8_150), (3, 4_000), (4, 4_000)]
)
def test_each_confirmation_shortens_the_wait_along_a_logarithm(confirmations: int, wait_ms: int) -> None:
    assert suspicion.timeout_ns(LAN, confirmations, 3) == wait_ms * MILLISECOND


def test_of_two_nobody_is_left_to_confirm_and_the_wait_is_short_at_once() -> None:
    assert suspicion.confirmations_wanted(2) == 0
    assert suspicion.timeout_ns(LAN, 0, 0) == 4 * SECOND
    assert [suspicion.confirmations_wanted(members) for members in (1, 3, 4, 5, 99)] == [0, 1, 2, 3, 3]
    assert [suspicion.refusals_wanted(members) for members in (1, 2, 3, 4, 5, 99)] == [1, 1, 1, 2, 3, 3]


def test_who_feels_unwell_waits_longer_but_never_beyond_the_longest() -> None:
    case = Suspicion(suspect("a", "b", "c", "d", "e"), started_ns=SECOND, silent_since_ns=SECOND)
    assert case.deadline_ns(LAN, 10, 1, SECOND, 3) == 5 * SECOND
    assert case.deadline_ns(LAN, 10, 3, SECOND, 3) == 13 * SECOND
    assert case.deadline_ns(LAN, 10, 8, SECOND, 3) == 25 * SECOND


def test_who_met_the_silence_itself_waits_from_when_it_began() -> None:
    case = Suspicion(suspect("a", "b", "c", "d", "e"), started_ns=2 * SECOND, silent_since_ns=SECOND)
    assert case.deadline_ns(LAN, 10, 1, SECOND, 3) == 5 * SECOND
    refused = Suspicion(suspect("a", "b", refusers=("b", "c", "d")), started_ns=2 * SECOND, silent_since_ns=0)
    assert refused.deadline_ns(LAN, 10, 1, SECOND, 3) == 3 * SECOND


def test_enough_refusals_leave_only_the_grace() -> None:
    two = Suspicion(suspect("a", "b", refusers=("b", "c")), started_ns=0, silent_since_ns=0)
    three = Suspicion(suspect("a", "b", refusers=("b", "c", "d")), started_ns=0, silent_since_ns=0)
    assert two.deadline_ns(LAN, 10, 1, SECOND, 3) == 24 * SECOND
    assert three.deadline_ns(LAN, 10, 8, SECOND, 3) == SECOND


def test_an_announced_restart_is_waited_for_whatever_the_evidence() -> None:
    case = Suspicion(suspect("a", "b", refusers=("b", "c", "d")), started_ns=0, silent_since_ns=0)
    case.not_before_ns = 30 * SECOND
    assert case.deadline_ns(LAN, 10, 1, SECOND, 3) == 30 * SECOND


def test_a_silent_counter_counts_as_one_witness_once() -> None:
    case = Suspicion(suspect("a", "b"), started_ns=0, silent_since_ns=0)
    case.has_witness = True
    assert case.confirmations == 1
