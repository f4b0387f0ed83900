"""Health, guard, counters of life, round trips, coordinates and phi: small parts, each by its numbers."""

from __future__ import annotations

import math
from random import Random

import pytest

from adsum.gossip import coordinates, phi
from adsum.gossip.beats import Beats
from adsum.gossip.claims import UserEvent, user_event
from adsum.gossip.coordinates import Coordinate, Vivaldi
from adsum.gossip.events import TICKS_KEPT, GossipEvents
from adsum.gossip.guard import Guard
from adsum.gossip.health import SCORE_MAX, Health
from adsum.gossip.histogram import Histogram
from adsum.gossip.members import Member, Roster
from adsum.gossip.phi import Phi
from adsum.gossip.rtt import Path, RoundTrips
from adsum.now import HOUR, MILLISECOND, MINUTE, SECOND, Now
from tests.gossip.support import alive, short

# Health.


def test_missing_nacks_cost_health_and_nacks_that_came_do_not() -> None:
    health = Health()
    health.probe_failed(nacks_expected=3, nacks_received=3)
    assert health.score == 0
    health.probe_failed(nacks_expected=3, nacks_received=1)
    assert health.score == 2
    health.probe_failed(nacks_expected=0, nacks_received=0)
    assert (health.score, health.multiplier) == (3, 4)


def test_health_stays_within_its_bounds() -> None:
    health = Health()
    health.probe_answered()
    assert health.score == 0
    for _ in range(20):
        health.had_to_refute()
    assert health.score == SCORE_MAX


# Guard.


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


# Counters of life.


def beating(beats: Beats, member: Member, *, seconds: int, delay_ns: int = 0) -> None:
    for second in range(1, seconds + 1):
        beats.hear(second * SECOND + delay_ns, member, second)


def test_only_increases_count() -> None:
    beats, member = Beats(SECOND), Member(alive("a"), 0)
    beats.hear(10 * SECOND, member, 10)
    beats.hear(12 * SECOND, member, 10)
    beats.hear(13 * SECOND, member, 9)
    assert (member.beat, beats.advances) == (10, 1)
    assert beats.age_s(13 * SECOND, member) == 3


def test_a_backlog_of_old_counters_does_not_make_a_member_look_alive() -> None:
    beats, member = Beats(SECOND), Member(alive("a"), 0)
    beating(beats, member, seconds=10)
    beats.hear(40 * SECOND, member, 11)  # sent at 11 s, and held up for 29
    assert beats.age_s(40 * SECOND, member) == 29


def test_a_counter_emitted_after_my_probe_proves_life() -> None:
    beats, member = Beats(SECOND), Member(alive("a"), 0)
    beating(beats, member, seconds=10, delay_ns=20 * MILLISECOND)
    assert not beats.has_beaten_since(9 * SECOND + 500 * MILLISECOND, member)
    beats.hear(12 * SECOND, member, 11)
    beats.hear(12 * SECOND, member, 12)
    assert beats.has_beaten_since(10 * SECOND + 500 * MILLISECOND, member)


def test_counters_go_out_freshest_first_and_least_told_first() -> None:
    beats, roster = Beats(SECOND), Roster(Random(1), members_max=99)
    for name in ("a", "b", "c"):
        roster.add(Member(alive(name), 0))
        beats.hear(SECOND, roster.by_name[name], 1)
    first = beats.pack(14 * 2)
    assert [first[start : start + 8] for start in (0, 14)] == [short("c"), short("b")]
    assert beats.pack(14)[:8] == short("a")


def test_counters_of_another_life_are_not_taken() -> None:
    roster, beats = Roster(Random(1), members_max=99), Beats(SECOND)
    roster.add(Member(alive("a", generation=7), 0))
    other = Roster(Random(1), members_max=99)
    other.add(Member(alive("a", generation=8), 0))
    beats.hear(SECOND, other.by_name["a"], 99)
    Beats(SECOND).hear_all(SECOND, roster, beats.pack(1_000))
    assert roster.by_name["a"].beat == 0


