from __future__ import annotations

from adsum.consensus.pace import Pace
from adsum.now import MILLISECOND, SECOND

TICK_NS = 50 * MILLISECOND


def paused(gap_ns: int) -> Pace:
    pace = Pace(TICK_NS, 0)
    assert pace.due_ns == TICK_NS
    pace.take(TICK_NS)
    assert pace.stood_still_ns(TICK_NS + gap_ns) == gap_ns - TICK_NS
    assert pace.stood_still_ns(TICK_NS + gap_ns) == 0  # it is over
    pace.take(TICK_NS + gap_ns)
    return pace


def test_b14_after_a_pause_a_leader_trusts_no_time_before_a_quorum_confirmed_it() -> None:
    pace = paused(5 * SECOND)
    assert (pace.pauses, pace.due_ns) == (1, 5 * SECOND + 2 * TICK_NS)  # and not a hundred at once
    assert (pace.is_time_trusted, pace.must_prove) == (False, True)
    pace.is_proving = True
    assert not pace.must_prove
    pace.proven(17, 1, is_leader=True)
    assert (pace.is_time_trusted, pace.must_prove) == (True, False)


def test_what_could_not_be_confirmed_is_asked_again() -> None:
    pace = paused(5 * SECOND)
    pace.is_proving = True
    pace.proven(OSError("not sure"), 1, is_leader=True)
    assert (pace.is_time_trusted, pace.must_prove) == (False, True)


def test_what_was_confirmed_before_another_pause_proves_nothing_after_it() -> None:
    pace = paused(5 * SECOND)
    pace.is_proving = True
    assert pace.stood_still_ns(20 * SECOND) > 0
    pace.proven(17, 1, is_leader=True)
    assert (pace.is_time_trusted, pace.must_prove) == (False, True)
    pace.proven(17, 2, is_leader=True)
    assert pace.is_time_trusted


def test_a_leader_that_was_replaced_meanwhile_has_nothing_to_expire() -> None:
    pace = paused(5 * SECOND)
    pace.proven(OSError("leadership was lost"), 1, is_leader=False)
    assert pace.is_time_trusted


def test_who_does_not_lead_trusts_no_time_either_for_the_votes_of_before_may_make_it_the_leader() -> None:
    pace = paused(5 * SECOND)
    assert (pace.is_time_trusted, pace.must_prove) == (False, True)


def test_ticks_that_are_a_little_late_are_made_up_for() -> None:
    pace, late_ns, taken = Pace(TICK_NS, 0), 4 * TICK_NS, 0
    while late_ns >= pace.due_ns:
        assert pace.stood_still_ns(late_ns) == 0
        pace.take(late_ns)
        taken += 1
    assert (taken, pace.pauses, pace.is_time_trusted) == (4, 0, True)
