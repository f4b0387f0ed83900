"""`adsum operator raft list-peers`: who takes part in consensus, in Consul's columns."""

from __future__ import annotations

from adsum.cli.command import OK, Command, CommandFlag, ParsedCommand, UsageError
from adsum.cli.connection import CONNECTION, connect
from adsum.cli.table import OUTPUT, Column, plain, show

LIST_PEERS = "list-peers"
COLUMNS = [
    *plain("Node", "ID", "Address"),
    Column("State", lambda row: "leader" if row["Leader"] else "follower"),
    Column("Voter", lambda row: "true" if row["Voter"] else "false"),
    Column("RaftProtocol", lambda row: row["ProtocolVersion"]),
    Column("LastIndex", lambda row: row.get("LastIndex", ""), is_wide=True),
]


def raft(call: ParsedCommand) -> int:
    if call.words != [LIST_PEERS]:
        raise UsageError(f'there is {LIST_PEERS}, and not "{call.words[0]}" yet')
    with connect(call) as api:
        stale = ("stale", "1" if call.is_on("stale") else "")
        found = api.get_object("/v1/operator/raft/configuration", [stale])
    show(call, found["Servers"], COLUMNS)
    return OK


COMMANDS = {
    "operator raft": Command(
        raft,
        arguments=LIST_PEERS,
        flags=(CommandFlag("stale", "Any server may answer, also while nobody leads."), OUTPUT),
        groups=(CONNECTION,),
        about="While there is a leader, -o=wide shows how far the log of each is known to reach.",
    ),
}
