"""Rows for people and for programs: aligned columns, or JSON whose keys stay.

A table is for reading: names from the network cannot steer the terminal, empty cells are shown as nothing,
and colour is used for a state only, on a terminal only, and not where NO_COLOR is set. JSON holds
everything a row has, whatever the columns show.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from adsum.cli.command import CommandFlag, ParsedCommand, UsageError

Row = Mapping[str, Any]

OUTPUT = CommandFlag("o", "Form of the output.", "FORM", choices=("table", "wide", "json", "jsonl"))
GAP = "  "
COLOURS = {"passing": 32, "alive": 32, "warning": 33, "maintenance": 33, "critical": 31, "failed": 31}


class Column(NamedTuple):
    title: str
    text: Callable[[Row], object] | None = None  # what the row has under the title, unless told
    is_wide: bool = False  # shown only where somebody asked for all
    is_state: bool = False


def plain(*titles: str, is_wide: bool = False) -> list[Column]:
    return [Column(title, is_wide=is_wide) for title in titles]


def show(call: ParsedCommand, rows: Sequence[Row], columns: Sequence[Column]) -> None:
    if not is_table(call):
        dump_rows(call, rows)
    elif rows:
        chosen = [column for column in columns if call.text("o") == "wide" or not column.is_wide]
        print("\n".join(_lines(chosen, rows)))


def dump_rows(call: ParsedCommand, rows: Sequence[object]) -> None:
    if call.text("o") == "json":
        dump(call, rows)
    else:
        for row in rows:
            dump(call, row)


def dump(call: ParsedCommand, value: object) -> None:
    """In one piece, on one line where lines were asked for."""
    print(
        json.dumps(value, indent=2) if call.text("o") == "json" else json.dumps(value, separators=(",", ":"))
    )


def refuse_endless_json(call: ParsedCommand) -> None:
    if call.is_on("watch") and call.text("o") == "json":
        raise UsageError("-watch goes on for ever, and JSON in one piece has an end: say -o=jsonl")


def is_table(call: ParsedCommand) -> bool:
    return call.text("o", "table") in ("table", "wide")


def local_time(rfc3339: str) -> str:
    """As this terminal's people count, to the millisecond: accusations come close together."""
    from datetime import datetime  # only for what happened

    return datetime.fromisoformat(rfc3339).astimezone().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def doubt(answer: Row) -> str:
    """Of an answer that has `Observer` and `Stale`, which Consul's have not; empty where there is none."""
    stale = answer.get("Stale")
    if not stale:
        return ""
    return f"{answer['Observer']} may be out of date ({stale['Reason']}): {stale['Sentence']}."


def printable(text: object) -> str:
    """One line without anything that a terminal would obey."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in str(text))


def align(rows: Sequence[Sequence[str]], gap: str = GAP) -> list[str]:
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return [
        gap.join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _lines(columns: Sequence[Column], rows: Sequence[Row]) -> list[str]:
    cells = [
        [printable(column.text(row) if column.text else row[column.title]) for column in columns]
        for row in rows
    ]
    titles = [column.title for column in columns]
    heading, *lines = align([titles, *cells])
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return [heading, *lines]
    starts = [heading.index(column.title) if column.is_state else -1 for column in columns]
    coloured = [_colour(line, row, starts) for line, row in zip(lines, cells, strict=True)]
    return [heading, *coloured]


def _colour(line: str, cells: Sequence[str], starts: Sequence[int]) -> str:
    for cell, start in zip(cells, starts, strict=True):
        if start >= 0 and cell in COLOURS:
            end = start + len(cell)
            return f"{line[:start]}\x1b[{COLOURS[cell]}m{cell}\x1b[0m{line[end:]}"
    return line
