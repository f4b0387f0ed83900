"""Whom nobody we know introduced is asked before it counts."""

from __future__ import annotations

from dataclasses import replace

from adsum.address import Address
from adsum.gossip import claims, wire
from adsum.gossip.claims import Profile
from adsum.gossip.commands import Join, PingOutcome, StreamPinged, SyncAnswered, SyncBroken, SyncClosed
from adsum.gossip.effects import (
    AnswerSync,
    ConflictSeen,
    Effect,
    EventHeard,
    GenerationRaised,
    MemberChanged,
    Note,
    Noted,
    OpenSync,
    PingStream,
    Send,
    SyncMessage,
    SyncPart,
)
from adsum.gossip.evidence import ChangeCause
from adsum.gossip.newcomers import JOINERS_AT_ONCE, NOTED_AT_ONCE, PER_HOST_MAX, SEQUENCE_FIRST, TOLD_AT_ONCE
from adsum.gossip.order import Departure, MemberStatus
from adsum.gossip.settings import GossipSettings
from adsum.gossip.shared_state import GossipTimer
from adsum.gossip.sync import FOR_MORE_MAX, GROWN_PARTS, GROWN_SHARE
from adsum.gossip.wire import Packet, PacketKind
from adsum.now import HOUR, MILLISECOND, SECOND
from tests.gossip.support import (
    GENERATION,
    Stage,
    alive,
    asked,
    dead,
    of,
    opened,
    profile,
    roster,
    sent,
    short,
    suspect,
    told_claims,
)


def part(name: str) -> SyncPart:
    return SyncPart(alive(name).encoded)


def ping_of(effects: list[Effect], name: str) -> Packet:
    (ping,) = sent(effects, PacketKind.PING, to=name)
    return ping


def quiet(*peers: str, members_max: int = 16_384) -> Stage:
    stage = Stage(*peers, settings=GossipSettings(members_max=members_max))
    stage.stop_probing()
    return stage


def test_who_introduces_itself_is_pinged_with_nothing_in_it_and_counts_once_it_answered() -> None:
    stage = quiet("a")
    ping = ping_of(stage.report(asked(1, roster(part("x")))), "x")
    assert stage.status("x") is None
    assert ping.about == short("x")
    assert ping.sequence >= SEQUENCE_FIRST
    assert (ping.claims, ping.carried, ping.root, ping.amount) == ([], [], b"", 0)
    effects = stage.packet("x", PacketKind.ACK, sequence=ping.sequence)
    assert stage.status("x") is MemberStatus.ALIVE
    assert [each.evidence.cause for each in of(effects, MemberChanged)] == [ChangeCause.JOINED]
    assert stage.core.tally.newcomers_answered == 1


def test_it_is_told_to_others_once_it_has_answered_and_not_before() -> None:
    stage = quiet("a")
    ping = ping_of(stage.report(asked(1, roster(part("x")))), "x")
    assert told_claims(stage.run_for(400 * MILLISECOND)) == []
    stage.packet("x", PacketKind.ACK, sequence=ping.sequence)
    assert alive("x") in told_claims(stage.run_for(400 * MILLISECOND))


def test_a_datagram_of_a_stranger_introduces_nobody_who_was_not_asked() -> None:
    stage = quiet("a")
    effects = stage.tell("x", alive("x"), alive("y"))
    assert len(sent(effects, PacketKind.PING, to="x")) == len(sent(effects, PacketKind.PING, to="y")) == 1
    assert (stage.status("x"), stage.status("y")) == (None, None)


def test_of_those_whom_strangers_tell_of_only_so_many_are_asked() -> None:
    stage = quiet("a")
    effects: list[Effect] = []
    for number in range(TOLD_AT_ONCE + 10):
        effects += stage.tell("x", alive(f"n{number}"))
    assert len(sent(effects, PacketKind.PING)) == TOLD_AT_ONCE


def test_whoever_writes_a_member_s_id_on_its_datagram_but_comes_from_elsewhere_is_a_stranger() -> None:
    stage = quiet("a")
    effects = stage.receive(Address("10.9.9.9", 1), message_of("a", alive("x")))
    assert ping_of(effects, "x")
    assert stage.status("x") is None


def message_of(sender: str, *told: claims.Claim) -> bytes:
    encoded = [each.encoded for each in told]
    return wire.header(short(sender), 1) + wire.encode(wire.Packet(PacketKind.GOSSIP, claims=encoded))


