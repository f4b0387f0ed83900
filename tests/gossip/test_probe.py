"""One cycle, leg by leg, and what it concludes."""

from __future__ import annotations

import pytest

from adsum.gossip.claims import restarting
from adsum.gossip.commands import DatagramUnreachable, PingOutcome, Restart, StreamPinged
from adsum.gossip.effects import (
    Effect,
    IsolationChanged,
    MemberChanged,
    Note,
    Noted,
    PingStream,
    Send,
    SyncPart,
)
from adsum.gossip.order import MemberStatus
from adsum.gossip.wire import BEAT, Packet, PacketFlag, PacketKind
from adsum.now import MILLISECOND, MINUTE, SECOND
from adsum.testing.gossip_world import GossipWorld
from tests.gossip.support import (
    Stage,
    alive,
    asked,
    of,
    opened,
    profile,
    roster,
    sent,
    short,
    suspect,
    told_claims,
)

OTHERS = ("b", "c", "d", "e", "f")


def pinged(stage: Stage) -> tuple[str, Packet]:
    """Lets time pass until somebody is probed."""
    names = {profile(name).address: name for name in ("a", *OTHERS)}
    while True:
        for effect in stage.run_for(MILLISECOND):
            if isinstance(effect, Send) and opened(effect)[1].kind == PacketKind.PING:
                return names[effect.to], opened(effect)[1]


def streams(effects: list[Effect]) -> list[PingStream]:
    return of(effects, PingStream)


def helpers_of(effects: list[Effect]) -> list[str]:
    names = {profile(name).address: name for name in ("a", *OTHERS)}
    requests = [each for each in of(effects, Send) if opened(each)[1].kind == PacketKind.PING_REQUEST]
    return [names[each.to] for each in requests]


def test_a_ping_names_whom_it_is_meant_for_and_an_ack_ends_the_cycle() -> None:
    stage = Stage("a")
    name, ping = pinged(stage)
    assert (name, ping.about) == ("a", short("a"))
    stage.packet("a", PacketKind.ACK, sequence=ping.sequence)
    assert sent(stage.run_for(900 * MILLISECOND), PacketKind.PING_REQUEST) == []
    assert stage.status("a") is MemberStatus.ALIVE


def test_silence_asks_three_helpers_and_a_stream_with_the_rest_of_the_period_as_budget() -> None:
    stage = Stage("a", *OTHERS, seed=2)
    name, ping = pinged(stage)
    effects = stage.run_for(501 * MILLISECOND)
    helpers = helpers_of(effects)
    assert len(set(helpers)) == 3
    assert name not in helpers
    requests = sent(effects, PacketKind.PING_REQUEST)
    assert {(each.sequence, each.about, each.amount) for each in requests} == {
        (ping.sequence, short(name), 500)
    }
    (stream,) = streams(effects)
    assert (stream.probe, stream.to, stream.timeout_ns) == (
        ping.sequence,
        profile(name).address,
        450 * MILLISECOND,
    )


def test_a_cycle_without_any_answer_raises_a_suspicion_and_tells_the_suspect_first() -> None:
    stage = Stage("a", *OTHERS)
    name, _ping = pinged(stage)
    effects = stage.run_for(SECOND)
    (changed,) = of(effects, MemberChanged)
    assert (changed.member.name, changed.evidence.accusers) == (name, (short("me"),))
    assert changed.evidence.legs == 7 - 4  # direct and indirect; the stream has not failed yet
    to_suspect = [each for each in of(effects, Send) if each.to == profile(name).address]
    assert any(claim.subject == short(name) for claim in told_claims(list(to_suspect)))


def test_a_helpers_ack_saves_the_target() -> None:
    stage = Stage("a", *OTHERS)
    name, ping = pinged(stage)
    helper = helpers_of(stage.run_for(501 * MILLISECOND))[0]
    stage.packet(helper, PacketKind.ACK, sequence=ping.sequence, about=short(name))
    stage.run_for(499 * MILLISECOND)
    assert stage.status(name) is MemberStatus.ALIVE


def test_an_ack_of_somebody_who_was_not_asked_saves_nobody() -> None:
    stage = Stage("a", *OTHERS)
    name, ping = pinged(stage)
    helpers = helpers_of(stage.run_for(501 * MILLISECOND))
    stranger = next(each for each in OTHERS if each not in (*helpers, name))
    stage.packet(stranger, PacketKind.ACK, sequence=ping.sequence, about=short(name))
    stage.packet(helpers[0], PacketKind.ACK, sequence=ping.sequence, about=short("zz"))
    stage.run_for(500 * MILLISECOND)
    assert stage.status(name) is MemberStatus.SUSPECT


