from __future__ import annotations

from adsum.address import Address
from adsum.gossip import claims
from adsum.gossip.commands import Join, Leave, SyncAnswered, SyncClosed, SyncFailed
from adsum.gossip.effects import (
    AnswerSync,
    ClockCompared,
    CloseSync,
    Effect,
    GenerationAdvised,
    GenerationRaised,
    JoinEnded,
    LeaveDone,
    MemberChanged,
    OpenSync,
    SyncMessage,
    SyncPart,
)
from adsum.gossip.order import Departure, MemberStatus
from adsum.gossip.sync import JOIN_TRIES_MAX, SERVED_MAX
from adsum.gossip.wire import PacketKind
from adsum.now import HOUR, MILLISECOND, SECOND
from tests.gossip.support import GENERATION, Stage, alive, asked, dead, of, profile, roster, sent, short

SEED = Address("10.0.0.200", 8301)


def part(name: str, verdict: claims.Verdict | None = None, age_s: int = 0) -> SyncPart:
    return SyncPart(alive(name).encoded, verdict.encoded if verdict else b"", age_s)


def opened(effects: list[Effect]) -> OpenSync:
    (sync,) = of(effects, OpenSync)
    return sync


def test_a_join_says_who_i_am_and_is_told_everybody() -> None:
    stage = Stage()
    sync = opened(stage.command(Join((SEED,))))
    assert (sync.to, sync.message.is_join) == (SEED, True)
    assert [claims.decode(each.alive).subject for each in sync.message.parts] == [short("me")]
    effects = stage.report(SyncAnswered(sync.ticket, roster(part("a"), part("b", dead("b", "a")))))
    assert of(effects, JoinEnded) == [JoinEnded(SEED, "")]
    assert (stage.status("a"), stage.status("b")) == (MemberStatus.ALIVE, MemberStatus.FAILED)
    (closing,) = of(effects, CloseSync)
    assert [claims.decode(each.alive).subject for each in closing.message.parts] == [short("me")]


def test_who_is_told_of_the_dead_has_never_seen_them_alive() -> None:
    stage = Stage()
    sync = opened(stage.command(Join((SEED,))))
    effects = stage.report(SyncAnswered(sync.ticket, roster(part("b", dead("b", "a")))))
    (changed,) = of(effects, MemberChanged)
    assert changed.before is None
    assert changed.after is not None
    assert changed.after.status is MemberStatus.FAILED


def test_a_newcomer_does_not_tell_everybody_what_everybody_knows() -> None:
    stage = Stage()
    sync = opened(stage.command(Join((SEED,))))
    stage.report(SyncAnswered(sync.ticket, roster(*[part(f"n{number}") for number in range(50)])))
    assert len(stage.core._shared.roster) == 50
    assert not stage.core._shared.broadcasts


def test_the_advice_of_a_right_clock_is_taken_also_when_somebody_was_met_before_it_came() -> None:
    """A member that still lists this host's former life gossiped to it, answered, and is on its roster."""
    ahead_ms = 3 * 24 * HOUR // MILLISECOND
    stage = Stage("b")
    stage.wall_ahead_ms = ahead_ms
    stage.core._shared.me.use_generation(GENERATION + ahead_ms)
    (sync,) = of(stage.command(Join((profile("a").address,))), OpenSync)
    answer = SyncMessage(7, (part("a"),), use_generation=GENERATION + 5, wall_ms=GENERATION)
    effects = stage.report(SyncAnswered(sync.ticket, answer))
    assert of(effects, GenerationAdvised) == [GenerationAdvised(GENERATION + 5)]
    assert of(effects, ClockCompared) == [ClockCompared(ahead_ms, 1)]
    (closing,) = of(effects, CloseSync)
    assert closing.message.parts[0].alive == stage.core._shared.me.alive.encoded