def test_only_the_one_that_was_asked_can_answer_and_only_with_the_number() -> None:
    stage = quiet("a")
    ping = ping_of(stage.report(asked(1, roster(part("x")))), "x")
    stage.packet("y", PacketKind.ACK, sequence=ping.sequence)
    stage.packet("x", PacketKind.ACK, sequence=ping.sequence ^ 1)
    assert stage.status("x") is None
    assert stage.core.tally.dropped == {"ack of another": 1}


def test_a_lost_ping_is_sent_again_and_a_stream_beside_it() -> None:
    stage = quiet("a")
    first = ping_of(stage.report(asked(1, roster(part("x")))), "x")
    effects = stage.run_for(200 * MILLISECOND)
    assert ping_of(effects, "x").sequence == first.sequence
    (stream,) = of(effects, PingStream)
    assert stream == PingStream(first.sequence, short("x"), profile("x").address, 2_800 * MILLISECOND)
    stage.report(StreamPinged(first.sequence, PingOutcome.ANSWERED))
    assert stage.status("x") is MemberStatus.ALIVE


def test_who_does_not_answer_within_three_seconds_is_forgotten_and_the_operator_is_told() -> None:
    stage = quiet("a")
    ping = ping_of(stage.report(asked(1, roster(part("x")))), "x")
    effects = stage.run_for(3 * SECOND)
    stage.report(StreamPinged(ping.sequence, PingOutcome.SILENT))
    assert [(each.note, each.member.name) for each in of(effects, Noted)] == [(Note.UNANSWERED, "x")]
    stage.packet("x", PacketKind.ACK, sequence=ping.sequence)
    assert stage.status("x") is None
    assert stage.core.tally.newcomers_silent == 1


def test_a_flood_of_made_up_strangers_costs_a_bounded_number_of_pings_and_notes() -> None:
    stage = quiet("a")
    effects: list[Effect] = []
    for number in range(TOLD_AT_ONCE + 200):
        effects += stage.tell(f"n{number}", alive(f"n{number}"))
    assert len(sent(effects, PacketKind.PING)) == TOLD_AT_ONCE
    assert len(of(stage.run_for(4 * SECOND), Noted)) == NOTED_AT_ONCE
    assert stage.core.tally.dropped == {"newcomers": 200}
    assert len(stage.core._shared.roster) == 1
    assert len(stage.core._merger.newcomers) == 0


def test_a_flood_of_datagrams_delays_nobody_who_joins_by_an_exchange() -> None:
    stage = quiet("a")
    for number in range(1_000):
        stage.tell(f"n{number}", alive(f"n{number}"))
    assert ping_of(stage.report(asked(1, roster(part("y")))), "y")


def test_a_joiner_that_comes_in_a_flood_of_others_is_asked_to_try_again() -> None:
    stage = quiet("a")
    for number in range(JOINERS_AT_ONCE):
        stage.report(asked(number, roster(part(f"n{number}"))))
        stage.report(SyncBroken(number))
    (answer,) = of(stage.report(asked(9_999, roster(part("y")))), AnswerSync)
    assert answer.message is None


def test_a_host_that_answers_for_any_number_of_ports_is_let_in_with_so_many() -> None:
    stage = quiet("a")
    for number in range(PER_HOST_MAX + 10):
        stage.run_for(SECOND)
        one = claims.alive(on_port(number), GENERATION, 0)
        for ping in sent(
            stage.report(asked(number, SyncMessage(0, (SyncPart(one.encoded),)))), PacketKind.PING
        ):
            if ping.about == one.subject:
                stage.receive(one.profile.address, wire_ack(one.subject, ping.sequence))
    assert len(stage.core._shared.roster) == 1 + PER_HOST_MAX


def on_port(number: int) -> Profile:
    return replace(profile(f"p{number}"), address=Address("10.0.0.66", 1_000 + number))


def test_who_answers_at_a_port_takes_the_place_of_who_was_there_before() -> None:
    """One process has a port, so a thousand made-up members behind one answer are one."""
    stage = quiet("a")
    for number in range(20):
        told = claims.alive(profile(f"n{number}", host="10.0.0.66"), GENERATION + number, 0)
        (ping,) = [
            each
            for each in sent(stage.tell(f"n{number}", told), PacketKind.PING)
            if each.about == told.subject
        ]
        stage.receive(told.profile.address, wire_ack(told.subject, ping.sequence))
    assert sorted(each.profile.name for each in stage.core.membership.members()) == ["a", "n19"]


