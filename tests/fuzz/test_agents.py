"""Hostile values through every door of three real agents, for as long as `make test` can spare.

The seed stays the same, so that a failure is no accident of the day; `make fuzz MINUTES=60` draws others.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.campaign import Campaign
from tests.fuzz.cluster import attacked
from tests.fuzz.figures import Figures
from tests.fuzz.shrinking import EXAMPLES, example, replay
from tests.fuzz.slices import claims_alone

SEED = "20261119"
SLICES = 7
CLAIMS, CLAIMS_AT_ONCE = 1_800, 600
FOLDERS = 6


@pytest.mark.parametrize("is_sealed", [False, True], ids=["plaintext", "sealed"])
def test_no_input_at_any_door_harms_an_agent(is_sealed: bool, figures: Figures) -> None:
    campaign = Campaign(f"{SEED}-{is_sealed}", figures=figures)
    with attacked(is_sealed=is_sealed) as cluster:
        for number in range(SLICES):
            went_well = campaign.slice(cluster, is_sealed=is_sealed)
            assert went_well, str(campaign.failures[0])
            if number == 0:
                cluster.settle()
        figures.add(cluster)
        cluster.end()


def test_whatever_claim_is_told_to_whichever_agent_all_of_them_live(figures: Figures) -> None:
    """Told on among them, kept, and acted upon: its address is tried by everybody."""
    with attacked(is_sealed=False) as cluster:
        for first in range(0, CLAIMS, CLAIMS_AT_ONCE):
            cluster.send_all(claims_alone(f"{SEED}/{first}", first, CLAIMS_AT_ONCE))
            cluster.look_later()
        figures.add(cluster)
        cluster.end()


def test_no_saved_file_ends_an_agent_but_with_a_sentence(figures: Figures) -> None:
    campaign = Campaign(SEED, figures=figures)
    for _ in range(FOLDERS):
        campaign.folder()
    assert [str(failure) for failure in campaign.failures] == []
    assert figures.starts > FOLDERS // 2


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.jsonl")), ids=lambda path: path.stem)
def test_what_once_harmed_an_agent_does_not_any_more(path: Path) -> None:
    replay(example(path))
