"""What keeps an agent in trouble from troubling others."""

from __future__ import annotations

from adsum.gossip.guard import Guard
from adsum.now import HOUR, SECOND


def test_three_in_ten_failing_targets_forbid_accusing() -> None:
    guard = Guard(SECOND)
    for number in range(20):
        guard.probed(b"", is_failed=number < 5, others=40)
    assert guard.may_accuse(0, b"x")
    guard.probed(b"", is_failed=True, others=40)  # the oldest failure falls out, this one comes in
    assert guard.may_accuse(0, b"x")
    guard.probed(b"", is_failed=True, others=40)
    guard.probed(b"", is_failed=True, others=40)
    guard.probed(b"", is_failed=True, others=40)
    guard.probed(b"", is_failed=True, others=40)
    guard.probed(b"", is_failed=True, others=40)
    assert not guard.may_accuse(0, b"x")


def test_what_fails_with_the_target_itself_keeps_nobody_from_accusing_it() -> None:
    guard = Guard(SECOND)
    for target in (b"a", b"b", b"gone") * 7:
        guard.probed(target, is_failed=target == b"gone", others=3)
    assert guard.may_accuse(0, b"gone")
    assert not guard.may_accuse(0, b"a")


def test_what_failed_with_one_that_was_replaced_says_nothing_about_me() -> None:
    guard = Guard(SECOND)
    for target in (b"a", b"moved", b"gone") * 7:
        guard.probed(target, is_failed=target != b"a", others=3)
    assert not guard.may_accuse(0, b"gone")
    guard.replaced(b"moved")
    assert guard.may_accuse(0, b"gone")


def test_three_refuted_accusations_in_a_minute_mute() -> None:
    guard = Guard(SECOND)
    for second in (0, 30, 59):
        guard.was_refuted(second * SECOND, 48 * SECOND)
    assert guard.mutes == 1
    assert not guard.may_accuse(100 * SECOND, b"x")
    assert guard.may_accuse(107 * SECOND, b"x")


def test_refutations_spread_over_time_do_not_mute() -> None:
    guard = Guard(SECOND)
    for second in (0, 40, 80, 120, 160):
        guard.was_refuted(second * SECOND, 48 * SECOND)
    assert guard.mutes == 0


def test_isolation_is_said_when_more_than_half_of_ten_fail_and_when_it_ends() -> None:
    guard = Guard(SECOND)
    said = [guard.probed(bytes([number]), is_failed=True, others=40) for number in range(6)]
    assert said == [False] * 5 + [True]
    assert guard.is_isolated
    assert any(guard.probed(bytes([number]), is_failed=False, others=40) for number in range(10))
    assert not guard.is_isolated


def test_in_a_small_cluster_more_than_half_of_it_is_enough_however_often_one_was_asked() -> None:
    guard = Guard(SECOND)
    for target in (b"a", b"a", b"b", b"b", b"a"):
        assert not guard.probed(target, is_failed=True, others=4)
    assert guard.probed(b"c", is_failed=True, others=4)
    assert guard.probed(b"a", is_failed=False, others=4)


def test_who_met_the_only_other_s_silence_is_not_isolated() -> None:
    guard = Guard(SECOND)
    assert not any(guard.probed(b"a", is_failed=True, others=1) for _ in range(20))


def test_the_dead_are_forgotten_once_the_living_were_asked_often_enough() -> None:
    guard = Guard(SECOND)
    for target in (b"a", b"b", b"c"):
        guard.probed(target, is_failed=True, others=4)
    assert guard.is_isolated
    for _ in range(9):
        guard.probed(b"d", is_failed=False, others=4)
    assert not guard.is_isolated


def test_a_deadline_missed_by_more_than_two_periods_is_a_pause_and_only_once() -> None:
    guard = Guard(SECOND)
    guard.is_timed = True
    assert guard.gap_ns(10 * SECOND, 8 * SECOND) == 0
    assert guard.gap_ns(20 * SECOND, 11 * SECOND) == 9 * SECOND
    guard.ran_ns = 20 * SECOND
    assert guard.gap_ns(20 * SECOND + 1, 11 * SECOND) == 0


def test_sleeping_until_a_far_deadline_is_no_pause() -> None:
    guard = Guard(SECOND)
    guard.is_timed = True
    assert guard.gap_ns(HOUR + SECOND, HOUR) == 0


def test_a_deadline_missed_before_time_is_kept_is_no_pause() -> None:
    assert Guard(SECOND).gap_ns(HOUR, SECOND) == 0


def test_a_third_gone_silent_at_once_hides_nothing() -> None:
    guard = Guard(SECOND)
    for _ in range(4):
        guard.died_silently(SECOND, 24 * SECOND)
    assert guard.holds_last_known(2 * SECOND, 11, 24 * SECOND)
    assert not guard.holds_last_known(2 * SECOND, 12, 24 * SECOND)
    assert not guard.holds_last_known(26 * SECOND, 11, 24 * SECOND)
