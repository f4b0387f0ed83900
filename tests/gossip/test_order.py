"""The lattice: any order of news, any number of times, one result."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from adsum.gossip.order import Departure, MemberStatus, News, Rank, Restarting, Standing, merge

standings = st.builds(
    Standing,
    generation=st.integers(0, 3),
    departure=st.sampled_from(Departure),
    incarnation=st.integers(0, 3),
    rank=st.sampled_from(Rank),
)
news = st.builds(
    News, standings, st.builds(Restarting, generation=st.integers(0, 3), duration_ms=st.integers(0, 3))
)


@given(news, news)
def test_merging_is_commutative(one: News, other: News) -> None:
    assert merge(one, other) == merge(other, one)


@given(news)
def test_merging_is_idempotent(one: News) -> None:
    assert merge(one, one) == one


@given(news, news, news)
def test_merging_is_associative(one: News, two: News, three: News) -> None:
    assert merge(merge(one, two), three) == merge(one, merge(two, three))


def test_one_incarnation_goes_from_alive_over_suspect_to_dead() -> None:
    alive, suspect, dead = (Standing(1, 0, 5, rank) for rank in Rank)
    assert alive < suspect < dead


def test_a_refutation_beats_the_verdict_and_a_restart_beats_both() -> None:
    dead, refuted, restarted = Standing(1, 0, 5, 2), Standing(1, 0, 6, 0), Standing(2, 0, 0, 0)
    assert dead < refuted < restarted


def test_leaving_is_final_for_its_generation_only() -> None:
    left = Standing(1, Departure.LEFT, 0, Rank.DEAD)
    assert Standing(1, 0, 99, Rank.DEAD) < left < Standing(2, 0, 0, Rank.ALIVE)
    assert left < Standing(1, Departure.PRUNED, 0, Rank.DEAD)


def test_standings_have_the_names_people_use() -> None:
    assert Standing(1, 0, 0, Rank.DEAD).status is MemberStatus.FAILED
    assert Standing(1, Departure.PRUNED, 0, Rank.DEAD).status is MemberStatus.LEFT
    assert Standing(1, 0, 0, Rank.SUSPECT).is_present
    assert not Standing(1, 0, 0, Rank.DEAD).is_present
