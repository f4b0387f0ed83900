"""`adsum timeline`: what happened to members, as the agent that is asked saw it, oldest first.

With -watch it goes on: the agent answers when there is news, so nothing is asked in vain.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from adsum.cli.command import OK, Command, CommandFlag, ParsedCommand, UsageError
from adsum.cli.connection import CONNECTION, Api, blaming_flags, connect
from adsum.cli.table import (
    GAP,
    OUTPUT,
    Column,
    Row,
    dump,
    is_table,
    local_time,
    plain,
    printable,
    refuse_endless_json,
    show,
)

LIMIT = "50"
WAIT = "20s"  # below what the agent may take for an answer
TIME_WIDTH, NODE_WIDTH, STATUS_WIDTH = 23, 12, 12  # the least, in lines that come one by one

COLUMNS = [
    Column("Time", lambda row: local_time(row["Time"])),
    Column("Node"),
    Column("Status", lambda row: _status(row), is_state=True),
    Column("Cause", is_wide=True),
    Column("Phi", lambda row: row["Phi"] or "", is_wide=True),
    *plain("Incarnation", "Observer", is_wide=True),
    Column("What happened", lambda row: row["Sentence"]),
]


def run(call: ParsedCommand) -> int:
    if call.is_on("watch") and call.text("until"):
        raise UsageError("-watch goes on and -until ends: leave one of them out")
    refuse_endless_json(call)
    chosen = [("since", call.text("since")), ("node", call.text("node"))]
    newest = [("until", call.text("until")), ("limit", call.text("limit", LIMIT))]
    with connect(call) as api, blaming_flags():
        found = api.get_object("/v1/membership/timeline", [*chosen, *newest])
        if call.is_on("watch"):
            return _watch(call, api, chosen, found["Entries"])
    show(call, found["Entries"], COLUMNS)
    if not found["Entries"]:
        held = f", which goes back to {local_time(found['HeldSince'])}" if found["HeldSince"] else ""
        whose = printable(found["Observer"])
        print(f"Nothing like that is in the journal of {whose}{held}.", file=sys.stderr)
    elif found["IsCut"]:
        print("There is more before these: -limit and -until show it.", file=sys.stderr)
    return OK


def _watch(call: ParsedCommand, api: Api, chosen: list[tuple[str, str]], entries: list[Row]) -> int:
    after, widths = 0, [TIME_WIDTH, NODE_WIDTH, STATUS_WIDTH]
    try:
        while True:
            # A long name moves what comes after it, once.
            columns = zip(widths, *(map(len, _cells(entry)) for entry in entries), strict=True)
            widths = [max(column) for column in columns]
            for entry in entries:
                after = max(after, entry["Sequence"])
                _say(call, entry, widths)
            sys.stdout.flush()
            news = [("after", str(after)), ("wait", WAIT)]
            entries = api.get_object("/v1/membership/timeline", [*chosen, *news])["Entries"]
    except KeyboardInterrupt:  # how one stops watching
        return OK


def _say(call: ParsedCommand, entry: Row, widths: Sequence[int]) -> None:
    if not is_table(call):
        dump(call, entry)
        return
    padded = (f"{cell:<{width}}" for cell, width in zip(_cells(entry), widths, strict=True))
    print(GAP.join((*padded, printable(entry["Sentence"]))))


def _cells(entry: Row) -> tuple[str, ...]:
    """What stands before the sentence."""
    return tuple(map(printable, (local_time(entry["Time"]), entry["Node"], _status(entry))))


def _status(row: Row) -> str:
    """What it turned to, or in brackets what the entry is instead of a change."""
    return row["To"] or f"({row['Note'] or row['Kind']})"


COMMAND = Command(
    run,
    flags=(
        CommandFlag("since", "How far back, as 90m or 36h, or a time as 2026-11-18T14:00:00Z.", "TIME"),
        CommandFlag("until", "Up to then, in the same forms.", "TIME"),
        CommandFlag("node", "Only what concerns this node, by name or id.", "NAME"),
        CommandFlag("limit", f"The newest so many; {LIMIT} if not given.", "NUMBER"),
        CommandFlag("watch", "Go on with what happens, until Ctrl-C."),
        OUTPUT,
    ),
    groups=(CONNECTION,),
    about="It is what the agent that is asked saw; another may have seen it otherwise.",
)
