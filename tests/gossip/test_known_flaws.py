"""Every flaw found in other implementations, and every complaint of their users, as far as a core shows it.

Letters and numbers only tell them apart. Memberlist, Serf, foca, chitchat, Cassandra, Rapid and swift had
them.
What only real sockets can show (drained sockets, key rotation, stream frames) is tested in `tests/net`."""

from __future__ import annotations

from functools import partial

import pytest

from adsum.gossip import claims, wire
from adsum.gossip.broadcasts import Class
from adsum.gossip.commands import Describe, FireEvent, ForceLeave, Join, Leave
from adsum.gossip.effects import (
    ConflictSeen,
    LeaveDone,
    MemberChanged,
    Note,
    Noted,
    OpenSync,
    Send,
    SyncMessage,
    SyncPart,
)
from adsum.gossip.evidence import Leg
from adsum.gossip.order import Departure, MemberStatus
from adsum.gossip.relays import NACK_SHARE
from adsum.gossip.wire import PacketKind
from adsum.now import HOUR, MILLISECOND, MINUTE, SECOND
from adsum.testing.gossip_world import GossipWorld
from adsum.testing.network import Conditions
from tests.gossip.support import (
    GENERATION,
    Stage,
    alive,
    asked,
    dead,
    of,
    profile,
    sent,
    short,
    suspect,
    told_claims,
)

CROWD = tuple(f"n{number}" for number in range(30))


def failed_views(world: GossipWorld) -> list[tuple[int, str]]:
    """Who was called failed by whom; filled as the world runs."""
    seen: list[tuple[int, str]] = []

    def watch(_time_ns: int, observer: int, effect: object) -> None:
        if isinstance(effect, MemberChanged) and effect.after and effect.after.status is MemberStatus.FAILED:
            seen.append((observer, effect.member.name))

    world.watchers.append(watch)
    return seen


# 2.3: flaws seen in source.


def test_flaw_a_nacks_arrive_before_the_verdict() -> None:
    asker, helper = Stage("a", "b", me="asker"), Stage("a", "asker", me="b")
    requests: list[wire.Packet] = []
    while not requests:
        requests = sent(asker.run_for(MILLISECOND), PacketKind.PING_REQUEST, to="b")
    (request,) = requests
    helper.packet("asker", PacketKind.PING_REQUEST, sequence=1, about=short("a"), amount=request.amount)
    effects = helper.run_for(int(request.amount * MILLISECOND * NACK_SHARE) + MILLISECOND)
    assert len(sent(effects, PacketKind.NACK)) == 1
    assert asker.status("a") is MemberStatus.ALIVE  # a fifth of the budget is left for the way back


def test_flaw_b_local_health_stretches_period_timeout_and_suspicion() -> None:
    well, unwell = Stage("a", "b", "c", "d", "e"), Stage("a", "b", "c", "d", "e")
    unwell.core._shared.health.score = 1
    for stage in (well, unwell):
        stage.stop_probing()
        stage.tell("b", suspect("a", "b", "c", "d", "e"))
    well.run_for(5 * SECOND)
    unwell.run_for(5 * SECOND)
    assert (well.status("a"), unwell.status("a")) == (MemberStatus.FAILED, MemberStatus.SUSPECT)
    unwell.run_for(4 * SECOND)
    assert unwell.status("a") is MemberStatus.FAILED


def test_flaw_c_a_roster_sync_invents_no_witness() -> None:
    stage = Stage("a", "b", "c", "d", "e")
    part = SyncPart(alive("a").encoded, suspect("a", "b").encoded)
    for _ in range(5):
        stage.report(asked(1, SyncMessage(1, (part,))))
    case = stage.member("a").suspicion
    assert case is not None
    assert case.claim.accusers == (short("b"),)


def test_flaw_d_the_dead_are_remembered_far_longer_than_a_sync_takes_to_come_round() -> None:
    stage = Stage("a", "b")
    stage.tell("b", dead("a", "b"))
    stage.stop_probing()
    stage.run_for(2 * HOUR)
    stage.tell("b", alive("a"))
    assert stage.status("a") is MemberStatus.FAILED
    stage.report(asked(1, SyncMessage(1, (SyncPart(alive("a").encoded),))))
    assert stage.status("a") is MemberStatus.FAILED


