"""Two that claim one address or one name."""

from __future__ import annotations

import pytest

from adsum.gossip import claims, wire
from adsum.gossip.claims import Alive
from adsum.gossip.commands import Join, SyncAnswered
from adsum.gossip.effects import (
    ConflictSeen,
    Effect,
    GenerationRaised,
    JoinEnded,
    MemberChanged,
    OpenSync,
    SyncMessage,
    SyncPart,
)
from adsum.gossip.order import Departure, MemberStatus
from adsum.gossip.wire import PacketFlag, PacketKind
from adsum.now import HOUR, MILLISECOND, SECOND
from tests.gossip.support import GENERATION, Stage, alive, asked, dead, of, profile, sent, short, told_claims

HOST = "10.1.1.1"


def under(name: str, node: str, *, generation: int = GENERATION, host: str = "") -> Alive:
    return claims.alive(profile(name, node=node, host=host), generation, 0)


def died(told: Alive) -> claims.Dead:
    accusation = claims.suspect(told.subject, told.standing.generation, 0, (short("b"),))
    return claims.dead(accusation, claims.DeathCause.SILENT)


def names(stage: Stage) -> dict[str, MemberStatus]:
    return {member.profile.node_id.hex(): member.status for member in stage.core.membership.members()}


def holder(stage: Stage, name: str = "web") -> bytes:
    member = stage.core._shared.roster.by_name_of(name)
    assert member is not None
    return member.profile.node_id


def changes(effects: list[Effect]) -> list[tuple[bytes, str]]:
    return [(each.member.node_id, each.evidence.cause.value) for each in of(effects, MemberChanged)]


# At one address.


OLD, NEW = under("web", "one", host=HOST), under("web", "two", generation=GENERATION + 9, host=HOST)


@pytest.mark.parametrize("order", [(OLD, NEW), (NEW, OLD)])
@pytest.mark.parametrize("settled_s", [0, 60])
def test_of_two_lives_at_one_address_the_greater_generation_wins_whichever_came_first(
    order: tuple[Alive, Alive], settled_s: int
) -> None:
    stage = Stage("b")
    stage.stop_probing()
    stage.tell("b", order[0])
    stage.stand_still(settled_s * SECOND)
    effects = stage.tell("b", order[1])
    assert holder(stage) == NEW.profile.node_id
    assert len(stage.core._shared.roster) == 2
    assert of(effects, ConflictSeen) == []


def test_who_tells_of_the_earlier_life_at_an_address_is_told_of_the_later_one() -> None:
    stage = Stage("b")
    stage.tell("b", NEW)
    assert NEW in told_claims(stage.tell("b", OLD))


def test_the_address_of_one_goes_to_another_of_another_name() -> None:
    stage = Stage("b")
    stage.tell("b", OLD)
    heir = under("db", "heir", generation=GENERATION + 1, host=HOST)
    assert changes(stage.tell("b", heir)) == [
        (OLD.profile.node_id, "replaced"),
        (heir.profile.node_id, "joined"),
    ]


def test_a_corpse_never_takes_the_place_of_one_that_is_there_however_great_its_generation() -> None:
    for verdict in (died(NEW), claims.left(NEW.subject, GENERATION + 9, 0, Departure.LEFT, NEW.subject)):
        stage = Stage("b")
        stage.tell("b", OLD)
        stage.report(asked(1, SyncMessage(0, (part("b"), SyncPart(NEW.encoded, verdict.encoded, 5)))))
        assert holder(stage) == OLD.profile.node_id
        assert stage.core._shared.roster.by_short[OLD.subject].status is MemberStatus.ALIVE


def test_of_two_corpses_of_one_name_the_later_is_listed_whichever_came_first() -> None:
    one, two = under("web", "one"), under("web", "two", generation=GENERATION + 9)
    for first, second in ((one, two), (two, one)):
        stage = Stage("b")
        for told in (first, second):
            stage.report(asked(1, SyncMessage(0, (part("b"), SyncPart(told.encoded, died(told).encoded)))))
        assert holder(stage) == two.profile.node_id


def test_who_gave_way_is_taken_in_again_when_the_one_it_gave_way_to_is_gone() -> None:
    stage = Stage("b", "c")
    stage.tell("b", OLD, NEW, died(NEW))
    assert stage.core._shared.roster.by_short[NEW.subject].status is MemberStatus.FAILED
    stage.tell("b", OLD)
    assert holder(stage) == OLD.profile.node_id


def test_who_was_dead_when_another_took_its_place_stays_so_until_it_says_something_newer() -> None:
    stage = Stage("b")
    stage.tell("b", OLD, died(OLD), NEW)
    stage.tell("b", died(NEW))
    assert changes(stage.tell("b", OLD)) == []
    assert stage.core.tally.dropped == {"reaped": 1}
    stage.tell("b", claims.alive(OLD.profile, GENERATION, 1))
    assert holder(stage) == OLD.profile.node_id


