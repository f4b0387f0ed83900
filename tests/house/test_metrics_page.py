from __future__ import annotations

import re

from tools.metrics_page import filled

from tests.house.rooms import ROOT

PAGE = (ROOT / "docs/metrics.md").read_text()


def test_tables_are_what_the_code_counts() -> None:
    assert filled(PAGE) == PAGE, "run .venv/bin/python tools/metrics_page.py"


def test_what_to_watch_is_there_to_be_watched() -> None:
    advice, tables = PAGE.split("## All of ours")
    named = set(re.findall(r"\b(adsum_\w+)", advice))
    assert named
    assert {name for name in named if f"| `{name}` |" not in tables} == set()