def test_who_answers_at_a_port_with_an_older_generation_is_told_of_the_later_one_that_others_know() -> None:
    """Its clock was turned back while it lost its data folder. It outdoes that one, and is asked again."""
    stage = quiet("a")
    before = claims.alive(profile("n", node="before", host="10.0.0.66"), GENERATION + 5, 0)
    stage.tell("a", before)
    reborn = claims.alive(profile("n", node="reborn", host="10.0.0.66"), GENERATION, 0)
    (ping,) = [
        each
        for each in sent(stage.report(asked(1, SyncMessage(0, (SyncPart(reborn.encoded),)))), PacketKind.PING)
        if each.about == reborn.subject
    ]
    effects = stage.receive(reborn.profile.address, wire_ack(reborn.subject, ping.sequence))
    (told,) = [opened(each)[1] for each in of(effects, Send) if each.to == reborn.profile.address]
    assert told.claims == [before.encoded]
    assert stage.core._shared.roster.by_name_of("n") is not None
    again = claims.alive(reborn.profile, GENERATION + 6, 0)
    effects = stage.receive(
        reborn.profile.address,
        wire.header(reborn.subject, GENERATION + 6)
        + wire.encode(wire.Packet(PacketKind.GOSSIP, claims=[again.encoded])),
    )
    (ping,) = [each for each in sent(effects, PacketKind.PING) if each.about == reborn.subject]
    effects = stage.receive(reborn.profile.address, wire_ack(reborn.subject, ping.sequence))
    assert [(each.member.node_id, each.evidence.cause) for each in of(effects, MemberChanged)] == [
        (before.profile.node_id, ChangeCause.REBORN),
        (reborn.profile.node_id, ChangeCause.JOINED),
    ]


def test_what_was_found_out_about_one_that_is_gone_meanwhile_is_about_nobody() -> None:
    """It is probed, for somebody said that it left in a later life; and another takes its place before the
    probe ends. A day later its tombstone would be looked for in vain."""
    stage = quiet("a")
    stage.tell("a", claims.left(short("a"), GENERATION + 1, 0, Departure.LEFT, short("a")))
    other = claims.alive(profile("b", host=profile("a").address.host), GENERATION, 0)
    (ping,) = [each for each in sent(stage.tell("b", other), PacketKind.PING) if each.about == other.subject]
    stage.receive(other.profile.address, wire_ack(other.subject, ping.sequence))
    stage.run_for(25 * 60 * 60 * SECOND)
    assert [each.profile.name for each in stage.core.membership.members()] == ["b"]
    roster_now = stage.core._shared.roster
    assert roster_now.digest == roster_now.members[other.profile.node_id].digest


def test_of_what_a_stranger_tells_in_an_exchange_its_own_record_is_looked_at() -> None:
    stage = quiet("a")
    parts = [part("x"), *(part(f"n{number}") for number in range(1_000))]
    effects = stage.report(asked(1, roster(*parts)))
    assert len(sent(effects, PacketKind.PING)) == len(sent(effects, PacketKind.PING, to="x")) == 1
    assert len(stage.core._shared.roster) == 1
    assert stage.core.tally.dropped == {"sync of a stranger": 1}


def test_a_stranger_with_a_cluster_of_its_own_is_asked_for_the_rest_when_it_has_answered() -> None:
    stage = quiet("a")
    ping = ping_of(stage.report(asked(1, roster(part("x")))), "x")
    stage.report(SyncClosed(1, roster(*(part(f"n{number}") for number in range(100)))))
    effects = stage.packet("x", PacketKind.ACK, sequence=ping.sequence)
    (sync,) = of(effects, OpenSync)
    assert sync.to == profile("x").address
    stage.report(SyncAnswered(sync.ticket, roster(*(part(f"n{number}") for number in range(100)))))
    assert len(stage.core._shared.roster) == 102


def test_one_that_answered_before_its_last_turn_tells_as_a_member_does() -> None:
    stage = quiet("a")
    ping = ping_of(stage.report(asked(1, roster(part("x")))), "x")
    stage.packet("x", PacketKind.ACK, sequence=ping.sequence)
    stage.report(SyncClosed(1, roster(*(part(f"n{number}") for number in range(100)))))
    assert len(stage.core._shared.roster) == 102


def test_a_member_s_id_from_another_host_makes_no_member() -> None:
    stage = quiet("a")
    asked_by = asked(1, roster(part("a"), *(part(f"n{number}") for number in range(40))))
    stage.report(type(asked_by)(1, asked_by.message, "10.9.9.9"))
    assert len(stage.core._shared.roster) == 1