def test_schedule_phi_rises_with_age_beyond_what_others_show() -> None:
    beats = Beats(SECOND)
    peers = [Member(alive(f"n{number}"), 0) for number in range(40)]
    for second in range(1, 120):
        for number, peer in enumerate(peers[1:]):
            if (second + number) % 6 == 0:
                beats.hear(second * SECOND, peer, second)
        beats.sample(second * SECOND, peers[1:9])
    beats.hear(60 * SECOND, peers[0], 60)
    values = [beats.phi(second * SECOND, peers[0]) for second in (61, 70, 90, 119)]
    assert values == sorted(values)
    assert values[0] < 1
    assert values[-1] > 3


# Histograms, round trips, coordinates.


def test_a_quantile_is_right_within_a_bin() -> None:
    histogram, random = Histogram(1e-4, 10, 10 * MINUTE), Random(1)
    for _ in range(5_000):
        histogram.add(0, random.expovariate(1.0))
    assert histogram.quantile(0.5) == pytest.approx(math.log(2), rel=0.25)
    assert histogram.quantile(0.99) == pytest.approx(math.log(100), rel=0.25)
    assert histogram.survival(1.0) == pytest.approx(math.exp(-1), abs=0.08)
    assert 0 < histogram.survival(40.0) < 1e-3


def test_old_samples_fade_by_half_lives() -> None:
    histogram = Histogram(1e-4, 10, MINUTE)
    for _ in range(100):
        histogram.add(0, 0.001)
    for _ in range(10):
        histogram.add(20 * MINUTE, 1.0)
    assert histogram.quantile(0.5) > 0.9
    histogram.add(100 * MINUTE, 1.0)
    assert histogram.quantile(0.01) > 0.9