def test_flaw_e_a_greater_incarnation_about_the_already_dead_is_kept() -> None:
    stage = Stage("a", "b")
    stage.tell("b", dead("a", "b", incarnation=0))
    stage.tell("b", dead("a", "b", incarnation=5))
    stage.tell("b", claims.alive(profile("a"), GENERATION, 3))
    assert stage.status("a") is MemberStatus.FAILED
    assert stage.member("a").standing.incarnation == 5


def test_flaw_f_a_verdict_about_a_stranger_counts_when_it_is_introduced() -> None:
    stage = Stage("b")
    stage.tell("b", dead("a", "b"))
    stage.tell("b", alive("a"))
    assert stage.status("a") is MemberStatus.FAILED


def test_flaw_f_who_tells_old_news_about_the_dead_is_told_the_accusation() -> None:
    stage = Stage("a", "b")
    stage.tell("b", dead("a", "b", incarnation=4))
    assert suspect("a", "b", incarnation=4) in told_claims(stage.tell("a", alive("a")))


def test_flaw_g_no_class_of_news_starves_another() -> None:
    stage = Stage(*CROWD)
    for number in range(300):
        stage.command(FireEvent("flood", number.to_bytes(200, "big")))
    stage.tell("n1", dead("n0", "n1"))
    first, *others = of(stage.run_for(400 * MILLISECOND), Send)
    assert any(isinstance(claim, claims.Dead) for claim in told_claims([first]))
    assert any(isinstance(claim, claims.UserEvent) for claim in told_claims(others))


def test_flaw_g_news_of_one_subject_is_one_entry() -> None:
    stage = Stage(*CROWD)
    for incarnation in range(1, 500):
        stage.tell("n1", claims.alive(profile("n0"), GENERATION, incarnation))
    assert len(stage.core._shared.broadcasts.queues[Class.MEMBERSHIP]) == 1


def test_flaw_h_pruning_returns_at_once_with_all_it_caused() -> None:
    stage = Stage("a", "b")
    effects = stage.command(ForceLeave("a", is_pruned=True))
    assert [change.evidence.cause.value for change in of(effects, MemberChanged)] == ["forced"]


def test_flaw_i_nobody_is_suspected_before_the_helpers_had_their_time() -> None:
    stage = Stage("a", "b", "c", "d")
    while not sent(stage.run_for(MILLISECOND), PacketKind.PING_REQUEST):
        pass
    stage.run_for(498 * MILLISECOND)
    assert stage.core._shared.roster.counts[MemberStatus.SUSPECT] == 0
    stage.run_for(3 * MILLISECOND)
    assert stage.core._shared.roster.counts[MemberStatus.SUSPECT] == 1


def test_flaw_i_a_change_makes_one_rumour_whatever_the_size() -> None:
    stage = Stage(*CROWD)
    stage.tell("n1", dead("n0", "n1"))
    assert len(stage.core._shared.broadcasts.queues[Class.MEMBERSHIP]) == 1


def test_flaw_j_after_a_stall_nobody_is_suspected_and_old_suspicions_wait_on() -> None:
    stage = Stage(*CROWD)
    stage.tell("n1", suspect("n0", "n1", "n2", "n3", "n4"))
    stage.stand_still(10 * MINUTE)
    effects = stage._take(stage.core.tick(stage.now))
    assert of(effects, MemberChanged) == []
    assert stage.status("n0") is MemberStatus.SUSPECT
    assert stage.core._shared.health.score == 1
    assert stage.core._shared.guard.pauses == 1


def test_flaw_k_no_datagram_grows_with_the_cluster() -> None:
    stage = Stage(*[f"n{number}" for number in range(2_000)])
    stage.command(Describe(b"x"))
    sizes = [len(send.message) for send in of(stage.run_for(5 * SECOND), Send)]
    assert max(sizes) <= stage.core._shared.settings.datagram_bytes_max


def test_flaw_k_the_counter_of_life_follows_the_clock_and_not_the_traffic() -> None:
    stage = Stage("a")
    for _ in range(1_000):
        stage.tell("a", alive("a"))
    assert stage.core._shared.me.beat(stage.now_ns) == 1
    stage.run_for(7 * SECOND)
    assert stage.core._shared.me.beat(stage.now_ns) == 8


def test_flaw_l_phi_is_a_probability_in_its_unit() -> None:
    surprise = Stage("a").core._shared.phi
    half_s = 1.1  # the prior's median: half of all refutations take longer
    assert surprise.accusation(int(half_s * SECOND)) == pytest.approx(0.301, abs=0.001)
    assert surprise.accusation(int(10 * half_s * SECOND)) == pytest.approx(3.01, abs=0.01)


