from __future__ import annotations

import pytest

from adsum.clocks import CLOCKS_HEARD_MAX, GENERATION_AHEAD_MS_MAX, Clocks
from adsum.now import HOUR, MILLISECOND, SECOND, Now

DATE = 1_795_000_000_000
DAY_MS = 24 * HOUR // MILLISECOND


def at(seconds: int = 0, ahead_ms: int = 0) -> Now:
    return Now(seconds * SECOND, DATE + 1_000 * seconds + ahead_ms)


def compared(own_ahead_ms: int, *others_ms: int) -> Clocks:
    clocks = Clocks()
    for number, ahead_ms in enumerate(others_ms):
        clocks.hear(at(ahead_ms=own_ahead_ms), number, DATE + ahead_ms)
    return clocks


@pytest.mark.parametrize(
    ("own", "others", "ahead"),
    [
        (0, (), 0),
        (-3 * DAY_MS, (0,), -3 * DAY_MS),
        (3 * DAY_MS, (0,), 3 * DAY_MS),
        (0, (0, 3 * DAY_MS), 0),
        (0, (0, -3 * DAY_MS), 0),
        (3 * DAY_MS, (0, 0), 3 * DAY_MS),
        (-3 * DAY_MS, (0, 0, 10), -3 * DAY_MS),
        (0, (10, 20, 3 * DAY_MS, -3 * DAY_MS, 5), -10),
    ],
)
def test_the_median_with_ones_own_among_it_is_what_most_believe(
    own: int, others: tuple[int, ...], ahead: int
) -> None:
    assert compared(own, *others).ahead_ms(at(ahead_ms=own)) == ahead


def test_a_step_of_ones_own_date_shows_at_once() -> None:
    clocks = compared(0, 0, 0)
    assert clocks.ahead_ms(at(60)) == 0
    assert clocks.ahead_ms(at(60, ahead_ms=-7_200_000)) == -7_200_000


def test_of_two_that_disagree_the_later_date_keeps_nobody_out() -> None:
    assert compared(0, -3 * DAY_MS).date_ms(at()) == DATE
    assert compared(0, 3 * DAY_MS).date_ms(at()) == DATE + 3 * DAY_MS


def test_with_two_others_most_decide() -> None:
    assert compared(3 * DAY_MS, 0, 0).date_ms(at(ahead_ms=3 * DAY_MS)) == DATE


def test_the_last_that_were_heard_are_kept_one_a_member() -> None:
    clocks = compared(0, *range(100))
    clocks.hear(at(), 99, DATE)
    assert clocks.others == CLOCKS_HEARD_MAX


def test_of_one_host_a_few_count_however_many_ports_it_has() -> None:
    clocks = Clocks()
    for number in range(20):
        clocks.hear(at(), ("10.0.0.1", number), DATE)
    for number in range(100):
        clocks.hear(at(), ("10.0.0.66", number), DATE + 365 * DAY_MS, "10.0.0.66")
    assert (clocks.others, clocks.ahead_ms(at())) == (24, 0)


def test_a_generation_a_day_ahead_is_not_believed() -> None:
    clocks = compared(0)
    assert not clocks.is_ahead(at(), DATE + GENERATION_AHEAD_MS_MAX)
    assert clocks.is_ahead(at(), DATE + GENERATION_AHEAD_MS_MAX + 1)


def test_who_lost_its_date_judges_nobody() -> None:
    assert not Clocks(build_wall_ms=DATE).is_ahead(at(), DATE + 30 * DAY_MS)


def test_where_most_have_started_with_a_wrong_clock_theirs_is_the_measure() -> None:
    generations = [DATE + 3 * DAY_MS] * 3 + [DATE] * 2
    clocks = Clocks(0, lambda: generations)
    assert not clocks.is_ahead(at(), DATE + 4 * DAY_MS)
    assert clocks.is_ahead(at(), DATE + 4 * DAY_MS + 1)


def test_the_roster_is_looked_at_once_in_five_seconds_whatever_is_told() -> None:
    looks = []

    def generations() -> list[int]:
        looks.append(1)
        return [DATE]

    clocks = Clocks(0, generations)
    for number in range(1_000):
        clocks.is_ahead(at(4), DATE + 30 * DAY_MS + number)
    assert len(looks) == 1
    clocks.is_ahead(at(9), DATE + 30 * DAY_MS)
    assert len(looks) == 2
