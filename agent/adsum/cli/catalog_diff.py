"""`adsum catalog diff NODE`: where the catalog of that node's agent is another than that of the agent asked.

While services change, a few owners differ for the moments that changes take; the ages tell those apart from
what stays.
"""

from __future__ import annotations

import sys
from typing import Any

from adsum.cli.catalog_owners import confirmed
from adsum.cli.command import OK, Command, ParsedCommand
from adsum.cli.connection import CONNECTION, connect
from adsum.cli.table import OUTPUT, Column, Row, dump, is_table, printable, show

DIFFERENT = 2  # as of `diff`, whose 1 is taken for failures here

COLUMNS = [
    Column("Owner", lambda row: row["Node"] or row["ID"]),
    Column("Status", is_state=True),
    Column("What"),
    Column("Here", lambda row: _held(row["Here"])),
    Column("Confirmed", lambda row: _age(row["Here"])),
    Column("There", lambda row: _held(row["There"])),
    Column("Confirmed there", lambda row: _age(row["There"])),
    Column("Generations", lambda row: _generations(row), is_wide=True),
]


def run(call: ParsedCommand) -> int:
    with connect(call) as api:
        found = api.get_object(f"/v1/catalog/diff/{call.words[0]}")
    differences, equal = found["Differences"], found["Equal"]
    if is_table(call):
        show(call, differences, COLUMNS)
        here, other = printable(found["Node"]), printable(found["Other"])
        equals = f"{equal} owners are equal"
        verdict = f"{len(differences)} differ, {equals}" if differences else f"all {equals}"
        print(f"{here} and {other}: {verdict}", file=sys.stderr)
    else:
        dump(call, found)
    return DIFFERENT if differences else OK


def _held(held: dict[str, Any] | None) -> str:
    if held is None:
        return "nothing"
    gaps = "" if held["Complete"] else f" (complete up to {held['CompleteUpTo']})"
    return f"{held['Items']} items at version {held['Version']}{gaps}"


def _age(held: dict[str, Any] | None) -> str:
    return "" if held is None else confirmed(held)


def _generations(row: Row) -> str:
    return " / ".join(str(held["Generation"]) if held else "-" for held in (row["Here"], row["There"]))


COMMAND = Command(
    run,
    arguments="NODE",
    flags=(OUTPUT,),
    groups=(CONNECTION,),
    about="Exit status: 0 if the two are equal, 2 if they differ.",
)
