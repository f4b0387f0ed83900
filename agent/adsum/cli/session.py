"""`adsum session …`: sessions, which hold keys for a client while it is alive. Consul has no such command."""

from __future__ import annotations

import json
from typing import Any

from adsum.cli.command import OK, Command, CommandFlag, NotFound, ParsedCommand
from adsum.cli.connection import CONNECTION, QUERY, connect, data_query
from adsum.cli.table import OUTPUT, Column, dump, is_table, plain, show

SECOND_NS = 1_000_000_000
NODE = CommandFlag("node", "Only those of this node.", "NAME")


def create(call: ParsedCommand) -> int:
    body: dict[str, Any] = {}
    for flag, field in (("name", "Name"), ("node", "Node"), ("ttl", "TTL"), ("lock-delay", "LockDelay")):
        if call.text(flag):
            body[field] = call.text(flag)
    if call.text("behavior"):
        body["Behavior"] = call.text("behavior")
    if call.is_on("no-checks"):
        body["NodeChecks"] = []
    if call.texts("node-check"):
        body["NodeChecks"] = list(call.texts("node-check"))
    if call.texts("service-check"):
        body["ServiceChecks"] = [{"ID": check_id} for check_id in call.texts("service-check")]
    with connect(call) as api:
        created = api.put("/v1/session/create", [("dc", call.text("datacenter"))], body)
    session_id = json.loads(created)["ID"]
    if is_table(call):
        print(session_id)
    else:
        dump(call, {"ID": session_id})
    return OK


def destroy(call: ParsedCommand) -> int:
    with connect(call) as api:
        for session_id in call.words:
            api.put(f"/v1/session/destroy/{session_id}", [("dc", call.text("datacenter"))])
            print(f"Success! Destroyed session: {session_id}")
    return OK


def renew(call: ParsedCommand) -> int:
    with connect(call) as api:
        for session_id in call.words:
            api.put(f"/v1/session/renew/{session_id}", [("dc", call.text("datacenter"))])
            print(f"Success! Renewed session: {session_id}")
    return OK


def list_sessions(call: ParsedCommand) -> int:
    path = f"/v1/session/node/{call.text('node')}" if call.text("node") else "/v1/session/list"
    with connect(call) as api:
        show(call, [_row(each) for each in api.get_list(path, data_query(call))], COLUMNS)
    return OK


def info(call: ParsedCommand) -> int:
    session_id = call.words[0]
    with connect(call) as api:
        found = api.get_list(f"/v1/session/info/{session_id}", data_query(call))
    if not found:
        raise NotFound(
            f"there is no session {session_id}: `adsum explain {session_id}` tells why, if it ended lately"
        )
    if not is_table(call):
        dump(call, found[0])
        return OK
    row = _row(found[0])
    width = max(len(column.title) for column in COLUMNS)
    for column in COLUMNS:
        print(f"{column.title:<{width}}  {row[column.title]}".rstrip())
    return OK


def _row(session: dict[str, Any]) -> dict[str, Any]:
    services = [each["ID"] for each in session.get("ServiceChecks") or []]
    return {
        **session,
        "TTL": session.get("TTL") or "-",
        "LockDelay": f"{session.get('LockDelay', 0) / SECOND_NS:g}s",
        "Checks": ",".join([*(session.get("NodeChecks") or []), *services]),
    }


COLUMNS: list[Column] = [
    *plain("ID", "Name", "Node", "TTL", "Behavior"),
    *plain("LockDelay", "Checks", "CreateIndex", is_wide=True),
]

COMMANDS = {
    "session create": Command(
        create,
        flags=(
            CommandFlag("name", "For people to know it by.", "NAME"),
            CommandFlag("node", "The node it belongs to; the agent's own if not given.", "NAME"),
            CommandFlag("ttl", "It ends if nobody renews it for twice this long.", "DURATION"),
            CommandFlag("behavior", "What becomes of its keys.", "WHAT", choices=("release", "delete")),
            CommandFlag("lock-delay", "How long nobody gets its keys after its end; 15s.", "DURATION"),
            CommandFlag("node-check", "A check of the node on which it hangs.", "ID", is_repeatable=True),
            CommandFlag("no-checks", "It hangs on no check of the node; else on serfHealth."),
            CommandFlag("service-check", "A check of a service there.", "ID", is_repeatable=True),
            OUTPUT,
        ),
        groups=(CONNECTION, QUERY),
        about="It prints the id of the session.",
    ),
    "session destroy": Command(destroy, arguments="ID…", groups=(CONNECTION, QUERY)),
    "session renew": Command(
        renew,
        arguments="ID…",
        groups=(CONNECTION, QUERY),
        about="Exit status: 0, or 3 if there is no such session any more.",
    ),
    "session list": Command(list_sessions, flags=(NODE, OUTPUT), groups=(CONNECTION, QUERY)),
    "session info": Command(
        info,
        arguments="ID",
        flags=(OUTPUT,),
        groups=(CONNECTION, QUERY),
        about="Exit status: 0, or 3 if there is no such session.",
    ),
}