def test_a_stream_that_answers_saves_the_target_and_is_counted_as_an_asymmetric_path() -> None:
    stage = Stage("a", *OTHERS)
    name, ping = pinged(stage)
    stage.run_for(501 * MILLISECOND)
    stage.report(StreamPinged(ping.sequence, PingOutcome.ANSWERED))
    stage.run_for(500 * MILLISECOND)
    assert stage.status(name) is MemberStatus.ALIVE
    assert stage.core.tally.asymmetric_paths == 1


def test_a_newer_counter_vetoes_the_suspicion() -> None:
    stage = Stage("a")
    stage.core._shared.health.score = 3  # the period is four seconds now
    _name, _ping = pinged(stage)
    stage.stop_probing()
    for second in range(1, 5):
        beat = BEAT.pack(short("a"), stage.member("a").alive.tag, second)
        stage.packet("b", PacketKind.GOSSIP, beats=beat)
        effects = stage.run_for(SECOND)
    assert stage.status("a") is MemberStatus.ALIVE
    assert [each.note for each in of(effects, Noted)] == [Note.VETOED]
    assert stage.core.tally.vetoes == 1


def test_three_refusals_with_a_silent_datagram_leg_do_not_wait_for_the_end_of_the_period() -> None:
    stage = Stage("a", *OTHERS)
    name, ping = pinged(stage)
    helpers = helpers_of(stage.run_for(501 * MILLISECOND))
    stage.report(StreamPinged(ping.sequence, PingOutcome.REFUSED))
    stage.packet(
        helpers[0], PacketKind.NACK, sequence=ping.sequence, about=short(name), flags=PacketFlag.REFUSED
    )
    assert stage.status(name) is MemberStatus.ALIVE
    stage.packet(
        helpers[1], PacketKind.NACK, sequence=ping.sequence, about=short(name), flags=PacketFlag.REFUSED
    )
    assert stage.status(name) is MemberStatus.SUSPECT
    stage.run_for(999 * MILLISECOND)
    assert stage.status(name) is MemberStatus.SUSPECT
    (died,) = [each for each in of(stage.run_for(2 * MILLISECOND), MemberChanged) if each.member.name == name]
    assert died.evidence.cause.value == "refused"
    assert set(died.evidence.refusers) == {short("me"), short(helpers[0]), short(helpers[1])}


@pytest.mark.parametrize("second_look", list(PingOutcome))
def test_of_two_members_a_refusal_must_be_seen_at_both_ends_of_the_grace(second_look: PingOutcome) -> None:
    stage = Stage("a")
    _name, ping = pinged(stage)
    stage.stop_probing()
    stage.run_for(501 * MILLISECOND)
    stage.report(StreamPinged(ping.sequence, PingOutcome.REFUSED))
    assert stage.status("a") is MemberStatus.SUSPECT
    (again,) = streams(stage.run_for(1_001 * MILLISECOND))
    assert stage.status("a") is MemberStatus.SUSPECT
    stage.report(StreamPinged(again.probe, second_look))
    expected = MemberStatus.FAILED if second_look is PingOutcome.REFUSED else MemberStatus.SUSPECT
    assert stage.status("a") is expected


def test_who_refuses_me_too_is_no_witness_and_the_last_of_a_cluster_decides_alone() -> None:
    stage = Stage("a", "b", "c", "d")
    effects = [
        effect for name in "abcd" for effect in stage.report(DatagramUnreachable(profile(name).address))
    ]
    stage.stop_probing()
    effects += stage.run_for(501 * MILLISECOND)
    for stream in streams(effects):
        stage.report(StreamPinged(stream.probe, PingOutcome.REFUSED))
    again = streams(stage.run_for(2 * SECOND))
    assert len(again) == 4
    assert {stage.status(name) for name in "abcd"} == {MemberStatus.SUSPECT}
    for stream in again:
        stage.report(StreamPinged(stream.probe, PingOutcome.REFUSED))
    assert {stage.status(name) for name in "abcd"} == {MemberStatus.FAILED}


def test_a_stream_that_merely_fails_is_no_refusal() -> None:
    stage = Stage("a")
    _name, ping = pinged(stage)
    stage.run_for(501 * MILLISECOND)
    stage.report(StreamPinged(ping.sequence, PingOutcome.HELD))
    stage.run_for(3 * SECOND)
    assert stage.status("a") is MemberStatus.SUSPECT


