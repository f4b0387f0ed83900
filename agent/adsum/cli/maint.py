from __future__ import annotations

from adsum.cli.command import Command, CommandFlag, ParsedCommand, UsageError
from adsum.cli.connection import CONNECTION, Api, connect
from adsum.cli.states import NODE_MAINTENANCE, SERVICE_MAINTENANCE, is_maintenance
from adsum.cli.table import OUTPUT, Row, dump_rows, is_table, printable


def run(call: ParsedCommand) -> int:
    enables, disables = call.is_on("enable"), call.is_on("disable")
    if enables and disables:
        raise UsageError("Only one of -enable or -disable may be provided")
    if not enables and not disables and (call.text("reason") or call.text("service")):
        raise UsageError("say -enable or -disable with -reason and -service")
    with connect(call) as api:
        if enables or disables:
            _set(call, api)
        else:
            _list(call, api)
    return 0


def _set(call: ParsedCommand, api: Api) -> None:
    enables, service_id = call.is_on("enable"), call.text("service")
    query = [("enable", "true" if enables else "false"), ("reason", call.text("reason"))]
    done = "enabled" if enables else "disabled"
    if service_id:
        api.put(f"/v1/agent/service/maintenance/{service_id}", query)
        print(f'Service maintenance is now {done} for "{service_id}"')
    else:
        api.put("/v1/agent/maintenance", query)
        print(f"Node maintenance is now {done}")


def _list(call: ParsedCommand, api: Api) -> None:
    checks = api.get_object("/v1/agent/checks")
    rows: list[Row] = []
    for check_id, check in sorted(checks.items()):
        if check_id == NODE_MAINTENANCE:
            rows.append({"Kind": "Node", "Name": check["Node"], "Reason": check["Notes"]})
        elif is_maintenance(check_id):
            name = check_id.removeprefix(SERVICE_MAINTENANCE)
            rows.append({"Kind": "Service", "Name": name, "Reason": check["Notes"]})
    if not is_table(call):
        dump_rows(call, rows)
        return
    for row in rows:
        name = "Name:   " if row["Kind"] == "Node" else "ID:     "
        print(f"{row['Kind']}:\n  {name}{printable(row['Name'])}\n  Reason: {printable(row['Reason'])}\n")


COMMAND = Command(
    run,
    flags=(
        CommandFlag("enable", "Begin maintenance: a critical check takes it out of every answer."),
        CommandFlag("disable", "End it."),
        CommandFlag("reason", "Why, for those who wonder.", "TEXT"),
        CommandFlag("service", "Id of a service on this node, instead of the node.", "ID"),
        OUTPUT,
    ),
    groups=(CONNECTION,),
    about="Without flags it lists what is in maintenance here.",
)
