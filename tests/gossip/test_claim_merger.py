"""Claims merged by their order, identities kept apart, accusations of me answered."""

from __future__ import annotations

import pytest

from adsum.address import Address
from adsum.gossip import claims
from adsum.gossip.claim_merger import INTRODUCED_AT_ONCE
from adsum.gossip.claims import COUNTER_MAX, Profile
from adsum.gossip.commands import ForceLeave
from adsum.gossip.effects import ConflictSeen, GenerationRaised, GossipRefused, MemberChanged, Note, Noted
from adsum.gossip.order import Departure, MemberStatus
from adsum.gossip.settings import GossipSettings
from adsum.gossip.source import FROM_MEMBER
from adsum.gossip.wire import PacketFlag, PacketKind
from adsum.now import HOUR, MILLISECOND, SECOND
from tests.gossip.support import (
    GENERATION,
    Stage,
    alive,
    dead,
    of,
    profile,
    sent,
    short,
    suspect,
    told_claims,
)


def left(name: str, by: str = "", generation: int = GENERATION) -> claims.Left:
    return claims.left(short(name), generation, 0, Departure.LEFT, short(by or name))


def under(name: str, node: str, *, generation: int = GENERATION, host: str = "") -> claims.Alive:
    return claims.alive(profile(name, node=node, host=host), generation, 0)


def test_news_is_told_on_and_what_was_known_is_not() -> None:
    stage = Stage("a", "b")
    stage.tell("b", dead("a", "b"))
    assert len(stage.core._shared.broadcasts.queues) == 3
    assert bool(stage.core._shared.broadcasts)
    stage._forget_news()
    assert of(stage.tell("b", dead("a", "b"), suspect("a", "b")), MemberChanged) == []
    assert not stage.core._shared.broadcasts


def test_a_change_carries_who_accused_and_who_confirmed() -> None:
    stage = Stage("a", "b", "c", "d", "e")
    (suspected,) = of(stage.tell("b", suspect("a", "b")), MemberChanged)
    assert suspected.evidence.accusers == (short("b"),)
    (noted,) = of(stage.tell("c", suspect("a", "c", refusers=("c",))), Noted)
    assert noted.note is Note.CONFIRMED
    assert noted.evidence.accusers == (short("b"), short("c"))
    (died,) = of(stage.tell("d", dead("a", "b", "c", "d")), MemberChanged)
    assert (died.before, died.after) != (None, None)
    assert died.evidence.confirmations == 2


def test_a_suspicion_heard_is_judged_by_my_own_time() -> None:
    stage = Stage("a", "b", "c", "d", "e")
    stage.stop_probing()
    stage.tell("b", suspect("a", "b", "c", "d", "e"))
    effects = stage.run_for(3 * SECOND)
    assert stage.status("a") is MemberStatus.SUSPECT
    effects = stage.run_for(2 * SECOND)
    (died,) = [each for each in of(effects, MemberChanged) if each.member.name == "a"]
    assert died.evidence.cause.value == "silent"
    assert died.evidence.accusers == tuple(map(short, "bcde"))


def test_an_accusation_of_me_is_refuted_and_the_accusers_hear_it_first() -> None:
    stage = Stage("a", "b", "c")
    effects = stage.tell("a", suspect("me", "b", "c"))
    assert stage.core._shared.me.incarnation == 1
    assert stage.core._shared.health.score == 1
    assert stage.core.tally.suspicions_of_me == 1
    for name in ("b", "c"):
        (answer,) = sent(effects, PacketKind.GOSSIP, to=name)
        assert stage.core._shared.me.alive.encoded in answer.claims


def test_an_old_accusation_of_me_is_answered_without_another_incarnation() -> None:
    stage = Stage("a", "b")
    stage.tell("a", suspect("me", "b"))
    effects = stage.tell("a", suspect("me", "b"))
    assert stage.core._shared.me.incarnation == 1
    assert stage.core._shared.me.alive in told_claims(effects)