@pytest.mark.parametrize(
    ("outcome", "dies_ms"),
    [(PingOutcome.SILENT, 4_000), (PingOutcome.HELD, 5_000), (PingOutcome.UNTRIED, 5_000)],
)
def test_a_host_that_takes_no_connection_is_judged_by_when_it_was_asked(
    outcome: PingOutcome, dies_ms: int
) -> None:
    """A process that stands still has a host that takes them: it gets the whole wait."""
    stage = Stage("a")
    _name, ping = pinged(stage)
    effects = stage.run_for(600 * MILLISECOND)
    assert len(streams(effects)) == 1
    stage.report(StreamPinged(ping.sequence, outcome))
    stage.run_for((dies_ms - 650) * MILLISECOND)
    assert stage.status("a") is MemberStatus.SUSPECT
    stage.run_for(100 * MILLISECOND)
    assert stage.status("a") is MemberStatus.FAILED


def test_an_icmp_error_starts_a_cycle_at_once_and_accuses_nobody() -> None:
    stage = Stage("a", *OTHERS)
    effects = stage.report(DatagramUnreachable(profile("d").address))
    assert [packet.about for packet in sent(effects, PacketKind.PING, to="d")] == [short("d")]
    assert of(effects, MemberChanged) == []
    assert stage.core.tally.probes_out_of_turn == 1
    assert sent(stage.report(DatagramUnreachable(profile("d").address)), PacketKind.PING) == []
    assert stage.report(DatagramUnreachable(profile("zz").address)) == []


def test_cycles_out_of_turn_are_bounded() -> None:
    names = [f"n{number}" for number in range(100)]
    stage = Stage(*names)
    for name in names:
        stage.report(DatagramUnreachable(profile(name).address))
    assert stage.core.tally.probes_out_of_turn < 12
    assert stage.core.tally.probes_refused > 80


def test_nacks_clear_me_and_their_absence_does_not() -> None:
    stage = Stage("a", *OTHERS)
    name, ping = pinged(stage)
    for helper in helpers_of(stage.run_for(501 * MILLISECOND)):
        stage.packet(helper, PacketKind.NACK, sequence=ping.sequence, about=short(name))
    stage.run_for(500 * MILLISECOND)
    assert stage.core._shared.health.score == 0
    pinged(stage)
    stage.run_for(SECOND)
    assert stage.core._shared.health.score == 3


def test_who_feels_unwell_probes_more_slowly_and_waits_longer_for_each_answer() -> None:
    stage = Stage("a", *OTHERS)
    stage.core._shared.health.score = 3
    _name, _ping = pinged(stage)
    effects = stage.run_for(1_999 * MILLISECOND)
    assert streams(effects) == []
    assert len(streams(stage.run_for(2 * MILLISECOND))) == 1
    assert sent(stage.run_for(1_998 * MILLISECOND), PacketKind.PING) == []
    assert len(sent(stage.run_for(2 * MILLISECOND), PacketKind.PING)) == 1


def test_too_many_failing_targets_withhold_the_accusation_and_say_isolated() -> None:
    names = [f"n{number}" for number in range(40)]
    stage = Stage(*names)
    effects = stage.run_for(200 * SECOND)
    raised = [each for each in of(effects, Noted) if each.note is Note.RAISED]
    assert 5 <= len(raised) <= 6
    assert stage.core.tally.withheld > 5
    assert of(effects, IsolationChanged)[0].is_isolated
    assert stage.core.membership.holds_last_known(stage.now)


def test_who_hears_no_target_and_no_helper_is_isolated_before_anybody_is_dead() -> None:
    stage = Stage("a", *OTHERS)
    effects = stage.run_for(10 * SECOND)
    assert [each.is_isolated for each in of(effects, IsolationChanged)] == [True]
    assert MemberStatus.FAILED not in {stage.status(name) for name in ("a", *OTHERS)}


def test_helpers_that_hear_me_are_proof_that_i_am_not_isolated() -> None:
    stage = Stage("a", *OTHERS)
    for _ in range(4):
        name, ping = pinged(stage)
        for helper in helpers_of(stage.run_for(501 * MILLISECOND)):
            stage.packet(helper, PacketKind.NACK, sequence=ping.sequence, about=short(name))
        assert of(stage.run_for(499 * MILLISECOND), IsolationChanged) == []


def test_a_refusal_says_nothing_about_my_own_health() -> None:
    stage = Stage("a")
    _name, ping = pinged(stage)
    stage.run_for(501 * MILLISECOND)
    stage.report(StreamPinged(ping.sequence, PingOutcome.REFUSED))
    assert stage.core._shared.health.score == 0
    assert stage.core.tally.probes_failed == 0


