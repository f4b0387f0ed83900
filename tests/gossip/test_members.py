from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from adsum.gossip import members
from adsum.gossip.members import Member, Roster
from adsum.gossip.order import MemberStatus, Rank
from tests.gossip.support import alive, dead, profile


def roster_of(*names: str) -> Roster:
    roster = Roster(Random(1), members_max=1_000)
    for name in names:
        roster.add(Member(alive(name), 0))
    return roster


def die(roster: Roster, name: str, now_ns: int = 0) -> Member:
    member = roster.by_name[name]
    roster.move(member, member.standing._replace(rank=Rank.DEAD), now_ns)
    return member


def lap(roster: Roster, count: int) -> list[str]:
    targets = [roster.next_target() for _ in range(count)]
    return [target.profile.name for target in targets if target is not None]


def test_each_lap_probes_everybody_once_and_is_shuffled_anew() -> None:
    names = [f"n{number}" for number in range(20)]
    roster = roster_of(*names)
    laps = [lap(roster, 20) for _ in range(4)][1:]
    assert all(sorted(each) == sorted(names) for each in laps)
    assert laps[0] != laps[1] != laps[2]


def test_a_newcomer_waits_at_most_for_the_rest_of_the_lap() -> None:
    places = Counter[int]()
    for seed in range(200):
        roster = roster_of("a", "b", "c", "d")
        roster._random = Random(seed)
        lap(roster, 6)
        roster.add(Member(alive("new"), 0))
        places[lap(roster, 3).index("new")] += 1
    assert set(places) == {0, 1, 2}
    assert min(places.values()) > 40


def test_the_dead_are_not_probed_and_the_returned_are() -> None:
    roster = roster_of("a", "b", "c")
    member = die(roster, "b")
    assert "b" not in lap(roster, 10)
    roster.move(member, member.standing._replace(incarnation=1, rank=Rank.ALIVE), 0)
    assert Counter(lap(roster, 9))["b"] >= 2


def test_random_peers_are_distinct_present_and_without_the_one_in_question() -> None:
    roster = roster_of(*[f"n{number}" for number in range(10)])
    besides = roster.by_name["n0"]
    die(roster, "n1")
    for _ in range(50):
        picked = [member.profile.name for member in roster.pick(3, besides=besides)]
        assert len(set(picked)) == 3
        assert not {"n0", "n1"} & set(picked)
    assert len(roster_of("a").pick(3)) == 1
    assert Roster(Random(1), members_max=9).pick(3) == []


def test_where_there_are_no_more_than_wanted_nobody_is_left_out_by_luck() -> None:
    roster = roster_of("a", "b", "c")
    picks = [tuple(member.profile.name for member in roster.pick(3)) for _ in range(1_000)]
    assert {frozenset(pick) for pick in picks} == {frozenset("abc")}
    assert len(set(picks)) == 6


def test_names_are_one_whatever_their_case() -> None:
    roster = roster_of("Web-1")
    assert roster.by_name_of("wEB-1") is roster.members[profile("Web-1").node_id]


def test_counts_and_digest_follow_every_move() -> None:
    roster = roster_of("a", "b")
    before = roster.digest
    member = die(roster, "a")
    assert (roster.present, roster.counts[MemberStatus.ALIVE], roster.counts[MemberStatus.FAILED]) == (
        1,
        1,
        1,
    )
    assert roster.digest != before
    roster.remove(member)
    assert roster.digest == roster_of("b").digest
    assert roster_of("a", "b").digest == roster_of("b", "a").digest


def test_tombstones_are_reaped_at_their_time_and_how_they_stood_is_remembered() -> None:
    roster = roster_of("a", "b")
    member = die(roster, "a")
    roster.reap_at(member, 100)
    assert roster.reap(99) == []
    assert roster.reap(100) == [member]
    assert profile("a").node_id not in roster.members
    assert roster.reaped == {profile("a").node_id: member.standing}


def test_who_returns_is_not_reaped() -> None:
    roster = roster_of("a")
    member = die(roster, "a")
    roster.reap_at(member, 100)
    roster.move(member, member.standing._replace(incarnation=1, rank=Rank.ALIVE), 50)
    assert roster.reap(1_000) == []


def test_what_is_remembered_of_strangers_and_of_the_reaped_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(members, "REAPED_MAX", 3)
    monkeypatch.setattr(members, "FORGOTTEN_MAX", 3)
    monkeypatch.setattr(members, "UNINTRODUCED_MAX", 3)
    roster = Roster(Random(1), members_max=1_000)
    for number in range(10):
        roster.remember_reaped(Member(alive(f"n{number}"), 0), alive(f"n{number}").standing)
        roster.remember_forgotten(Member(alive(f"n{number}"), 0), 1)
        roster.keep_verdict(dead(f"n{number}", "x"))
    assert list(roster.reaped) == [profile(f"n{number}").node_id for number in (7, 8, 9)]
    assert list(roster.forgotten) == list(roster.reaped)
    assert len(roster.verdicts) == 3


def test_whoever_is_met_again_is_not_forgotten() -> None:
    roster = roster_of()
    member = Member(alive("a"), 0)
    roster.remember_forgotten(member, 1)
    roster.add(member)
    assert roster.forgotten == {}


def test_of_two_verdicts_about_a_stranger_the_greater_is_kept() -> None:
    roster = roster_of()
    roster.keep_verdict(dead("a", "x", incarnation=5))
    roster.keep_verdict(dead("a", "x", incarnation=3))
    assert [verdict.standing.incarnation for verdict in roster.verdicts.values()] == [5]