def test_hearing_that_i_left_begins_a_new_life() -> None:
    stage = Stage("a")
    effects = stage.tell("a", left("me", by="a"))
    assert of(effects, GenerationRaised) == [GenerationRaised(GENERATION + 1)]
    assert stage.core._shared.me.alive.standing.generation == GENERATION + 1


# Identity.


def test_the_same_id_from_elsewhere_is_refused_while_the_first_still_answers() -> None:
    stage = Stage("a", "b")
    copy = under("a", "a", generation=GENERATION + 5, host="10.9.9.9")
    (ping,) = sent(stage.tell("b", copy), PacketKind.PING, to="a")
    effects = stage.packet("a", PacketKind.ACK, sequence=ping.sequence)
    assert of(effects, ConflictSeen) == [ConflictSeen(profile("a"), copy.profile)]
    assert stage.member("a").profile == profile("a")
    (refusal,) = sent(effects, PacketKind.REFUSAL)
    assert refusal.flags == PacketFlag.CONFLICT


def test_the_same_id_from_elsewhere_is_taken_when_the_old_address_is_silent() -> None:
    stage = Stage("a", "b")
    moved = under("a", "a", generation=GENERATION + 5, host="10.9.9.9")
    stage.tell("b", moved)
    assert stage.member("a").profile == profile("a")
    stage.run_for(1_001 * MILLISECOND)
    assert stage.member("a").profile.address == Address("10.9.9.9", 8301)
    assert stage.core._shared.roster.by_address.get(profile("a").address) is None


def test_the_farewell_of_a_copy_that_was_not_let_in_takes_nobody_off_the_roll() -> None:
    stage = Stage("a", "b")
    (ping,) = sent(stage.tell("b", left("a", generation=GENERATION + 5)), PacketKind.PING, to="a")
    stage.packet("a", PacketKind.ACK, sequence=ping.sequence)
    assert stage.status("a") is MemberStatus.ALIVE
    assert stage.core.tally.dropped["leave message of a copy"] == 1


def test_the_farewell_of_a_life_that_was_missed_is_believed_when_that_life_answers_or_nobody_does() -> None:
    stage = Stage("a", "b", "c")
    (ping,) = sent(stage.tell("c", left("a", generation=GENERATION + 5)), PacketKind.PING, to="a")
    stage.packet("a", PacketKind.ACK, sequence=ping.sequence, generation=GENERATION + 5)
    assert stage.status("a") is MemberStatus.LEFT
    stage.tell("c", left("b", generation=GENERATION + 5))
    stage.run_for(1_001 * MILLISECOND)
    assert stage.status("b") is MemberStatus.LEFT


@pytest.mark.parametrize("gone", [dead("a", "b"), left("a"), suspect("a", "b")])
def test_a_member_that_was_not_present_moves_at_once(gone: claims.Claim) -> None:
    stage = Stage("a", "b")
    stage.tell("b", gone)
    stage.tell("b", under("a", "a", generation=GENERATION + 5, host="10.9.9.9"))
    assert stage.member("a").profile.address.host == "10.9.9.9"
    assert stage.status("a") is MemberStatus.ALIVE


def test_a_copy_of_me_raises_my_generation_once_and_not_in_a_race() -> None:
    stage = Stage("b")
    for number in range(1, 20):
        copy = under("me", "me", generation=GENERATION + 10 * number, host="10.9.9.9")
        stage.tell("b", copy)
    assert stage.core._shared.me.generation == GENERATION + 11
    assert stage.core.tally.conflicts >= 10


def test_a_generation_of_next_week_is_refused_once_our_own_clock_is_believed() -> None:
    week_ms = 7 * 24 * HOUR // MILLISECOND
    stage = Stage("b")
    stage.tell("b", alive("wild", generation=GENERATION + week_ms))
    assert stage.status("wild") is None
    assert stage.core.tally.dropped == {"generation ahead": 1}
    unsure = Stage("b", settings=GossipSettings(build_wall_ms=GENERATION + 2 * week_ms))
    unsure.tell("b", alive("wild", generation=GENERATION + week_ms))
    assert unsure.status("wild") is MemberStatus.ALIVE


