from __future__ import annotations

import json

import pytest

from adsum.cli.command import ParsedCommand
from adsum.cli.table import Column, printable, show

COLUMNS = [
    Column("Name", lambda row: row["Name"]),
    Column("Status", lambda row: row["Status"], is_state=True),
    Column("Secret", lambda row: row["Secret"], is_wide=True),
]
ROWS = [
    {"Name": "web", "Status": "passing", "Secret": "s", "More": 1},
    {"Name": "database", "Status": "critical", "Secret": "", "More": 2},
]


def shown(capsys: pytest.CaptureFixture[str], form: str) -> str:
    show(ParsedCommand([], {"o": [form]}), ROWS, COLUMNS)
    return capsys.readouterr().out


def test_columns_are_aligned_and_lines_end_with_their_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "table") == "Name      Status\nweb       passing\ndatabase  critical\n"


def test_wide_shows_every_column(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "wide") == (
        "Name      Status    Secret\nweb       passing   s\ndatabase  critical\n"
    )


def test_json_holds_everything_whatever_the_columns_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(shown(capsys, "json")) == ROWS
    assert [json.loads(line) for line in shown(capsys, "jsonl").splitlines()] == ROWS


def test_no_rows_are_an_empty_list_and_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    for form, out in (("json", "[]\n"), ("jsonl", ""), ("table", "")):
        show(ParsedCommand([], {"o": [form]}), [], COLUMNS)
        assert capsys.readouterr().out == out


def test_a_terminal_gets_the_state_in_colour(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert shown(capsys, "wide").splitlines()[1] == "web       \x1b[32mpassing\x1b[0m   s"
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in shown(capsys, "table")


@pytest.mark.parametrize(
    ("text", "line"),
    [("a\nb", "a\\nb"), ("\x1b[31m", "\\x1b[31m"), ("\u202e", "\\u202e"), ("schön", "schön"), (80, "80")],
)
def test_nothing_from_the_network_steers_the_terminal(text: object, line: str) -> None:
    assert printable(text) == line
