"""`adsum catalog owners`: whose entries this agent has, how much of them, and since when that is certain."""

from __future__ import annotations

from adsum.cli.command import OK, Command, ParsedCommand
from adsum.cli.connection import CONNECTION, connect
from adsum.cli.table import OUTPUT, Column, Row, plain, show

COLUMNS = [
    Column("Node"),
    Column("Status", is_state=True),
    *plain("Items", "Bytes", "Version"),
    Column("Complete", lambda row: "yes" if row["Complete"] else f"up to {row['CompleteUpTo']}"),
    Column("Confirmed", lambda row: confirmed(row)),
    Column("Source", lambda row: source(row)),
    *plain("Generation", "Digest", "ID", is_wide=True),
]


def run(call: ParsedCommand) -> int:
    with connect(call) as api:
        show(call, api.get_list("/v1/catalog/owners"), COLUMNS)
    return OK


def confirmed(held: Row) -> str:
    ms = held["ConfirmedMs"]
    return "never" if ms is None else ago(ms)


def source(row: Row) -> str:
    saved_ms = row.get("SavedMs")
    return row["Source"] if saved_ms is None else f"{row['Source']} of {ago(saved_ms)}"


def ago(ms: int) -> str:
    seconds, minutes = ms / 1_000, ms / 60_000
    if seconds < 1:
        return f"{ms} ms ago"
    return f"{seconds:.0f} s ago" if minutes < 2 else f"{minutes:.0f} min ago"


COMMAND = Command(
    run,
    flags=(OUTPUT,),
    groups=(CONNECTION,),
    about="An owner is the agent of a node. Complete: without gaps; Confirmed: when that was last known.",
)