def test_a_stranger_that_says_goodbye_is_not_even_asked() -> None:
    stage = quiet("a")
    left = claims.left(short("x"), GENERATION, 0, Departure.LEFT, short("x"))
    told = SyncPart(alive("x").encoded, left.encoded)
    effects = stage.report(asked(1, SyncMessage(0, (told,), wants_answer=False)))
    assert sent(effects, PacketKind.PING) == []
    assert stage.core.tally.dropped == {"introduced by a stranger": 1}
    assert short("x") not in stage.core._shared.roster.verdicts


def test_an_accusation_that_was_heard_meanwhile_is_in_force_from_the_start() -> None:
    stage = quiet("a")
    ping = ping_of(stage.report(asked(1, roster(part("x")))), "x")
    stage.tell("a", suspect("x", "a"))
    stage.packet("x", PacketKind.ACK, sequence=ping.sequence)
    assert stage.status("x") is MemberStatus.SUSPECT


def test_one_that_a_member_told_of_meanwhile_is_met_once() -> None:
    stage = quiet("a")
    ping = ping_of(stage.report(asked(1, roster(part("x")))), "x")
    stage.tell("a", alive("x"))
    effects = stage.packet("x", PacketKind.ACK, sequence=ping.sequence)
    assert of(effects, MemberChanged) == []
    assert stage.member("x").has_answered


def test_who_was_away_for_longer_than_it_was_remembered_is_told_that_this_life_is_over() -> None:
    stage = quiet("a", "b", "c")
    stage.tell("a", dead("b", "a", incarnation=2))
    stage.stand_still(73 * HOUR)
    stage.core._shared.timers.set((GossipTimer.REAP, None), stage.now_ns)
    stage.core.tick(stage.now)
    assert stage.status("b") is None
    stage._forget_news()
    assert stage.tell("a", alive("b", incarnation=1)) == []  # from others it is old news
    stage.core._shared.guard.compared()
    ping = ping_of(stage.report(asked(1, roster(part("b")))), "b")
    effects = stage.packet("b", PacketKind.ACK, sequence=ping.sequence)
    assert told_claims(effects) == [claims.left(short("b"), GENERATION, 2, Departure.LEFT, short("me"))]
    ping = ping_of(stage.tell("b", alive("b", generation=GENERATION + 1), generation=GENERATION + 1), "b")
    stage.packet("b", PacketKind.ACK, sequence=ping.sequence, generation=GENERATION + 1)
    assert stage.status("b") is MemberStatus.ALIVE


def test_a_name_that_another_holds_is_refused_only_after_the_answer() -> None:
    stage = quiet("a")
    imposter = claims.alive(profile("a", node="other", host="10.0.0.9"), GENERATION + 1, 0)
    effects = stage.report(asked(1, SyncMessage(0, (SyncPart(imposter.encoded),))))
    assert of(effects, ConflictSeen) == []
    (ping,) = sent(effects, PacketKind.PING)
    effects = stage.receive(imposter.profile.address, wire_ack(imposter.subject, ping.sequence))
    assert of(effects, ConflictSeen) == []
    (ping,) = sent(effects, PacketKind.PING, to="a")
    assert len(of(stage.packet("a", PacketKind.ACK, sequence=ping.sequence), ConflictSeen)) == 1
    assert len(stage.core._shared.roster) == 1


def wire_ack(sender: bytes, sequence: int) -> bytes:
    return wire.header(sender, 1) + wire.encode(wire.Packet(PacketKind.ACK, sequence=sequence))


def test_when_the_roster_is_full_who_answers_takes_the_place_of_who_never_did() -> None:
    stage = quiet("a", "b", "c", members_max=3)
    ping = ping_of(stage.tell("a", alive("x")), "x")
    assert stage.status("x") is None
    effects = stage.packet("x", PacketKind.ACK, sequence=ping.sequence)
    assert (stage.status("x"), stage.status("c")) == (MemberStatus.ALIVE, None)
    assert [each.evidence.cause for each in of(effects, MemberChanged)] == [
        ChangeCause.CROWDED_OUT,
        ChangeCause.JOINED,
    ]
    assert stage.tell("a", alive("c")) != [], "it may come back, and is asked too"


def test_a_full_roster_of_members_that_answered_takes_no_more_and_counts_them() -> None:
    stage = quiet("a", "b", "c", members_max=3)
    for name in "abc":
        stage.member(name).has_answered = True
    ping = ping_of(stage.tell("a", alive("x")), "x")
    stage.packet("x", PacketKind.ACK, sequence=ping.sequence)
    assert stage.status("x") is None
    assert stage.core.tally.dropped == {"roster full": 1}