def test_the_advice_is_taken_when_only_one_s_generation_is_days_ahead_and_the_clock_right_by_now() -> None:
    """NTP set it after the start; whoever was met before believes it, and nobody who comes later."""
    stage = Stage("b", "c")
    stage.core._shared.me.use_generation(GENERATION + 30 * 24 * HOUR // MILLISECOND)
    (sync,) = of(stage.command(Join((profile("a").address,))), OpenSync)
    answer = SyncMessage(7, (part("a"),), use_generation=GENERATION + 5, wall_ms=GENERATION)
    effects = stage.report(SyncAnswered(sync.ticket, answer))
    assert of(effects, GenerationAdvised) == [GenerationAdvised(GENERATION + 5)]


def test_no_claim_about_me_leads_beyond_what_others_believe() -> None:
    day_ms = 24 * HOUR // MILLISECOND
    stage = Stage("a")
    for step in (day_ms, day_ms + 60_000, day_ms + 120_000):
        told = claims.left(short("me"), GENERATION + step, 0, Departure.LEFT, short("a"))
        stage.tell("x", told)
        stage.run_for(2 * SECOND)
    assert stage.core._shared.me.generation <= GENERATION + day_ms + 2


def test_the_date_of_one_that_joins_counts_once_it_is_a_member() -> None:
    """Else the first that a seed compares with may be the odd one, a day later."""
    stage = Stage("b")
    message = SyncMessage(7, (part("a"),), is_join=True, wall_ms=GENERATION - 3_600_000)
    (ping,) = sent(stage.report(asked(1, message)), PacketKind.PING)
    assert stage.core._shared.clocks.others == 0
    stage.packet("a", PacketKind.ACK, sequence=ping.sequence)
    effects = stage.report(SyncClosed(1, SyncMessage(7, (), wall_ms=GENERATION - 3_600_000)))
    assert of(effects, ClockCompared) == [ClockCompared(3_600_000, 1)]


def test_whose_clock_is_right_takes_no_advice_while_it_knows_somebody() -> None:
    stage = Stage("b")
    (sync,) = of(stage.command(Join((profile("a").address,))), OpenSync)
    answer = SyncMessage(7, (part("a"),), use_generation=GENERATION - 5, wall_ms=GENERATION)
    assert of(stage.report(SyncAnswered(sync.ticket, answer)), GenerationAdvised) == []


def test_who_let_in_a_clock_that_is_days_ahead_believes_its_own_word_when_it_goes_back() -> None:
    ahead_ms = 3 * 24 * HOUR // MILLISECOND
    stage = Stage("a", "b")
    stage.wall_ahead_ms = ahead_ms  # ours was ahead as well
    stage.tell("b", alive("odd", generation=GENERATION + ahead_ms))
    stage.wall_ahead_ms = 0
    back = alive("odd", generation=GENERATION + 5)
    stage.tell("b", back)
    assert stage.member("odd").standing.generation == GENERATION + ahead_ms
    stage.tell("odd", back)
    assert stage.member("odd").standing.generation == GENERATION + 5


def test_equal_rosters_cost_a_digest() -> None:
    stage = Stage("a", "b")
    ask = SyncMessage(stage.core.membership.digest(), (part("a"),))
    (answer,) = of(stage.report(asked(1, ask)), AnswerSync)
    assert answer.message == SyncMessage(stage.core.membership.digest(), wall_ms=GENERATION)


def test_the_last_turn_brings_what_the_other_side_lacks_or_has_older() -> None:
    stage = Stage("a", "b", "c")
    stage.tell("a", dead("b", "a"))
    stage.core._syncs.compare_with_any(stage.now)
    sync = opened(stage.core._shared.take_effects())
    effects = stage.report(SyncAnswered(sync.ticket, roster(part("me"), part("a"), part("b"), digest=7)))
    (closing,) = of(effects, CloseSync)
    assert [claims.decode(each.alive).subject for each in closing.message.parts] == [short("b"), short("c")]
    assert closing.message.parts[0].verdict == dead("b", "a").encoded


def test_a_served_sync_takes_its_last_turn_once() -> None:
    stage = Stage("a")
    stage.report(asked(1, roster(part("a"))))
    stage.report(SyncClosed(1, roster(part("x"))))
    stage.report(SyncClosed(1, roster(part("y"))))
    assert (stage.status("x"), stage.status("y")) == (MemberStatus.ALIVE, None)


def test_more_syncs_than_can_be_served_are_told_so_and_places_come_back() -> None:
    stage = Stage("a")
    for ticket in range(SERVED_MAX):
        stage.report(asked(ticket, roster(part("a"))))
    (answer,) = of(stage.report(asked(99, roster(part("a")))), AnswerSync)
    assert answer.message is None
    stage.run_for(31 * SECOND)
    (answer,) = of(stage.report(asked(100, roster(part("a")))), AnswerSync)
    assert answer.message is not None


def test_a_busy_join_is_tried_again_and_not_for_ever() -> None:
    stage = Stage()
    effects = stage.command(Join((SEED,)))
    tries = 0
    while syncs := of(effects, OpenSync):
        tries += 1
        ended = stage.report(SyncFailed(syncs[0].ticket, "busy", is_busy=True))
        effects = stage.run_for(SECOND)
    assert tries == JOIN_TRIES_MAX
    assert of(ended, JoinEnded) == [JoinEnded(SEED, "busy")]


def test_a_join_that_fails_says_why() -> None:
    stage = Stage()
    sync = opened(stage.command(Join((SEED,))))
    effects = stage.report(SyncFailed(sync.ticket, "connection refused"))
    assert effects == [JoinEnded(SEED, "connection refused")]
    assert stage.report(SyncFailed(sync.ticket, "twice")) == []


def test_a_stream_that_never_reports_does_not_keep_its_place() -> None:
    stage = Stage()
    stage.command(Join((SEED,)))
    assert of(stage.run_for(31 * SECOND), JoinEnded) == [JoinEnded(SEED, "no answer in time")]


def test_bad_claims_in_a_sync_are_counted_and_cost_only_themselves() -> None:
    stage = Stage("a")
    wrong = SyncPart(alive("y").encoded, dead("x", "a").encoded)
    sync = opened(stage.command(Join((SEED,))))
    told = roster(SyncPart(b"junk"), wrong, SyncPart(dead("a", "b").encoded), part("x"))
    effects = stage.report(SyncAnswered(sync.ticket, told))
    assert stage.core.tally.dropped == {"bad claim": 1}
    assert (stage.status("x"), stage.status("y")) == (MemberStatus.ALIVE, MemberStatus.ALIVE)
    assert len(of(effects, MemberChanged)) == 2


def test_a_tombstone_keeps_its_age_when_it_is_passed_on() -> None:
    stage = Stage("a")
    gone = claims.left(short("x"), GENERATION, 0, Departure.LEFT, short("x"))
    stage.report(asked(1, roster(part("a"), part("x", gone, age_s=23 * 3_600))))
    assert stage.status("x") is MemberStatus.LEFT
    stage.run_for(HOUR + 120 * SECOND)
    assert stage.status("x") is None


def test_a_joiner_with_a_wild_clock_is_told_the_generation_to_use_and_follows() -> None:
    far = GENERATION + 10 * 365 * 24 * 3_600_000
    server, joiner = Stage("a", me="server"), Stage()
    joiner.core._shared.me.use_generation(far)
    sync = opened(joiner.command(Join((SEED,))))
    (answer,) = of(server.report(asked(1, sync.message)), AnswerSync)
    assert answer.message is not None
    assert answer.message.use_generation == server.now.wall_ms
    effects = joiner.report(SyncAnswered(sync.ticket, answer.message))
    assert of(effects, GenerationAdvised) == [GenerationAdvised(server.now.wall_ms)]
    (closing,) = of(effects, CloseSync)
    (ping,) = sent(server.report(SyncClosed(1, closing.message)), PacketKind.PING, to="me")
    server.packet("me", PacketKind.ACK, sequence=ping.sequence)
    assert server.status("me") is MemberStatus.ALIVE


def test_a_joiner_whose_generation_is_too_low_takes_the_next_above() -> None:
    stage = Stage()
    sync = opened(stage.command(Join((SEED,))))
    known = SyncPart(claims.alive(profile("me"), GENERATION + 50, 3).encoded)
    effects = stage.report(SyncAnswered(sync.ticket, SyncMessage(1, (known, part("a")))))
    assert of(effects, GenerationRaised) == [GenerationRaised(GENERATION + 51)]


def test_whose_digest_differs_from_all_it_meets_asks_without_waiting() -> None:
    stage = Stage("a", "b")
    stage.stop_probing()
    digest = stage.core._shared.short_digest() ^ 1
    stage.packet("a", PacketKind.ACK, amount=digest)
    stage.run_for(2 * SECOND)
    effects = stage.packet("b", PacketKind.ACK, amount=digest)
    assert opened(effects).to == profile("b").address
    assert of(stage.packet("a", PacketKind.ACK, amount=digest), OpenSync) == []
    assert stage.core.tally.syncs_for_repair == 1


def test_while_news_is_under_way_differing_digests_mean_nothing() -> None:
    stage = Stage("a", "b")
    stage.stop_probing()
    for incarnation in range(1, 20):
        stage.tell("a", claims.alive(profile("a"), GENERATION, incarnation))
        assert of(stage.packet("b", PacketKind.ACK, amount=1), OpenSync) == []
        stage.run_for(200 * MILLISECOND)


def test_the_failed_are_looked_for_and_what_they_say_is_heard() -> None:
    stage = Stage("a", "b")
    stage.stop_probing()
    stage.tell("b", dead("a", "b"))
    syncs: list[OpenSync] = []
    for _ in range(80):
        if len(syncs) < 2:
            opened = of(stage.run_for(5 * SECOND), OpenSync)
            syncs += [each for each in opened if each.to == profile("a").address]
    assert len(syncs) == 2
    back = SyncPart(claims.alive(profile("a"), GENERATION, 1).encoded)
    stage.report(SyncAnswered(syncs[-1].ticket, SyncMessage(1, (back,))))
    assert stage.status("a") is MemberStatus.ALIVE


def test_leaving_is_told_by_stream_as_well_and_done_by_the_time_news_takes() -> None:
    stage = Stage("a", "b", "c")
    effects = stage.command(Leave())
    told = of(effects, OpenSync)
    assert {each.to for each in told} == {profile(name).address for name in "abc"}
    assert not any(each.message.wants_answer for each in told)
    assert of(stage.run_for(SECOND), LeaveDone) == []
    assert of(stage.run_for(SECOND), LeaveDone) == [LeaveDone()]
    assert sent(stage.run_for(60 * SECOND), PacketKind.PING) == []


def test_a_join_after_leaving_is_a_new_life() -> None:
    stage = Stage("a")
    stage.command(Leave())
    stage.run_for(5 * SECOND)
    effects = stage.command(Join((SEED,)))
    assert of(effects, GenerationRaised) == [GenerationRaised(GENERATION + 1)]
    assert len(sent(stage.run_for(3 * SECOND), PacketKind.PING)) >= 1