def test_an_answer_of_a_new_life_does_not_convict_the_old_one() -> None:
    stage = Stage("a", *OTHERS)
    name, _ping = pinged(stage)
    stage.tell("f" if name != "f" else "b", alive(name, generation=alive(name).standing.generation + 1))
    stage.run_for(SECOND)
    assert stage.status(name) is MemberStatus.ALIVE


def test_an_accusation_heard_is_looked_into_at_once_until_enough_confirm_it() -> None:
    stage = Stage("a", "b", "c", "d", "e")
    stage.stop_probing()
    assert len(sent(stage.tell("b", suspect("a", "b")), PacketKind.PING, to="a")) == 1
    assert sent(stage.tell("b", suspect("c", "a", "b", "d", "e")), PacketKind.PING, to="c") == []


def test_an_accusation_that_a_comparison_brings_is_not_looked_into_at_once() -> None:
    """It may be as old as the time since the last one, and all who compare bring it."""
    stage = Stage("a", "b", "c", "d", "e")
    stage.stop_probing()
    told = SyncPart(alive("b").encoded, suspect("b", "c").encoded)
    effects = stage.report(asked(1, roster(SyncPart(alive("a").encoded), told)))
    assert stage.status("b") is MemberStatus.SUSPECT
    assert sent(effects, PacketKind.PING) == []


def test_of_many_who_hear_an_accusation_few_look_into_it_at_once() -> None:
    stage = Stage(*(f"n{number}" for number in range(600)))
    stage.stop_probing()
    looks = [stage.tell("n0", suspect(f"n{number}", "n0")) for number in range(1, 600)]
    assert 1 <= sum(len(sent(effects, PacketKind.PING)) for effects in looks) <= 20


def first_accusation_s(seed: int) -> float:
    """Of fifteen that have run for a minute one falls silent."""
    world = GossipWorld(15, seed=seed)
    world.form()
    world.run_for(MINUTE)
    accused: list[int] = []

    def watch(now_ns: int, _host: int, effect: object) -> None:
        if isinstance(effect, MemberChanged) and effect.after and effect.after.status is MemberStatus.SUSPECT:
            accused.append(now_ns)

    world.watchers.append(watch)
    lost_ns = world.now_ns
    world.lose(3)
    world.run_for(5 * SECOND)
    return (accused[0] - lost_ns) / SECOND


def test_a_host_whose_counter_is_overdue_is_looked_at_before_its_turn() -> None:
    """Seeds for which nobody's turn comes soon: without it the last of them takes 3.6 s."""
    assert max(first_accusation_s(seed) for seed in (1, 4, 7, 8)) < 2.7


def test_phi_of_the_probed_is_observed_once_a_round_and_grows_when_a_counter_stands_still() -> None:
    world = GossipWorld(15)
    world.form()
    world.run_for(2 * MINUTE)
    tallies = [host.core.tally for host in world.hosts]
    for tally in tallies:
        assert sum(tally.probed_phi.counts) == tally.probes - tally.probes_out_of_turn
    assert sum(sum(tally.probed_phi.counts[-3:]) for tally in tallies) == 0
    world.lose(3)
    world.run_for(20 * SECOND)
    assert sum(sum(tally.probed_phi.counts[-3:]) for tally in tallies) > 0


def test_phi_of_a_member_that_said_it_restarts_is_not_observed() -> None:
    stage = Stage("a")
    stage.tell("a", restarting(short("a"), alive("a").standing.generation, 30_000))
    stage.run_for(10 * SECOND)
    tally = stage.core._shared.tally
    assert tally.probes > 0
    assert sum(tally.probed_phi.counts) == 0


@pytest.mark.parametrize(("accusers", "mutes"), [(("me",), 1), (("me", "a"), 0)])
def test_accusations_that_others_confirm_do_not_mute_their_accuser(
    accusers: tuple[str, ...], mutes: int
) -> None:
    stage = Stage("a", *OTHERS)
    stage.stop_probing()
    for name in ("b", "c", "d"):
        stage.tell("a", suspect(name, *accusers))
        stage.tell(name, alive(name, incarnation=1))
    assert stage.core._shared.guard.mutes == mutes


def test_one_of_four_that_announced_a_restart_and_never_came_back_is_failed() -> None:
    """Meanwhile its probes failed for half a minute, and those of nobody else."""
    world = GossipWorld(4, seed=3)
    world.form()
    world.run_for(5 * SECOND)
    world.command(3, Restart(30_000))
    world.run_for(2 * SECOND)
    world.lose(3)
    world.run_for(60 * SECOND)
    assert world.views(3) == {MemberStatus.FAILED: 3}
