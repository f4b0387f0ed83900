from __future__ import annotations

import re

import pytest
from tools.pages import written

from tests.house.rooms import ROOT


@pytest.mark.parametrize("name", ["metrics.md", "command-line.md"])
def test_pages_say_what_the_code_does(name: str) -> None:
    assert (ROOT / "docs" / name).read_text() == written()[name], "run .venv/bin/python tools/pages.py"


def test_metrics_to_watch_are_there_to_be_watched() -> None:
    advice, tables = (ROOT / "docs/metrics.md").read_text().split("## All of ours")
    named = set(re.findall(r"\b(adsum_\w+)", advice))
    assert named
    assert {name for name in named if f"| `{name}` |" not in tables} == set()