# At my own address.


def at_my_address(node: str, generation: int) -> Alive:
    me = profile("me")
    return claims.alive(claims.Profile(profile(node).node_id, "me", me.address), generation, 0)


def test_i_outdo_the_life_that_my_host_had_before_it_lost_its_data_folder() -> None:
    """Its clock was turned back as well, or the other's had been ahead."""
    stage = Stage("b")
    effects = stage.tell("b", at_my_address("before", GENERATION + HOUR // MILLISECOND))
    raised = GENERATION + HOUR // MILLISECOND + 1
    assert of(effects, GenerationRaised) == [GenerationRaised(raised)]
    assert claims.alive(profile("me"), raised, 0) in told_claims(effects)
    assert of(effects, ConflictSeen) == []
    assert len(stage.core._shared.roster) == 1


def test_an_earlier_life_of_my_host_is_answered_with_mine() -> None:
    stage = Stage("b")
    effects = stage.tell("b", at_my_address("before", GENERATION - 1))
    assert stage.core._shared.me.generation == GENERATION
    assert stage.core._shared.me.alive in told_claims(effects)


def test_two_agents_that_advertise_one_address_do_not_race_and_are_named() -> None:
    stage = Stage("b")
    conflicts = []
    for number in range(1, 20):
        stage.stand_still(SECOND)
        effects = stage.tell("b", at_my_address("twin", GENERATION + 10 * number))
        conflicts += of(effects, ConflictSeen)
        assert sent(effects, PacketKind.REFUSAL) == []  # it would come back to me
    assert stage.core._shared.me.generation == GENERATION + 31
    (seen,) = conflicts
    assert (seen.holder, seen.newcomer.node_id) == (profile("me"), profile("twin").node_id)


# Of one name.


def settled(stage: Stage, *peers: str) -> None:
    stage.stop_probing()
    stage.stand_still(31 * SECOND)


def test_a_name_in_use_is_refused_whatever_its_case_and_its_holder_asked() -> None:
    stage = Stage("web", "b")
    settled(stage)
    newcomer = under("WEB", "other")
    effects = stage.tell("b", newcomer)
    assert of(effects, ConflictSeen) == []
    (ping,) = sent(effects, PacketKind.PING, to="web")
    effects = stage.packet("web", PacketKind.ACK, sequence=ping.sequence)
    assert of(effects, ConflictSeen) == [ConflictSeen(profile("web"), newcomer.profile)]
    (refusal,) = sent(effects, PacketKind.REFUSAL)
    assert refusal.flags == PacketFlag.CONFLICT
    assert len(stage.core._shared.roster) == 2


def test_the_holder_of_a_name_that_does_not_answer_is_no_conflict_but_a_suspect() -> None:
    """A container came back with a new address and without its data folder."""
    stage = Stage("web", "b", "c")
    settled(stage)
    stage.tell("b", under("web", "other", generation=GENERATION + 5))
    effects = stage.run_for(2 * SECOND)
    assert of(effects, ConflictSeen) == []
    assert stage.status("web") is MemberStatus.SUSPECT


def test_the_name_of_one_that_announced_its_restart_is_kept_for_a_later_life_wherever_it_is() -> None:
    """The container comes back with another address, and without its data folder."""
    stage = Stage("web", "b")
    settled(stage)
    stage.tell("web", claims.restarting(short("web"), GENERATION, 20_000))
    stage.tell("b", under("web", "older", generation=GENERATION - 5))
    assert holder(stage) == profile("web").node_id
    reborn = under("web", "reborn", generation=GENERATION + 5)
    effects = stage.tell("b", reborn)
    assert holder(stage) == reborn.profile.node_id
    assert of(effects, ConflictSeen) == []


def test_two_that_took_a_name_at_once_are_settled_the_same_way_everywhere() -> None:
    older, newer = under("web", "one"), under("web", "two", generation=GENERATION + 9)
    for order in ((older, newer), (newer, older)):
        stage = Stage("b")
        stage.tell("b", *order)
        assert holder(stage) == older.profile.node_id
        assert len(stage.core._shared.roster) == 2


def test_the_name_of_the_dead_is_taken_over_and_the_old_owner_goes_at_once() -> None:
    stage = Stage("web", "b")
    stage.tell("b", dead("web", "b"))
    effects = stage.tell("b", under("web", "other"))
    assert changes(effects) == [
        (profile("web").node_id, "replaced"),
        (profile("web", node="other").node_id, "joined"),
    ]
    assert changes(stage.tell("b", alive("web"))) == []


def test_my_own_name_is_nobody_elses_and_who_claims_it_to_me_is_told() -> None:
    stage = Stage("b")
    namesake = under("Me", "other")
    assert of(stage.tell("b", namesake), ConflictSeen) == []  # others ask it, and me, before they say so
    effects = stage.report(asked(1, SyncMessage(0, (SyncPart(namesake.encoded),))))
    (ping,) = sent(effects, PacketKind.PING)
    effects = stage.core.receive(stage.now, namesake.profile.address, _ack(namesake, ping.sequence))
    assert [each.holder.name for each in of(effects, ConflictSeen)] == ["me"]
    assert len(stage.core._shared.roster) == 1


def _ack(by: Alive, sequence: int) -> bytes:
    return wire.header(by.subject, by.standing.generation) + wire.encode(
        wire.Packet(PacketKind.ACK, sequence=sequence)
    )


def test_two_that_swapped_their_names_do_not_shut_each_other_out() -> None:
    stage = Stage("a", "b", "c")
    settled(stage)
    a, b = profile("a"), profile("b")
    a_as_b = claims.alive(claims.Profile(a.node_id, "b", a.address), GENERATION + 5, 0)
    b_as_a = claims.alive(claims.Profile(b.node_id, "a", b.address), GENERATION + 5, 0)
    stage.tell("c", a_as_b)  # the name of one that is here: its old life is over all the same
    stage.tell("c", b_as_a)
    stage.tell("c", a_as_b)
    assert (holder(stage, "a"), holder(stage, "b")) == (b.node_id, a.node_id)


def test_the_old_life_of_one_whose_new_name_is_taken_is_over_for_good() -> None:
    """Else whoever has not heard tells of it, it is met again, answers, and so on without end."""
    stage = Stage("a", "b", "c")
    settled(stage)
    a = profile("a")
    renamed = claims.alive(claims.Profile(a.node_id, "b", a.address), GENERATION + 5, 0)
    stage.tell("c", renamed)
    assert changes(stage.tell("c", alive("a", incarnation=9))) == []
    assert stage.core.tally.dropped == {"reaped": 1}
    stage.tell("c", claims.alive(a, GENERATION + 6, 0))
    assert holder(stage, "a") == a.node_id


def test_the_last_life_of_one_that_announced_its_restart_does_not_come_back() -> None:
    """Also not from one that was cut off meanwhile, and to whom the older of two is the one that stays."""
    stage = Stage("b", "c")
    stage.stop_probing()
    old, new = under("web", "old"), under("web", "new", generation=GENERATION + 5)
    stage.tell("b", old, claims.restarting(old.subject, GENERATION, 20_000), new)
    assert holder(stage) == new.profile.node_id
    stage.tell("c", old)
    assert holder(stage) == new.profile.node_id


def test_a_stranger_s_word_gives_nobody_the_name_of_one_that_restarts() -> None:
    stage = Stage("a", "b")
    settled(stage)
    stage.tell("x", claims.restarting(short("a"), GENERATION, 20_000))
    assert stage.core.tally.dropped == {"restart told by a stranger": 1}
    stage.tell("a", claims.restarting(short("a"), GENERATION, 20_000))
    b = profile("b")
    stage.tell("x", claims.alive(claims.Profile(b.node_id, "a", b.address), GENERATION + 5, 0))
    assert (holder(stage, "a"), holder(stage, "b")) == (profile("a").node_id, b.node_id)


def test_a_stranger_that_claims_my_address_makes_me_outdo_nobody() -> None:
    stage = Stage("b")
    stage.tell("x", at_my_address("before", GENERATION + 5))
    assert stage.core._shared.me.generation == GENERATION


def test_whether_one_that_moved_is_still_where_it_was_no_helper_can_say() -> None:
    """The helper may know it at its new address already."""
    stage = Stage("a", "b", "c", "d")
    moved = claims.alive(profile("a", host="10.9.9.9"), GENERATION + 5, 0)
    stage.tell("b", moved)
    effects = stage.run_for(600 * MILLISECOND)
    (request, *_) = sent(effects, PacketKind.PING_REQUEST)
    for helper in "bcd":
        stage.packet(helper, PacketKind.ACK, sequence=request.sequence, about=short("a"))
    stage.run_for(500 * MILLISECOND)
    assert stage.member("a").profile.address == moved.profile.address


def test_a_join_that_brought_nobody_is_not_called_one() -> None:
    stage = Stage()
    (sync,) = of(stage.command(Join((profile("a").address,))), OpenSync)
    namesake = under("me", "other")
    effects = stage.report(SyncAnswered(sync.ticket, SyncMessage(1, (SyncPart(namesake.encoded),))))
    (ended,) = of(effects, JoinEnded)
    assert ended.error.startswith("it answered, but nobody that it lists could be taken in")


def part(name: str) -> SyncPart:
    return SyncPart(alive(name).encoded)