@pytest.mark.parametrize("ahead_ms", [7 * 24 * HOUR // MILLISECOND, COUNTER_MAX - 1 - GENERATION])
def test_no_claim_with_a_generation_of_next_week_can_put_anybody_where_nobody_lets_it_in(
    ahead_ms: int,
) -> None:
    """A member, or I, could only answer it with a generation that everybody refuses."""
    wild = GENERATION + ahead_ms
    for name in ("me", "b"):
        stage = Stage("a", "b")
        left = claims.left(short(name), wild, 0, Departure.LEFT, short("a"))
        stage.tell("a", left, dead(name, "a", generation=wild), alive(name, generation=wild))
        stage.core._merger.introduce(stage.now, alive(name), left, 0, FROM_MEMBER)
        assert stage.core._shared.me.generation == GENERATION
        assert stage.status("b") is MemberStatus.ALIVE
        assert stage.core.tally.dropped == {"generation ahead": 4}


def test_an_incarnation_that_leaves_no_greater_one_begins_another_life() -> None:
    stage = Stage("b")
    stage.tell("b", suspect("me", "b", incarnation=COUNTER_MAX - 1))
    me = stage.core._shared.me
    assert (me.generation, me.incarnation) == (GENERATION + 1, 0)


def test_a_version_range_we_do_not_speak_is_kept_out() -> None:
    stage = Stage("b")
    future = Profile(profile("x").node_id, "x", profile("x").address, b"", 7, 9)
    stage.tell("b", claims.alive(future, GENERATION, 0))
    assert stage.status("x") is None
    assert stage.core.tally.dropped == {"version range": 1}


def test_strangers_are_introduced_by_datagram_only_so_fast() -> None:
    stage = Stage("b")
    for number in range(INTRODUCED_AT_ONCE + 100):
        stage.tell("b", alive(f"n{number}"))
    assert len(stage.core._shared.roster) == INTRODUCED_AT_ONCE + 1
    assert stage.core.tally.dropped == {"introductions": 100}


# Leaving.


def test_an_announced_restart_is_waited_for() -> None:
    stage = Stage("a", "b", "c", "d", "e")
    stage.tell("a", claims.restarting(short("a"), GENERATION, 20_000))
    stage.tell("b", suspect("a", "b", "c", "d", "e", refusers=("b", "c", "d")))
    stage.run_for(19 * SECOND)
    assert stage.status("a") is MemberStatus.SUSPECT
    stage.run_for(2 * SECOND)
    assert stage.status("a") is MemberStatus.FAILED


def test_a_forced_leave_is_final_until_the_member_returns_and_names_who_did_it() -> None:
    stage = Stage("a", "b")
    stage.tell("b", dead("a", "b"))
    (changed,) = of(stage.command(ForceLeave("A")), MemberChanged)
    assert (changed.evidence.cause.value, changed.evidence.by) == ("forced", short("me"))
    stage.tell("b", claims.alive(profile("a"), GENERATION, 99))
    assert stage.status("a") is MemberStatus.LEFT
    stage.tell("b", alive("a", generation=GENERATION + 1))
    assert stage.status("a") is MemberStatus.ALIVE


def test_a_pruned_member_is_not_listed_and_stays_a_tombstone() -> None:
    stage = Stage("a", "b")
    stage.command(ForceLeave("a", is_pruned=True))
    assert [member.profile.name for member in stage.core.membership.members()] == ["b"]
    stage.tell("b", alive("a"))
    assert stage.status("a") is MemberStatus.LEFT


def test_forcing_out_nobody_is_refused_with_a_sentence() -> None:
    stage = Stage("a")
    assert of(stage.command(ForceLeave("zz")), GossipRefused) == [
        GossipRefused("No member is called 'zz'; see `adsum members`.")
    ]
