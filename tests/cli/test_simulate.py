from __future__ import annotations

import json

import pytest

from adsum.cli.simulate import SCENARIOS
from adsum.testing.simulate_figures import Scenario
from tests.cli.conftest import Adsum

SMALL = ("-nodes=5", "-minutes=0.3")


def test_the_figures_are_told_in_sentences_and_how_fast_they_came(adsum: Adsum) -> None:
    status, out, err = adsum("simulate", *SMALL)
    lines = out.splitlines()
    assert (status, err) == (0, "")
    assert lines[0] == "5 members, 5% loss, 0.3 minutes of quiet, seed 1"
    assert "false verdicts: 0" in lines
    assert lines[-3].startswith("each member sent ")
    assert lines[-1].startswith("simulated in ")


def test_equal_seeds_give_equal_json_and_others_do_not(adsum: Adsum) -> None:
    runs = [json.loads(adsum("simulate", *SMALL, "-seed", seed, "-o=json").out) for seed in "778"]
    for run in runs:
        assert run.pop("took_s") > 0
    assert runs[0] == runs[1]
    assert runs[0]["digest"] != runs[2]["digest"]
    assert runs[0]["plan"] == {
        "nodes": 5,
        "scenario": "quiet",
        "loss": 0.05,
        "minutes": 0.3,
        "seed": 7,
        "latency": "500µs",
        "jitter": "500µs",
        "mode": "classic",
        "refused_grace": "1s",
        "probe_interval": "1s",
        "probe_timeout": "500ms",
        "gossip_interval": "200ms",
        "gossip_nodes": 3,
        "push_nodes": 5,
        "suspicion_mult": 4,
        "retransmit_mult": 4,
    }


def test_the_keys_of_json_stay(adsum: Adsum) -> None:
    run = json.loads(adsum("simulate", *SMALL, "-o=json").out)
    assert list(run) == [
        *("plan", "seeds", "updates", "update_99", "update_all", "updates_late", "losses"),
        *("verdict_first", "verdict_half", "verdict_99", "verdict_all", "undetected"),
        *("false_verdicts", "false_by_healthy", "false_by_slow", "flaps", "one_view_after_s"),
        *("messages_per_s", "bytes_per_s", "queue_drops", "socket_drops", "events", "digest", "took_s"),
    ]
    assert list(run["verdict_first"]) == ["count", "mean_s", "p95_s", "max_s"]
    assert list(run["bytes_per_s"]) == ["mean", "p99", "max"]


def test_several_seeds_are_told_one_by_one_and_together(adsum: Adsum) -> None:
    lines = adsum("simulate", *SMALL, "-seeds=3-4").out.splitlines()
    assert lines[:2] == ["seed 3: false verdicts 0", "seed 4: false verdicts 0"]
    assert lines[2] == "5 members, 5% loss, 0.3 minutes of quiet, 2 seeds from 3"
    both = json.loads(adsum("simulate", *SMALL, "-seeds=3-4", "-o=jsonl").out)
    assert [run["plan"]["seed"] for run in both["runs"]] == [3, 4]
    assert both["events"] == sum(run["events"] for run in both["runs"])


def test_settings_have_their_names_from_the_configuration(adsum: Adsum) -> None:
    varied = (
        *("-mode=adaptive", "-refused-grace=2s", "-probe-interval=2s", "-probe-timeout=300ms"),
        *("-gossip-interval=100ms", "-gossip-nodes=4", "-suspicion-mult=6", "-retransmit-mult=3"),
        *("-latency=20ms", "-jitter=5ms"),
    )
    plan = json.loads(adsum("simulate", *SMALL, *varied, "-o=json").out)["plan"]
    for word in varied:
        name, _, value = word.removeprefix("-").partition("=")
        assert str(plan[name.replace("-", "_")]) == value


def test_crashes_are_found(adsum: Adsum) -> None:
    run = json.loads(adsum("simulate", "-nodes=30", "-minutes=0.3", "-scenario=crash", "-o=json").out)
    assert run["verdict_first"]["count"] >= 1
    assert run["false_verdicts"] == 0


def test_every_scenario_of_the_simulator_is_offered() -> None:
    assert tuple(each.value for each in Scenario) == SCENARIOS


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-nodes=many"], '-nodes is a whole number from 3 to 10000, not "many"'),
        (["-nodes=2"], "-nodes is a whole number from 3 to 10000, not 2"),
        (["-loss=5"], "-loss is a number from 0 to 0.9, not 5"),
        (["-minutes=nan"], "-minutes is a number from 0.1 to 1440, not nan"),
        (["-seeds=5"], '-seeds are the first and the last, 1-5, not "5"'),
        (["-seeds=5-1"], "-seeds are at least one and at most 100, not 5-1"),
        (["-seeds=1-2", "-seed=3"], "-seed is for one run and -seeds for several"),
        (["-latency=fast"], '-latency is a duration as 500us, 200ms or 1.5s, not "fast"'),
        (["-jitter=11s"], "-jitter is at most 10s, not 11s"),
        (["-refused-grace=-1s"], '-refused-grace is a duration as 500us, 200ms or 1.5s, not "-1s"'),
        (["-gossip-nodes=three"], '-gossip-nodes is a whole number, not "three"'),
        (["-suspicion-mult=0"], "-suspicion-mult must be between 1 and 100, not 0"),
        (["-probe-timeout=1s"], "-probe-timeout must be below gossip_lan.probe_interval, 1s"),
        (["-scenario=fire"], "the flag -scenario takes quiet, crash"),
    ],
)
def test_what_cannot_be_simulated_is_told_with_what_can(adsum: Adsum, words: list[str], said: str) -> None:
    status, out, err = adsum("simulate", *words)
    assert (status, out) == (2, "")
    assert said in err