def test_flaw_m_losses_spread_over_days_convict_nobody() -> None:
    world = GossipWorld(10, seed=5, conditions=Conditions(loss=0.10))
    world.form()
    failed = failed_views(world)
    world.run_for(10 * MINUTE)
    assert sum(host.core.tally.probes_failed for host in world.hosts) < 20
    assert failed == []


def test_flaw_n_metrics_count_what_was_sent() -> None:
    stage = Stage("a", "b")
    sends = of(stage.run_for(20 * SECOND), Send)
    tally = stage.core.tally
    assert sum(tally.packets_out) == len(sends)
    assert sum(tally.bytes_out) == sum(len(send.message) for send in sends)


# 2.4: what users hit.


def test_complaint_1_one_slow_member_convicts_nobody() -> None:
    world = GossipWorld(32, seed=2)
    world.form()
    failed = failed_views(world)
    for second in range(0, 120, 34):
        world.call(second * SECOND, partial(world.hold, 7))
        world.call((second + 32) * SECOND, partial(world.resume, 7))
    world.run_for(2 * MINUTE)
    assert {name for _observer, name in failed} <= {"m0007"}


def test_complaint_2_a_half_cut_off_member_is_silenced_and_makes_no_storm() -> None:
    world = GossipWorld(32, seed=2)
    world.form()
    failed = failed_views(world)
    world.network.lose_at(7, 0.6)
    world.run_for(2 * MINUTE)
    quiet = world.hosts[3].core.tally
    assert sum(quiet.packets_out) / 120 < 20
    assert {name for _observer, name in failed} <= {"m0007"}
    assert world.hosts[7].core.tally.suspicions_raised <= 6


def test_complaint_3_all_restarted_at_once_are_alive_to_all_within_seconds() -> None:
    world = GossipWorld(40, seed=3)
    world.form()
    for host in world.hosts:
        world.kill(host.index)
    world.run_for(2 * SECOND)
    for host in world.hosts:
        world.start(host.index)
    for host in world.hosts:
        peers = world.random.sample(world.hosts, 3)
        world.command(host.index, Join(tuple(peer.address for peer in peers)))
    world.run_for(10 * SECOND)
    assert all(host.core.membership.counts()[MemberStatus.ALIVE] == 39 for host in world.hosts)


def test_complaint_3_the_first_news_of_a_restart_beats_the_hundredth_verdict_on_the_life_before() -> None:
    stage = Stage("a", "b")
    stage.tell("b", dead("a", "b", incarnation=100))
    stage.tell("b", alive("a", generation=GENERATION + 1))
    assert stage.status("a") is MemberStatus.ALIVE


def test_complaint_4_a_restart_under_another_address_is_the_same_member() -> None:
    stage = Stage("a", "b")
    stage.tell("b", dead("a", "b"))
    moved = claims.alive(profile("a", host="10.7.7.7"), GENERATION + 1, 0)
    (changed,) = of(stage.tell("b", moved), MemberChanged)
    assert (changed.member.address.host, changed.evidence.cause.value) == ("10.7.7.7", "restarted")
    assert len(stage.core._shared.roster) == 2


def test_complaint_4_an_address_taken_by_another_is_no_life_sign_of_the_first() -> None:
    stage = Stage("a", me="new")
    assert stage.packet("a", PacketKind.PING, sequence=1, about=short("old")) == []


def test_complaint_4_a_name_in_use_names_both_sides() -> None:
    stage = Stage("web", "b")
    stage.run_for(31 * SECOND)
    stage.tell("web", claims.alive(profile("web"), GENERATION, 9))
    other = claims.alive(profile("web", node="other"), GENERATION + 1, 0)
    (ping,) = sent(stage.tell("b", other), PacketKind.PING, to="web")
    (seen,) = of(stage.packet("web", PacketKind.ACK, sequence=ping.sequence), ConflictSeen)
    assert (seen.holder.address, seen.newcomer.address) == (profile("web").address, other.profile.address)


def test_complaint_5_who_was_forced_out_does_not_come_back_in_the_same_life() -> None:
    stage = Stage("a", "b")
    stage.stop_probing()
    stage.command(ForceLeave("a"))
    stage.run_for(25 * HOUR)
    assert stage.status("a") is None
    stage.tell("b", claims.alive(profile("a"), GENERATION, 100))
    assert stage.status("a") is None
    stage.tell("b", alive("a", generation=GENERATION + 1))
    assert stage.status("a") is MemberStatus.ALIVE


