from __future__ import annotations

import contextlib
import json
import logging
import sys

import pytest

from adsum.logs.lines import JsonLines, TextLines, UnknownLevel, parse_level


def record(
    message: str, *details: object, level: int = logging.INFO, name: str = "agent"
) -> logging.LogRecord:
    made = logging.LogRecord(name, level, "", 0, message, details, None)
    made.created = 1_763_460_000.0625
    return made


def test_text_lines_are_consuls() -> None:
    line = TextLines().format(record("Synced service: service=%s", "web"))
    assert line == "2025-11-18T10:00:00.062Z [INFO]  agent: Synced service: service=web"


@pytest.mark.parametrize(
    ("level", "label"),
    [(5, "[TRACE]"), (10, "[DEBUG]"), (20, "[INFO] "), (30, "[WARN] "), (40, "[ERROR]"), (50, "[ERROR]")],
)
def test_levels_are_padded_to_one_width(level: int, label: str) -> None:
    assert TextLines().format(record("x", level=level)) == f"2025-11-18T10:00:00.062Z {label} agent: x"


def test_json_lines_have_consuls_keys() -> None:
    line = JsonLines().format(record('say "hi"\nthere', level=logging.WARNING, name="agent.http"))
    assert "\n" not in line
    assert json.loads(line) == {
        "@level": "warn",
        "@message": 'say "hi"\nthere',
        "@module": "agent.http",
        "@timestamp": "2025-11-18T10:00:00.062500Z",
    }


@pytest.mark.parametrize(
    "hostile", ["a\n2025 [INFO]  agent: forged", "\x1b[2J", "\u202eevil", "\udcff", "\r"]
)
def test_nothing_from_outside_begins_a_line_or_moves_a_cursor(hostile: str) -> None:
    line = TextLines().format(record("name=%s", hostile))
    assert line.isprintable()
    assert line.encode()  # and no half of a character reaches the stream


def test_exceptions_are_told_in_both_forms_and_indented_in_text() -> None:
    made = record("it broke")
    with contextlib.suppress(ValueError):
        try:
            int("first\nsecond")
        finally:
            made.exc_info = sys.exc_info()
    first, *rest = TextLines().format(made).split("\n")
    assert first.endswith("agent: it broke")
    assert rest[-1].startswith("    ValueError: ")
    assert all(line.startswith("    ") for line in rest)
    assert "ValueError: " in json.loads(JsonLines().format(made))["stacktrace"]


@pytest.mark.parametrize(
    ("word", "level"),
    [("trace", 5), ("DEBUG", 10), ("Info", 20), ("warn", 30), ("err", 40), ("ERROR", 40)],
)
def test_levels_are_read_in_any_case(word: str, level: int) -> None:
    assert parse_level(word) == level


@pytest.mark.parametrize("word", ["bogus", "warning", "notice", "", "20"])
def test_words_that_consul_does_not_know_are_refused_in_its_words(word: str) -> None:
    with pytest.raises(UnknownLevel) as refused:
        parse_level(word)
    assert str(refused.value) == f"Unknown log level: {word}"


def test_a_message_without_end_is_cut() -> None:
    text = TextLines().format(record("x" * 1_000_000))
    shown = json.loads(JsonLines().format(record("x" * 1_000_000)))
    assert len(text) < 4200
    assert shown["@message"] == "x" * 4096 + "… (995904 more)"