def test_helpers_are_asked_at_the_measured_99th_percentile() -> None:
    trips, path = RoundTrips(Vivaldi(Random(1))), Path()
    assert trips.indirect_after_ns(path, 500 * MILLISECOND) == 500 * MILLISECOND
    for number in range(200):
        trips.observe(number * SECOND, path, 20 * MILLISECOND + number % 10 * MILLISECOND)
    assert 25 * MILLISECOND < trips.indirect_after_ns(path, 500 * MILLISECOND) < 60 * MILLISECOND
    for number in range(200):
        trips.observe((200 + number) * SECOND, path, MILLISECOND // 2)
    assert trips.indirect_after_ns(path, 500 * MILLISECOND) >= 10 * MILLISECOND


def test_coordinates_learn_distances() -> None:
    places = [(0.0, 0.0), (0.04, 0.0), (0.0, 0.03), (0.04, 0.03)]
    nodes = [Vivaldi(Random(20 + number)) for number in range(4)]
    random = Random(2)
    for _ in range(4_000):
        one, other = random.sample(range(4), 2)
        nodes[one].observe(nodes[other].here, math.dist(places[one], places[other]) + 0.001)
    for one in range(4):
        for other in range(one):
            expected = math.dist(places[one], places[other]) + 0.001
            assert nodes[one].here.distance_s(nodes[other].here) == pytest.approx(expected, rel=0.15)
    assert all(node.is_converged for node in nodes)


def test_a_coordinate_travels_in_44_bytes_and_nonsense_is_refused() -> None:
    coordinate = Coordinate((0.5,) * 8, 0.25, 0.125, 0.0625)
    assert coordinates.unpack(coordinate.pack()) == coordinate
    assert len(coordinate.pack()) == 44
    assert coordinates.unpack(b"") is None
    assert coordinates.unpack(Coordinate((math.nan,) * 8).pack()) is None
    assert coordinates.unpack(Coordinate((math.inf,) * 8).pack()) is None
    assert coordinates.unpack(Coordinate((1e6,) * 8).pack()) is None


@pytest.mark.parametrize("rtt_s", [-1.0, 0.0, 10.1, math.nan])
def test_an_impossible_round_trip_moves_nothing(rtt_s: float) -> None:
    vivaldi = Vivaldi(Random(1))
    vivaldi.observe(Coordinate(), rtt_s)
    assert vivaldi.here == Coordinate()
    assert vivaldi.rejected == 1


# Phi.


def test_one_observers_cycle_is_worth_no_more_than_three_however_many_legs_failed() -> None:
    assert Phi().challenge([0.02] * 1, 0) == pytest.approx(1.68, abs=0.02)
    assert Phi().challenge([0.02] * 5, 0) == pytest.approx(3.0, abs=0.01)
    assert Phi().challenge([0.02] * 5, 7) < 1.0


def test_accusation_phi_rises_as_the_refutation_stays_out() -> None:
    values = [Phi().accusation(seconds * SECOND) for seconds in (0, 2, 5, 10)]
    assert values == sorted(values)
    assert values[0] == 0
    assert values[-1] > 2


def test_the_adaptive_wait_is_what_pauses_ask_for_and_falls_by_a_tenth_an_hour() -> None:
    surprise = Phi()
    for number in range(999):
        surprise.refuted(number, SECOND)
    assert surprise.adaptive_min_ns(0, 3 * SECOND, 12 * SECOND) == 12 * SECOND
    surprise.refuted(999, 5 * SECOND)
    first_ns = surprise.adaptive_min_ns(SECOND, 3 * SECOND, 12 * SECOND)
    assert first_ns == 12 * SECOND
    after_ns = surprise.adaptive_min_ns(HOUR + SECOND, 3 * SECOND, 12 * SECOND)
    assert after_ns == pytest.approx(12 * SECOND * 0.9, rel=0.001)
    for hour in range(2, 20):
        after_ns = surprise.adaptive_min_ns(hour * HOUR, 3 * SECOND, 12 * SECOND)
    assert after_ns == 5 * SECOND


def test_news_takes_a_second_at_a_thousand_members() -> None:
    assert phi.push_time_s(10) == pytest.approx(0.49, abs=0.01)
    assert phi.push_time_s(1_000) == pytest.approx(1.46, abs=0.01)
    assert phi.floor_ns(10, SECOND) == 3 * SECOND
    assert phi.floor_ns(1_000, SECOND) == pytest.approx(3.9 * SECOND, rel=0.02)


# User events.

NOW = Now(1_000 * SECOND, 0)


def event(clock: int, number: int = 1, origin: str = "a") -> UserEvent:
    return user_event(short(origin), clock, number, "deploy", b"")


def test_an_event_is_new_once() -> None:
    events = GossipEvents()
    assert events.is_new(NOW, event(5))
    assert not events.is_new(NOW, event(5))
    assert events.is_new(NOW, event(5, number=2))
    assert events.is_new(NOW, event(5, origin="b"))
    assert (events.clock, events.duplicates) == (6, 1)


def test_events_older_than_the_memory_are_taken_as_heard() -> None:
    events = GossipEvents()
    events.is_new(NOW, event(TICKS_KEPT + 100))
    assert not events.is_new(NOW, event(50))
    assert events.dropped == 1


def test_the_memory_of_events_is_bounded() -> None:
    events = GossipEvents()
    for clock in range(5_000):
        for number in range(3):
            events.is_new(Now(clock * SECOND, 0), event(clock, number))
    assert len(events._heard) == TICKS_KEPT
    for number in range(1_000):
        events.is_new(Now((5_000 + number) * SECOND, 0), event(5_000, number))
    assert max(map(len, events._heard.values())) == 64


def test_an_origin_fires_only_so_many_at_once_and_a_second_and_others_are_heard_meanwhile() -> None:
    events = GossipEvents()
    taken = [events.is_new(NOW, event(clock)) for clock in range(1, 200)]
    assert taken.count(True) == 128
    assert events.is_new(NOW, event(1, origin="b"))
    later = Now(NOW.monotonic_ns + SECOND, 0)
    assert [events.is_new(later, event(clock)) for clock in range(300, 320)].count(True) == 16


def test_all_origins_together_fire_only_so_many() -> None:
    events = GossipEvents()
    taken = [events.is_new(NOW, event(clock, origin=str(clock // 10))) for clock in range(1, 1_000)]
    assert taken.count(True) == 512


def test_an_event_beyond_the_rate_moves_no_clock() -> None:
    events = GossipEvents()
    for clock in range(1, 200):
        events.is_new(NOW, event(clock))
    assert events.clock == 129