def test_complaint_6_leaving_again_and_again_is_told_once() -> None:
    stage = Stage("a", "b")
    stage.stop_probing()
    gone = claims.left(short("a"), GENERATION, 0, Departure.LEFT, short("a"))
    stage.tell("a", gone)
    stage.run_for(10 * SECOND)
    for _ in range(100):
        stage.tell("b", gone)
    assert not stage.core._shared.broadcasts


def test_complaint_7_a_graceful_leave_is_seen_as_left_by_all_and_ends_in_time() -> None:
    world = GossipWorld(40, seed=4, conditions=Conditions(loss=0.1))
    world.form()
    done: list[int] = []

    def watch(time_ns: int, _observer: int, effect: object) -> None:
        if isinstance(effect, LeaveDone):
            done.append(time_ns)
            world.kill(5)

    world.watchers.append(watch)
    failed = failed_views(world)
    world.run_for(5 * SECOND)
    world.command(5, Leave())
    world.run_for(30 * SECOND)
    assert done
    assert done[0] < 8 * SECOND
    assert world.views(5) == {MemberStatus.LEFT: 39}
    assert failed == []


def test_complaint_8_another_label_is_not_understood() -> None:
    """The cluster id travels inside and is the composite's; the label keeps datagrams apart before that."""
    header, body = wire.header(short("a"), GENERATION), wire.encode(wire.Packet(PacketKind.GOSSIP))
    assert wire.PlainSeal("dc2").open(header, wire.PlainSeal("dc1").seal(header, body)) is None


def test_complaint_13_an_accusation_without_the_key_changes_nothing() -> None:
    """Installing, using and removing keys is the rim's; what the core owes is to believe nothing unsealed."""
    stage = Stage("a", "b")
    stage.packet("b", PacketKind.GOSSIP, is_authentic=False, claims=[dead("a", "b").encoded])
    assert stage.status("a") is MemberStatus.ALIVE


def test_complaint_14_every_verdict_says_who_accused_by_which_legs_and_at_what_phi() -> None:
    world = GossipWorld(20, seed=6)
    world.form()
    died: list[MemberChanged] = []

    def watch(_time_ns: int, _observer: int, effect: object) -> None:
        if isinstance(effect, MemberChanged) and effect.after and effect.after.status is MemberStatus.FAILED:
            died.append(effect)

    world.watchers.append(watch)
    world.run_for(40 * SECOND)
    world.lose(3)
    world.run_for(20 * SECOND)
    assert len(died) == 19
    for each in died:
        assert each.evidence.accusers
        assert each.evidence.legs == Leg.DIRECT | Leg.INDIRECT | Leg.STREAM | Leg.HOST
        assert 1 < each.evidence.phi <= 3.1
    assert any(each.evidence.parts.accusation > 1 for each in died)


def test_complaint_14_one_way_loss_is_told_apart_from_death() -> None:
    world = GossipWorld(20, seed=6)
    world.form()
    for other in range(1, 20):
        if other % 2:
            world.network.lose_one_way(0, other, 1.0)
    failed = failed_views(world)
    world.run_for(2 * MINUTE)
    assert failed == []
    paths = {
        member.profile.name: member.path.is_direct_ok
        for member in world.hosts[0].core.membership.members()
        if member.path is not None
    }
    assert paths == {f"m{other:04d}": not other % 2 for other in range(1, 20)}


def test_complaint_15_stopped_for_seconds_and_back_nobody_is_called_failed() -> None:
    world = GossipWorld(15, seed=7)
    world.form()
    failed = failed_views(world)
    for number in range(6):
        for index in (2 * number, 2 * number + 1):
            world.call((5 + 10 * number) * SECOND, partial(world.pause, index))
            world.call((8 + 10 * number) * SECOND, partial(world.resume, index))
    world.run_for(75 * SECOND)
    assert failed == []
    assert sum(host.core.membership.condition.pauses for host in world.hosts) == 12


def test_complaint_15_after_a_suspend_the_roster_is_compared_before_anybody_is_accused() -> None:
    stage = Stage(*CROWD)
    stage.stand_still(HOUR)
    effects = stage._take(stage.core.tick(stage.now))
    assert len(of(effects, OpenSync)) >= 1
    assert not stage.core._shared.guard.may_accuse(stage.now_ns + SECOND, short("x"))
    assert [each.note for each in of(stage.run_for(SECOND), Noted)] == []
    assert Note.RAISED not in [each.note for each in of(stage.effects, Noted)]
