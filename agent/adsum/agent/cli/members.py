"""`adsum members`, in the columns that scripts cut out of Consul's."""

from __future__ import annotations

import re
import sys

from adsum.agent.cli.command import Call, Command, Flag, UsageError
from adsum.agent.cli.connection import CONNECTION, connect
from adsum.agent.cli.table import OUTPUT, Column, Row, show

# As in Consul, and unlike everywhere else here: scripts wait for a member by this status.
NOBODY = 2
STATUSES = ("none", "alive", "leaving", "left", "failed")
TYPES = {"consul": "server", "node": "client"}
EVERY_SEGMENT = "<all>"

COLUMNS = [
    Column("Node", lambda row: row["Node"]),
    Column("Address", lambda row: row["Address"]),
    Column("Status", lambda row: row["Status"], is_state=True),
    Column("Type", lambda row: row["Type"]),
    Column("Build", lambda row: row["Build"]),
    Column("Protocol", lambda row: row["Protocol"]),
    Column("DC", lambda row: row["DC"]),
    Column("Segment", lambda row: row["Segment"]),
    Column("ID", lambda row: row["ID"], is_wide=True),
]
DETAILED = [*COLUMNS[:3], Column("Tags", lambda row: ",".join(f"{k}={v}" for k, v in row["Tags"].items()))]


def run(call: Call) -> int:
    try:
        pattern = re.compile(call.text("status"))
    except re.error as problem:
        raise UsageError(f"-status is no regular expression: {problem}") from None
    query = [("segment", call.text("segment", "_all")), ("wan", "1" if call.is_on("wan") else "")]
    with connect(call) as api:
        members = api.get_list("/v1/agent/members", query)
    rows = sorted(map(_row, members), key=lambda row: (row["Segment"], row["Node"]))
    found = [row for row in rows if pattern.search(row["Status"])]
    show(call, found, DETAILED if call.is_on("detailed") else COLUMNS)
    if not found:
        print("No member is like that.", file=sys.stderr)
        return NOBODY
    return 0


def _row(member: Row) -> Row:
    tags, role = dict(member["Tags"]), member["Tags"].get("role", "unknown")
    if role == "consul":
        tags["segment"] = EVERY_SEGMENT
    host, status = member["Addr"], member["Status"]
    return {
        "Node": member["Name"],
        "Address": f"[{host}]:{member['Port']}" if ":" in host else f"{host}:{member['Port']}",
        "Status": STATUSES[status] if 0 <= status < len(STATUSES) else f"unknown status: {status}",
        "Type": TYPES.get(role, "unknown"),
        "Build": tags.get("build", "").partition(":")[0],
        "Protocol": tags.get("vsn", ""),
        "DC": tags.get("dc", ""),
        "Segment": tags.get("segment") or "<default>",
        "ID": tags.get("id", ""),
        "Tags": dict(sorted(tags.items())),
    }


COMMAND = Command(
    run,
    flags=(
        Flag("detailed", "Show every tag of each member."),
        Flag("status", "Only members whose status matches; exit status 2 if there are none.", "REGEX"),
        Flag("wan", "The servers of all data centres instead."),
        Flag("segment", "Only members of this network segment.", "NAME"),
        OUTPUT,
    ),
    groups=(CONNECTION,),
)