def test_a_member_that_acks_a_probe_has_answered() -> None:
    stage = Stage("a")
    (ping,) = sent(stage.run_for(SECOND), PacketKind.PING, to="a")
    assert not stage.member("a").has_answered
    stage.packet("a", PacketKind.ACK, sequence=ping.sequence)
    assert stage.member("a").has_answered


def test_who_is_asked_to_join_is_believed_about_its_members() -> None:
    stage = quiet()
    (sync,) = of(stage.command(Join((profile("a").address,))), OpenSync)
    stage.report(SyncAnswered(sync.ticket, roster(part("a"), part("b"))))
    assert (stage.status("a"), stage.status("b")) == (MemberStatus.ALIVE, MemberStatus.ALIVE)


def test_a_stranger_never_takes_the_name_of_one_that_is_present() -> None:
    """Between members the older life would have it, for they may have met the two in another order."""
    stage = quiet("a")
    older = claims.alive(profile("a", node="other", host="10.0.0.9"), 5, 0)
    (ping,) = sent(stage.report(asked(1, SyncMessage(0, (SyncPart(older.encoded),)))), PacketKind.PING)
    stage.receive(older.profile.address, wire_ack(older.subject, ping.sequence))
    assert stage.member("a").standing.is_present


def test_a_stranger_whose_last_turn_was_too_long_is_asked_for_the_rest_too() -> None:
    stage = quiet("a")
    ping = ping_of(stage.report(asked(1, roster(part("x")))), "x")
    stage.report(SyncBroken(1))
    assert [each.to for each in of(stage.packet("x", PacketKind.ACK, sequence=ping.sequence), OpenSync)] == [
        profile("x").address
    ]


def test_newcomers_take_few_of_the_exchanges_that_may_be_open() -> None:
    stage = quiet("a")
    opened: list[OpenSync] = []
    for number in range(10):
        name = f"n{number}"
        ping = ping_of(stage.report(asked(number, roster(part(name)))), name)
        stage.report(SyncBroken(number))
        opened += of(stage.packet(name, PacketKind.ACK, sequence=ping.sequence), OpenSync)
    assert len(opened) == FOR_MORE_MAX


def test_a_member_s_exchange_brings_a_few_times_what_is_known_and_no_more() -> None:
    stage = quiet("a", "b")
    parts = (part("a"), *(part(f"n{number}") for number in range(3_000)))
    stage.report(asked(1, roster(*parts)))
    assert len(stage.core._shared.roster) == 2 + GROWN_PARTS + GROWN_SHARE * 2 - 1
    assert stage.core.tally.dropped == {"sync too long": 1}


def test_a_join_brings_everybody() -> None:
    stage = quiet()
    (sync,) = of(stage.command(Join((profile("a").address,))), OpenSync)
    stage.report(SyncAnswered(sync.ticket, roster(*(part(f"n{number}") for number in range(3_000)))))
    assert len(stage.core._shared.roster) == 3_000


def test_when_all_have_answered_one_that_is_gone_makes_room() -> None:
    stage = quiet("a", "b", "c", members_max=3)
    for name in "abc":
        stage.member(name).has_answered = True
    stage.tell("a", dead("b", "a"))
    ping = ping_of(stage.tell("a", alive("x")), "x")
    stage.packet("x", PacketKind.ACK, sequence=ping.sequence)
    assert (stage.status("x"), stage.status("b")) == (MemberStatus.ALIVE, None)


def test_an_event_that_a_stranger_tells_is_dropped() -> None:
    stage = quiet("a")
    event = claims.user_event(short("a"), 5, 1, "deploy", b"")
    assert of(stage.tell("x", event), EventHeard) == []
    assert stage.core.tally.dropped == {"event of a stranger": 1}
    assert len(of(stage.tell("a", event), EventHeard)) == 1


def test_whatever_is_said_of_later_lives_of_mine_i_begin_anew_once_a_second() -> None:
    stage = quiet("a")
    me = stage.core._shared.me
    effects: list[Effect] = []
    for number in range(1, 500):
        claim = claims.suspect(me.short, GENERATION + number, 0, (short("a"),))
        effects += stage.tell("a", claims.dead(claim, claims.DeathCause.SILENT))
    assert len(of(effects, GenerationRaised)) == 1
    effects = stage.run_for(3 * SECOND)
    (raised,) = of(effects, GenerationRaised)
    assert raised.generation == GENERATION + 500
