"""Boards ask for series that there are, in a language that Prometheus understands."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.boards import written

from tests.deploy.exposed import faults, series
from tests.deploy.promql import read
from tests.house.rooms import ROOT

FOLDER = ROOT / "deploy" / "grafana"
BOARDS = sorted(FOLDER.glob("*.json"))
# What Grafana puts in for its variables.
FILLED = {"$job": "adsum", "$instance": ".+", "$__rate_interval": "1m", "$__interval": "1m"}


def filled(expr: str) -> str:
    for variable, value in FILLED.items():
        expr = expr.replace(variable, value)
    return expr


def queries(board: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Every expression, with whose it is."""
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], filled(target["expr"])
    for annotation in board["annotations"]["list"]:
        yield annotation["name"], filled(annotation["expr"])


def asked() -> list[tuple[str, str]]:
    return [query for path in BOARDS for query in queries(json.loads(path.read_text()))]


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.name)
def test_boards_are_as_they_were_written(path: Path) -> None:
    assert path.read_text() == written()[path.name], "run .venv/bin/python -m tools.boards"


@pytest.mark.parametrize(("title", "expr"), asked())
def test_a_panel_asks_for_series_that_there_are(title: str, expr: str) -> None:
    assert faults(read(expr), series()) == []


def test_prometheus_understands_every_query(debian_tool: Callable[[str], str], tmp_path: Path) -> None:
    rules = [{"record": f"q:{number}", "expr": expr} for number, (_, expr) in enumerate(asked())]
    path = tmp_path / "queries.yml"
    path.write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}))  # JSON is YAML
    command = [debian_tool("promtool"), "check", "rules", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.name)
def test_a_board_is_for_any_data_source_and_any_agent(path: Path) -> None:
    board = json.loads(path.read_text())
    names = [variable["name"] for variable in board["templating"]["list"]]
    assert names == ["datasource", "job", "instance"]
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]
    assert {panel["datasource"]["uid"] for panel in panels} == {"${datasource}"}
    exprs = [target["expr"] for panel in panels for target in panel["targets"]]
    assert [expr for expr in exprs if 'job="$job", instance=~"$instance"' not in expr] == []


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.name)
def test_panels_have_titles_sentences_units_and_places_of_their_own(path: Path) -> None:
    panels = json.loads(path.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        if panel["type"] != "row":
            assert panel["description"].endswith(".")
            assert panel["fieldConfig"]["defaults"]["unit"]
    taken = [place for panel in panels for place in places(panel["gridPos"])]
    assert len(set(taken)) == len(taken), "two panels lie on each other"
    assert max(x for x, _ in taken) < 24


def places(grid: dict[str, int]) -> Iterator[tuple[int, int]]:
    for x in range(grid["x"], grid["x"] + grid["w"]):
        for y in range(grid["y"], grid["y"] + grid["h"]):
            yield x, y
