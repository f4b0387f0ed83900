"""Small promises that nobody should have to look for in a review."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.house.rooms import IMPORT_ROOTS, ROOT

LINES_MAX = 550  # past it, look for a second noun
LINES_WITHOUT_IDEA_MAX = 80  # a short one shows its idea by itself
SLEEP = re.compile(r"\btime\.sleep\(")  # trio's sleep passes at once under autojump_clock
MAY_SLEEP = ("bench", "conformance", "system")  # they wait for other processes, which have no clock of ours
LATER = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")
MACHINE_PATH = re.compile(r"/(?:root|work|home/\w+)/")


def ours() -> list[Path]:
    """What git tracks or would."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [ROOT / name for name in names if (ROOT / name).is_file() and ROOT / name != Path(__file__)]


def named(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def product() -> list[Path]:
    return [path for root in IMPORT_ROOTS for path in sorted(root.rglob("*.py"))]


def test_modules_hold_one_noun_and_not_two() -> None:
    assert named([path for path in product() if len(path.read_text().splitlines()) > LINES_MAX]) == []


def test_modules_open_with_their_idea() -> None:
    texts = {path: path.read_text() for path in product()}
    longer = [path for path, text in texts.items() if len(text.splitlines()) > LINES_WITHOUT_IDEA_MAX]
    assert named([path for path in longer if not texts[path].startswith('"""')]) == []


@pytest.mark.parametrize("what", [LATER, MACHINE_PATH], ids=["put off until later", "paths of one machine"])
def test_no_file_holds(what: re.Pattern[str]) -> None:
    texts = [path for path in ours() if path.suffix in {".py", ".md", ".toml", ".service", ".conf", ""}]
    assert named([path for path in texts if what.search(path.read_text())]) == []


def test_tests_do_not_sleep() -> None:
    rooms = [folder for folder in (ROOT / "tests").iterdir() if folder.name not in MAY_SLEEP]
    tests = [path for room in rooms for path in room.rglob("*.py") if path != Path(__file__)]
    assert named([path for path in tests if SLEEP.search(path.read_text())]) == []


ELSEWHERE = re.compile(r"\bARCHITECTURE\b|\b[Cc]ontract \d|\bstore-design\b|\breference/")


def test_no_file_refers_to_a_page_that_is_not_in_the_repository() -> None:
    texts = [path for path in ours() if path.suffix in {".py", ".md", ".toml", ".service", ".conf", ""}]
    assert named([path for path in texts if ELSEWHERE.search(path.read_text())]) == []
