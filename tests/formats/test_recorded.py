"""The bytes of every format as they were when they were last changed on purpose, one file for each.

What fails here would not be understood by agents in the field: a new field belongs at the end of its row,
with a default. `tools/test tests/formats --rewrite` records anew; then read the diff.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.formats.cases import CASES, RecordedCase
from tests.house.rooms import ROOT

PAGE = ROOT / "docs" / "internals" / "wire.md"
FOLDER = Path(__file__).parent / "recorded"
BYTES_A_LINE = 32


def recorded(name: str) -> bytes:
    return bytes.fromhex((FOLDER / f"{name}.hex").read_text())


def shown(encoded: bytes) -> str:
    lines = [encoded[at : at + BYTES_A_LINE].hex(" ") for at in range(0, len(encoded), BYTES_A_LINE)]
    return "\n".join([*lines, ""])


@pytest.mark.parametrize(("name", "case"), CASES.items(), ids=CASES.keys())
def test_what_is_said_today_has_the_recorded_bytes(name: str, case: RecordedCase, *, rewrite: bool) -> None:
    if rewrite:
        (FOLDER / f"{name}.hex").write_text(shown(case.encoded))
    assert case.encoded.hex() == recorded(name).hex()


@pytest.mark.parametrize(("name", "case"), CASES.items(), ids=CASES.keys())
def test_recorded_bytes_mean_what_they_meant(name: str, case: RecordedCase) -> None:
    assert case.decode(recorded(name)) == case.value


def test_every_file_is_of_a_format_that_is_spoken() -> None:
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(CASES)


def test_the_page_about_the_wire_shows_a_datagram_as_it_is() -> None:
    """The first column of its first table, put together."""
    table = PAGE.read_text().split("| bytes | what |")[1].split("\n\n")[0]
    told = "".join(re.findall(r"^\| `([0-9a-f ]+)` \|", table, re.MULTILINE))
    assert bytes.fromhex(told) == recorded("datagram-ping")
