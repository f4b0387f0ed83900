from __future__ import annotations

import json

import pytest

from adsum.agent.cli.simulate import SCENARIOS
from adsum.testing.simulate import Scenario
from tests.agent.cli.conftest import Adsum

SMALL = ("-nodes=5", "-minutes=0.3")


def test_the_figures_are_told_in_sentences_and_how_fast_they_came(adsum: Adsum) -> None:
    status, out, err = adsum("simulate", *SMALL)
    lines = out.splitlines()
    assert (status, err) == (0, "")
    assert lines[0] == "5 members, 5% loss, 0.3 minutes of quiet, seed 1"
    assert "false verdicts: 0" in lines
    assert lines[-2].startswith("each member sent ")
    assert lines[-1].startswith("simulated in ")


def test_equal_seeds_give_equal_json_and_others_do_not(adsum: Adsum) -> None:
    runs = [json.loads(adsum("simulate", *SMALL, "-seed", seed, "-o=json").out) for seed in "778"]
    for run in runs:
        assert run.pop("took_s") > 0
    assert runs[0] == runs[1]
    assert runs[0]["digest"] != runs[2]["digest"]
    assert runs[0]["plan"] == {"nodes": 5, "scenario": "quiet", "loss": 0.05, "minutes": 0.3, "seed": 7}


def test_crashes_are_found(adsum: Adsum) -> None:
    run = json.loads(adsum("simulate", "-nodes=30", "-minutes=0.3", "-scenario=crash", "-o=json").out)
    assert run["first_verdict"]["count"] >= 1
    assert run["false_verdicts"] == 0


def test_every_scenario_of_the_simulator_is_offered() -> None:
    assert tuple(each.value for each in Scenario) == SCENARIOS


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-nodes=many"], '-nodes is a whole number from 3 to 10000, not "many"'),
        (["-nodes=2"], "-nodes is a whole number from 3 to 10000, not 2"),
        # Too few would all be down at once, with nobody left to see it.
        (["-scenario=crash", "-nodes=5"], "from 30 to 10000 with -scenario=crash, not 5"),
        (["-loss=5"], "-loss is a number from 0 to 0.9, not 5"),
        (["-minutes=nan"], "-minutes is a number from 0.1 to 1440, not nan"),
        (["-scenario=fire"], "the flag -scenario takes quiet, crash"),
    ],
)
def test_what_cannot_be_simulated_is_told_with_what_can(adsum: Adsum, words: list[str], said: str) -> None:
    status, out, err = adsum("simulate", *words)
    assert (status, out) == (2, "")
    assert said in err
