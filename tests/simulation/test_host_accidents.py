"""A few seeds of each accident; `make soak` runs a thousand."""

from __future__ import annotations

import pytest

from adsum.clocks import Clocks
from adsum.gossip.claim_merger import ClaimMerger
from adsum.gossip.claims import Alive
from adsum.gossip.members import Member
from adsum.gossip.rivals import Rivals
from adsum.gossip.source import Source
from adsum.now import SECOND, Now
from adsum.testing.host_accidents import Accident, run

SEEDS = range(5)
SEEDS_TO_FIND_A_DEFECT = range(20)


@pytest.mark.parametrize("accident", Accident, ids=lambda accident: accident.name.lower())
@pytest.mark.parametrize("seed", SEEDS)
def test_some_time_after_the_last_accident_all_who_run_are_alive_to_all_and_every_service_is_visible(
    accident: Accident, seed: int
) -> None:
    assert run(accident, seed).problems == ()


def test_one_whose_date_is_days_ahead_is_known_soon_though_most_it_joined_by_had_that_date_too() -> None:
    """It took 153 s: three exchanges with others, and at the usual pace there is one in half a minute."""
    settled_ns = run(Accident.CLOCKS, 250920641032).settled_ns
    assert settled_ns is not None
    assert settled_ns < 20 * SECOND


def test_one_seed_of_accidents_is_one_run() -> None:
    assert run(Accident.STORM, 1).digest == run(Accident.STORM, 1).digest != run(Accident.STORM, 2).digest


def is_found(*accidents: Accident, seeds: range = SEEDS_TO_FIND_A_DEFECT) -> bool:
    return any(run(each, seed).problems for seed in seeds for each in accidents)


def test_it_is_found_when_the_corpse_of_a_reborn_host_has_its_name_for_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As it was once: who was met within half a minute gave way to the older life, and was barred."""

    def beats(self: Rivals, now: Now, told: Alive, holder: Member, source: Source, *, is_gone: bool) -> bool:
        is_new_here = now.monotonic_ns - holder.known_since_ns <= 30_000_000_000
        gives_way = is_new_here and told.standing.generation < holder.standing.generation
        if gives_way:
            self.shared.roster.remember_reaped(holder, holder.standing)
        return gives_way or not holder.standing.is_present

    monkeypatch.setattr(Rivals, "_beats", beats)
    assert is_found(Accident.ROLLING, Accident.STORM)


def test_it_is_found_when_the_old_life_of_a_renamed_host_keeps_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accept = ClaimMerger._accept

    def accept_or_keep(self: ClaimMerger, now: Now, member: Member, told: Alive, source: Source) -> None:
        accept(self, now, member, told, source._replace(is_member=False))

    monkeypatch.setattr(ClaimMerger, "_accept", accept_or_keep)
    assert is_found(Accident.NAMES, seeds=range(258, 266))  # one in some hundred shows it


def test_it_is_found_when_everybody_believes_its_own_clock_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clocks, "hear", lambda *_: None)
    assert is_found(Accident.CLOCKS)
