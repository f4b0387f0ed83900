from __future__ import annotations

import sys

from adsum.cli.command import Command, ParsedCommand
from adsum.cli.connection import CONNECTION, connect
from adsum.cli.states import NODE_MAINTENANCE, place, state_of
from adsum.cli.table import OUTPUT, Column, Row, plain, show

COLUMNS = [
    *plain("Service", "ID"),
    Column("Address", lambda row: place(row["Address"], row["Port"])),
    Column("Status", is_state=True),
    Column("Checks"),
    Column("Tags", lambda row: ",".join(row["Tags"])),
    Column("Meta", lambda row: ",".join(f"{k}={v}" for k, v in row["Meta"].items()), is_wide=True),
]


def run(call: ParsedCommand) -> int:
    with connect(call) as api:
        services = api.get_object("/v1/agent/services")
        checks = list(api.get_object("/v1/agent/checks").values())
    rows = [_row(service, checks) for service in services.values()]
    rows.sort(key=lambda row: (row["Service"], row["ID"]))
    show(call, rows, COLUMNS)
    if not rows:
        print("Nothing is registered here. `adsum services register -h` shows how.", file=sys.stderr)
    return 0


def _row(service: Row, checks: list[dict[str, str]]) -> Row:
    own = [check for check in checks if check["ServiceID"] == service["ID"]]
    of_node = [check for check in checks if check["CheckID"] == NODE_MAINTENANCE]
    return {
        "Service": service["Service"],
        "ID": service["ID"],
        "Address": service["Address"],
        "Port": service["Port"],
        "Status": state_of([*own, *of_node]),
        "Checks": len(own),
        "Tags": service["Tags"] or [],
        "Meta": service["Meta"] or {},
    }


COMMAND = Command(run, flags=(OUTPUT,), groups=(CONNECTION,))
