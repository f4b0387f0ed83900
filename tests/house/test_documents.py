"""What the documents promise about each other and about the code."""

from __future__ import annotations

import ast
import re
from datetime import date
from pathlib import Path

import pytest

from tests.house.rooms import IMPORT_ROOTS, ROOT

FOLDERS = [ROOT / "docs", ROOT / "deploy"]
DOCUMENTS = [*ROOT.glob("*.md"), *(page for folder in FOLDERS for page in sorted(folder.rglob("*.md")))]
ANCHORED_LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]*)#?([^)\s]*)\)")
LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
DEVIATION = re.compile(r"^\| (D\d+) \| (.+) \| (.+) \| (.+) \| `(tests/[\w/]+\.py)::(\w+)` \|$")
DEVIATION_ID = re.compile(r"^\| D(\d+) \|", re.MULTILINE)
D_ID = re.compile(r"\bD\d+\b")
CHANGE_KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
RELEASE = re.compile(r"## \[(\d+)\.(\d+)\.(\d+)\] - (\d{4}-\d\d-\d\d)")


def deviation_rows() -> list[str]:
    return [line for line in (ROOT / "docs/deviations.md").read_text().splitlines() if line.startswith("| D")]


def test_each_deviation_has_an_id_of_its_own_and_they_are_in_order_below_each_heading() -> None:
    page = (ROOT / "docs/deviations.md").read_text()
    tables = [[int(number) for number in DEVIATION_ID.findall(part)] for part in page.split("\n## ")]
    assert tables == [sorted(table) for table in tables]
    numbers = sorted(number for table in tables for number in table)
    assert numbers == list(range(1, len(numbers) + 1)), "ids are neither reused nor given up"


@pytest.mark.parametrize("row", deviation_rows(), ids=lambda row: row.split("|")[1].strip())
def test_deviation_names_a_test_that_exists(row: str) -> None:
    match = DEVIATION.match(row)
    assert match, f"not `| D-id | Consul | Adsum | why | `tests/…::test_…` |`: {row}"
    path, name = match[5], match[6]
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    nodes = ast.walk(ast.parse((ROOT / path).read_text()))
    assert name in {node.name for node in nodes if isinstance(node, functions)}


def test_every_deviation_that_code_or_tests_speak_of_is_listed() -> None:
    listed = {row.split("|")[1].strip() for row in deviation_rows()}
    rooms = [*IMPORT_ROOTS, ROOT / "tests"]
    sources = {path for room in rooms for path in room.rglob("*.py")} - {Path(__file__)}
    spoken = {(id_, path.name) for path in sources for id_ in D_ID.findall(path.read_text())}
    assert {(id_, name) for id_, name in spoken if id_ not in listed} == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    links = [link for link in ANCHORED_LINK.findall(document.read_text()) if "://" not in link[0]]
    assert [link for link in links if not leads_somewhere(document, *link)] == []


def leads_somewhere(document: Path, target: str, anchor: str) -> bool:
    page = document.parent / target if target else document
    if not anchor or page.suffix != ".md":
        return page.exists()
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return anchor in {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_page_in_docs_is_reached_from_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / target).resolve() for target in LINK.findall(index.read_text())}
    assert {path for path in (ROOT / "docs").rglob("*.md") if path != index} - linked == set()


def test_changelog_opens_with_unreleased_and_keeps_its_form() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    releases = re.split(r"^(?=## )", changelog, flags=re.MULTILINE)[1:]
    assert releases[0].startswith("## [Unreleased]\n")
    for release in releases:
        _, *kinds = re.split(r"^### ", release, flags=re.MULTILINE)
        names = [kind.splitlines()[0] for kind in kinds]
        assert names == [kind for kind in CHANGE_KINDS if kind in names], "each kind once, in this order"
        assert all(re.search(r"^- \S", kind, flags=re.MULTILINE) for kind in kinds), "a kind without an entry"


def test_changelog_releases_go_back_in_time() -> None:
    headings = [line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")]
    matches = [RELEASE.fullmatch(heading) for heading in headings[1:]]
    assert all(matches), headings
    versions = [tuple(int(part) for part in match.groups()[:3]) for match in matches if match]
    dates = [date.fromisoformat(match[4]) for match in matches if match]
    assert versions == sorted(versions, reverse=True)
    assert dates == sorted(dates, reverse=True)
