"""`adsum keyring`: one of list, install, use and remove, on every member at once, in Consul's words."""

from __future__ import annotations

import json
import re

from adsum.cli.command import Command, CommandFlag, ParsedCommand, UsageError
from adsum.cli.connection import CONNECTION, Api, Query, connect
from adsum.cli.table import OUTPUT, dump_rows, is_table, printable

RELAY_FACTOR = re.compile(r"[0-5]")
PATH = "/v1/operator/keyring"
CHANGES = {
    "install": ("POST", "==> Installing new gossip encryption key..."),
    "use": ("PUT", "==> Changing primary gossip encryption key..."),
    "remove": ("DELETE", "==> Removing gossip encryption key..."),
}
LISTS = {
    "list": ("Keys", "==> Gathering installed encryption keys..."),
    "list-primary": ("PrimaryKeys", "==> Gathering installed primary encryption keys..."),
}


def run(call: ParsedCommand) -> int:
    action = _action(call)
    query = [("relay-factor", call.text("relay-factor"))]
    if query[0][1] and not RELAY_FACTOR.fullmatch(query[0][1]):
        raise UsageError("-relay-factor is a number from 0 to 5")
    if call.is_on("local-only"):
        if action not in LISTS:
            raise UsageError("-local-only goes with -list and -list-primary only")
        query.append(("local-only", "true"))
    with connect(call) as api:
        if action in LISTS:
            _list(call, api, query, *LISTS[action])
        else:
            method, heading = CHANGES[action]
            print(heading)
            api.send(method, PATH, query, json.dumps({"Key": call.text(action)}).encode())
    return 0


def _action(call: ParsedCommand) -> str:
    wanted = [name for name in CHANGES if call.text(name)] + [name for name in LISTS if call.is_on(name)]
    if not wanted:
        raise UsageError("say what to do: -list, -list-primary, -install=KEY, -use=KEY or -remove=KEY")
    if len(wanted) > 1:
        raise UsageError(f"one thing at a time: -{wanted[0]} or -{wanted[1]}")
    return wanted[0]


def _list(call: ParsedCommand, api: Api, query: Query, which: str, heading: str) -> None:
    """Each key with how many members have it, of all."""
    if not is_table(call):
        dump_rows(call, api.get_list(PATH, query))
        return
    print(heading)
    for pool in api.get_list(PATH, query):
        segment = f" [{pool['Segment']}]" if pool["Segment"] else ""
        name = "WAN" if pool["WAN"] else f"{pool['Datacenter']} (LAN){segment}"
        print(f"\n{printable(name)}:")
        for key, count in sorted(pool[which].items()):
            print(f"  {printable(key)} [{count}/{pool['NumNodes']}]")


COMMAND = Command(
    run,
    flags=(
        CommandFlag("list", "List all keys, each with how many members hold it."),
        CommandFlag("list-primary", "List the keys that members seal with."),
        CommandFlag("install", "Give every member this key; `adsum keygen` makes one.", "KEY"),
        CommandFlag("use", "Seal with this key from now on; every member must hold it.", "KEY"),
        CommandFlag("remove", "Take this key away; it must be primary nowhere.", "KEY"),
        CommandFlag("relay-factor", "Taken for Consul's sake: every member is asked directly.", "NUMBER"),
        CommandFlag("local-only", "With -list: only members of this data centre, which they all are."),
        OUTPUT,
    ),
    groups=(CONNECTION,),
    about="A key is changed in three steps, each safe to repeat: -install the new one, -use it, "
    "-remove the old one.",
)
