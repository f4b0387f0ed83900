"""docs/configuration.md is written by hand, for its sentences; its facts are the table's."""

from __future__ import annotations

import re

from adsum.config.keys import KEYS, Fate
from adsum.config.table import TABLE
from tests.house.rooms import ROOT

PAGE = (ROOT / "docs/configuration.md").read_text()
ROW = re.compile(r"^\| `([\w.]+)` \| (?:`(.*?)`)? ?\| (yes )?\| (.+) \|$", re.MULTILINE)
DEFAULTS = {name: default for name, _, default, _ in (line.split() for line in TABLE.split("\n") if line)}


def test_every_supported_key_is_explained_and_no_other() -> None:
    explained = [name for name, *_ in ROW.findall(PAGE)]
    assert sorted(explained) == sorted(name for name, key in KEYS.items() if key.fate.is_supported)


def test_defaults_are_those_in_force() -> None:
    shown = {name: default or "-" for name, default, *_ in ROW.findall(PAGE)}
    assert shown == {name: DEFAULTS[name] for name in shown}


def test_keys_that_a_reload_applies_are_marked() -> None:
    marked = {name for name, _, reload, _ in ROW.findall(PAGE) if reload}
    assert marked == {name for name, key in KEYS.items() if key.fate is Fate.RELOAD}


def test_keys_that_stop_a_start_are_all_named() -> None:
    last_section = PAGE.split("## Keys that stop a start")[1]
    named = set(re.findall(r"`([\w.]+)`", last_section))
    assert named == {name for name, key in KEYS.items() if key.fate is Fate.PROTECTS}
