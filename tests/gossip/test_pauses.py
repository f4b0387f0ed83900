"""What happens when the loop stood still: it is known before anything ran, told once, and made up for."""

from __future__ import annotations

from adsum.gossip.commands import Join, SyncAnswered, SyncClosed, SyncFailed
from adsum.gossip.effects import AnswerSync, ComparedAgain, Effect, OpenSync, Paused, SyncPart
from adsum.gossip.shared_state import GossipTimer
from adsum.gossip.sync import OPEN_AFTER_PAUSE_MAX
from adsum.now import MILLISECOND, SECOND
from tests.gossip.support import Stage, alive, asked, of, profile, roster

PAUSE_NS = 20 * SECOND  # shorter than an exchange may take


def wakened(stage: Stage) -> list[Effect]:
    """By its overdue timers."""
    stage.stand_still(PAUSE_NS)
    return stage._take(stage.core.tick(stage.now))


def test_a_pause_is_known_by_the_time_alone_and_for_as_long_as_nothing_ran() -> None:
    stage = Stage("a", "b")
    stage.stand_still(PAUSE_NS)
    shared = stage.core._shared
    for _ in range(2):
        assert shared.gap_ns(stage.now) > 19 * SECOND
    assert stage.now_ns - shared.guard.ran_ns == PAUSE_NS
    stage.core.tick(stage.now)
    assert shared.gap_ns(stage.now) == 0


def test_a_pause_is_told_once_with_its_length_and_two_are_asked_at_once() -> None:
    stage = Stage("a", "b", "c")
    stage.core._shared.timers.cancel((GossipTimer.SYNC, None))
    effects = wakened(stage)
    assert of(effects, Paused) == [Paused(PAUSE_NS)]
    assert len({sync.to for sync in of(effects, OpenSync)}) == 2
    assert of(stage.run_for(900 * MILLISECOND), Paused) == []
    guard = stage.core._shared.guard
    assert (guard.pauses, guard.paused_ns) == (1, PAUSE_NS)


def test_a_pause_ends_with_the_first_roster_that_was_asked_for_after_it() -> None:
    stage = Stage("a", "b")
    first, second = of(wakened(stage), OpenSync)[-2:]
    assert of(stage.report(SyncFailed(first.ticket, "connection refused")), ComparedAgain) == []
    assert of(stage.report(SyncAnswered(second.ticket, roster())), ComparedAgain) == [ComparedAgain()]
    assert not stage.core._shared.guard.awaits_comparison


def test_a_roster_that_was_asked_for_before_a_pause_does_not_end_it() -> None:
    stage = Stage("a", "b")
    (before,) = of(stage.command(Join((profile("a").address,))), OpenSync)
    wakened(stage)
    assert of(stage.report(SyncAnswered(before.ticket, roster())), ComparedAgain) == []
    assert stage.core._shared.guard.awaits_comparison


def test_what_somebody_began_to_tell_before_a_pause_does_not_end_it() -> None:
    stage = Stage("a", "b")
    told = roster(SyncPart(alive("a").encoded), digest=7)
    assert of(stage.report(asked(1, told)), AnswerSync)
    wakened(stage)
    assert of(stage.report(SyncClosed(1, roster())), ComparedAgain) == []
    stage.report(asked(2, told))
    assert of(stage.report(SyncClosed(2, roster())), ComparedAgain) == [ComparedAgain()]


def test_another_is_asked_each_round_until_one_has_answered_and_few_at_a_time() -> None:
    stage = Stage("a", "b", "c")
    stage.core._shared.timers.cancel((GossipTimer.SYNC, None))
    begun = of(wakened(stage), OpenSync)
    begun += of(stage.run_for(5 * SECOND), OpenSync)
    assert len(begun) == OPEN_AFTER_PAUSE_MAX == 4
    stage.report(SyncAnswered(begun[-1].ticket, roster()))
    for sync in begun[:-1]:
        stage.report(SyncFailed(sync.ticket, "no answer in time"))
    assert of(stage.run_for(8 * SECOND), OpenSync) == []


def test_what_takes_long_before_time_is_kept_is_no_pause() -> None:
    """Between the first datagram and the first tick, most of the agent is loaded."""
    stage = Stage("a", "b")
    for _ in range(2):
        stage.now_ns += PAUSE_NS
        assert of(stage.tell("a", alive("a")), Paused) == []
    assert of(stage._take(stage.core.tick(stage.now)), Paused) == []
