"""The lattice: any order of news, any number of times, one result."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from adsum.gossip import claims
from adsum.gossip.order import Departure, MemberStatus, Rank, Standing
from tests.gossip.support import GENERATION, Stage, alive, dead, short, suspect

NEWS: list[claims.Claim] = [
    *(alive("a", incarnation=incarnation) for incarnation in range(3)),
    *(alive("a", generation=GENERATION + 1, incarnation=incarnation) for incarnation in range(2)),
    *(suspect("a", "b", incarnation=incarnation) for incarnation in range(3)),
    *(dead("a", "b", incarnation=incarnation) for incarnation in range(3)),
    dead("a", "b", generation=GENERATION + 1),
    claims.left(short("a"), GENERATION, 1, Departure.LEFT, short("a")),
    claims.left(short("a"), GENERATION, 1, Departure.PRUNED, short("b")),
]
told_in_any_order = st.lists(st.sampled_from(NEWS), min_size=1).flatmap(
    lambda told: st.tuples(st.permutations(told), st.permutations([*told, *told]))
)


@given(told_in_any_order)
def test_any_order_of_news_any_number_of_times_gives_one_view(
    orders: tuple[list[claims.Claim], list[claims.Claim]],
) -> None:
    one, other = Stage("a", "b", "c"), Stage("a", "b", "c")
    for claim in orders[0]:
        one.tell("b", claim)
    for claim in orders[1]:
        other.tell("c", claim)
    assert one.member("a").standing == other.member("a").standing
    assert one.core.membership.digest() == other.core.membership.digest()


@given(st.permutations([1_000, 30_000, 5_000, 30_000]))
def test_of_several_restarts_announced_by_one_life_the_longest_counts(durations_ms: list[int]) -> None:
    stage = Stage("a", "b")
    for duration_ms in durations_ms:
        stage.tell("b", claims.restarting(short("a"), GENERATION, duration_ms))
    assert stage.member("a").restarting == (GENERATION, 30_000)


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
