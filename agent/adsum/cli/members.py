"""`adsum members`, in the columns that scripts cut out of Consul's."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Iterator

from adsum.cli.command import Command, CommandFailed, CommandFlag, ParsedCommand, UsageError
from adsum.cli.connection import CONNECTION, AgentRefused, Api, connect
from adsum.cli.table import (
    OUTPUT,
    Column,
    Row,
    doubt,
    dump_rows,
    is_table,
    plain,
    printable,
    refuse_endless_json,
    show,
)

# As in Consul, and unlike everywhere else here: scripts wait for a member by this status.
NOBODY = 2
STATUSES = ("none", "alive", "leaving", "left", "failed")
TYPES = {"consul": "server", "node": "client"}
EVERY_SEGMENT, DEFAULT_SEGMENT = "<all>", "<default>"
GONE = "unknown"  # before it was met, and after it was forgotten
WATCH_INTERVAL_S = 1.0
CLEAR = "\x1b[H\x1b[2J"

COLUMNS = [
    *plain("Node", "Address"),
    Column("Status", is_state=True),
    *plain("Type", "Build", "Protocol", "DC", "Segment"),
    Column("ID", is_wide=True),
]
ROLE = Column("Role")  # in consensus
DETAILED = [*COLUMNS[:3], Column("Tags", lambda row: ",".join(f"{k}={v}" for k, v in row["Tags"].items()))]


def run(call: ParsedCommand) -> int:
    try:
        pattern = re.compile(call.text("status"))
    except re.error as problem:
        raise UsageError(f"-status is no regular expression: {problem}") from None
    refuse_endless_json(call)
    with connect(call) as api:
        found, observer = _members(call, api, pattern)
        if call.is_on("watch"):
            return _watch(call, api, pattern, found)
        notes = [] if call.is_on("wan") else [*_notes_of(observer), _leaderless(api)]
    _show(call, found)
    for note in filter(None, notes):
        print(printable(note), file=sys.stderr)
    if not found:
        print("No member is like that.", file=sys.stderr)
        return NOBODY
    return 0


def _members(call: ParsedCommand, api: Api, pattern: re.Pattern[str]) -> tuple[list[Row], Row]:
    """And what the agent says of itself beside the list."""
    query = [("segment", call.text("segment", "_all")), ("wan", "1" if call.is_on("wan") else "")]
    members = api.get_list("/v1/agent/members", query)
    observer = {} if call.is_on("wan") else _observer(api)
    roles = {each["ID"]: each["Role"] for each in observer.get("Servers", ())}
    rows = [_row(member, roles) for member in members]
    ordered = sorted(rows, key=lambda row: (row["Segment"], row["Node"]))
    return [row for row in ordered if pattern.search(row["Status"])], observer


def _observer(api: Api) -> Row:
    """What our own agents say beside the list; Consul's say nothing of the kind."""
    try:
        return api.get_object("/v1/membership", [("observer", "1")])
    except AgentRefused:
        return {}


def _notes_of(observer: Row) -> Iterator[str]:
    """Why an agent that lists everybody is on nobody else's list, why its own list may be wrong, and that its
    clock is."""
    if not observer:
        return
    conflict = observer.get("Conflict")
    if conflict and not conflict["IsLetIn"]:
        yield f"{conflict['Sentence']} {conflict['Next']}"
    yield doubt(observer)
    yield observer.get("Clock", {}).get("Sentence", "")


def _leaderless(api: Api) -> str:
    """Of an agent that may be asked for what only a leader could answer. Consul says nothing of the kind."""
    try:
        stats = api.get_object("/v1/agent/self").get("Stats", {})
    except CommandFailed:
        return ""
    sentence = stats.get("consul", {}).get("no_leader", "")
    return f"No leader: {sentence}." if sentence else ""


def _show(call: ParsedCommand, rows: list[Row]) -> None:
    """Who leads is told to people, and not to scripts, which take Consul's columns apart."""
    columns = DETAILED if call.is_on("detailed") else COLUMNS
    has_roles = any(row["Role"] for row in rows)
    is_told = has_roles and (sys.stdout.isatty() or call.text("o") == "wide")
    show(call, rows, [*columns, ROLE] if is_told else columns)


# Watching: on a terminal the table is drawn again, in a pipe each change is a line.


def _watch(call: ParsedCommand, api: Api, pattern: re.Pattern[str], rows: list[Row]) -> int:
    is_drawn = sys.stdout.isatty() and is_table(call)
    try:
        _draw(call, rows) if is_drawn else _show(call, rows)
        while True:
            sys.stdout.flush()
            time.sleep(WATCH_INTERVAL_S)
            before, (rows, _) = rows, _members(call, api, pattern)
            _draw(call, rows) if is_drawn else _tell_changes(call, before, rows)
    except KeyboardInterrupt:  # how one stops watching
        return 0


def _draw(call: ParsedCommand, rows: list[Row]) -> None:
    print(CLEAR, end="")
    _show(call, rows)
    counts = Counter(row["Status"] for row in rows)
    states = ", ".join(f"{count} {status}" for status, count in counts.items()) or "nobody"
    print(f"\n{states} at {time.strftime('%H:%M:%S')}; Ctrl-C ends this")


def _tell_changes(call: ParsedCommand, before: list[Row], after: list[Row]) -> None:
    """By address too, for a name may be taken over."""
    was, now = ({(row["Node"], row["Address"]): row for row in rows} for rows in (before, after))
    for key in sorted(was.keys() | now.keys()):
        old, new = (rows[key]["Status"] if key in rows else GONE for rows in (was, now))
        if old == new:
            continue
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        if is_table(call):
            print(f"{at}  {printable(key[0])}  {key[1]}  {old} -> {new}")
        else:
            row = now.get(key) or was[key]
            dump_rows(call, [{"Time": at, **row, "Status": new, "Was": old}])


def _row(member: Row, roles: Row) -> Row:
    tags, role = dict(member["Tags"]), member["Tags"].get("role", "unknown")
    tags["segment"] = EVERY_SEGMENT if role == "consul" else tags.get("segment") or DEFAULT_SEGMENT
    host, status = member["Addr"], member["Status"]
    return {
        "Node": member["Name"],
        "Address": f"[{host}]:{member['Port']}" if ":" in host else f"{host}:{member['Port']}",
        "Status": STATUSES[status] if 0 <= status < len(STATUSES) else f"unknown status: {status}",
        "Type": TYPES.get(role, "unknown"),
        "Build": tags.get("build", "").partition(":")[0],
        "Protocol": tags.get("vsn", ""),
        "DC": tags.get("dc", ""),
        "Segment": tags["segment"],
        "ID": tags.get("id", ""),
        "Tags": dict(sorted(tags.items())),
        "Role": roles.get(tags.get("id", ""), ""),
    }


COMMAND = Command(
    run,
    flags=(
        CommandFlag("detailed", "Show every tag of each member."),
        CommandFlag("status", "Only members whose status matches; exit status 2 if there are none.", "REGEX"),
        CommandFlag(
            "watch", "Go on showing who comes and goes: drawn again on a terminal, a line each elsewhere."
        ),
        CommandFlag("wan", "The servers of all data centres instead."),
        CommandFlag("segment", "Only members of this network segment.", "NAME"),
        OUTPUT,
    ),
    groups=(CONNECTION,),
    about="A terminal, -o=wide and -o=json also show who of the servers leads, and who votes.",
)
