"""`adsum health`: all services in a line each, or the instances of one with what their checks say.

The exit status is for scripts: 0 if everything passes, 1 if anything does not, 3 if there is no such service.
"""

from __future__ import annotations

import sys
from typing import Any
from urllib.parse import unquote

from adsum.cli.command import (
    FAILURE,
    OK,
    Command,
    CommandFlag,
    NotFound,
    ParsedCommand,
    UsageError,
    did_you_mean,
)
from adsum.cli.connection import CONNECTION, QUERY, connect, data_query
from adsum.cli.states import is_maintenance, place, state_of
from adsum.cli.table import OUTPUT, Column, Row, dump_rows, is_table, plain, printable, show

OUTPUT_LENGTH_MAX = 100  # of a check's first line in a table; -o wide shows it whole, -full-output all lines
MISSING = (
    "Whole outputs could not be fetched from {}: what is shown of theirs is what every agent knows. "
    "Try again, or ask the agent there with -http-addr."
)

SERVICES = [
    *plain("Service", "Instances", "Passing", "Warning", "Critical"),
    Column("Nodes", lambda row: ",".join(row["Nodes"]), is_wide=True),
]
CHECKS = [
    *plain("Instance", "Node", "Address", "Check"),
    Column("Status", is_state=True),
    Column("Output"),
]


def run(call: ParsedCommand) -> int:
    return _show_one(call, call.words[0]) if call.words else _show_all(call)


def _show_all(call: ParsedCommand) -> int:
    if call.is_on("full-output"):
        raise UsageError("-full-output is for the checks of one service: adsum health SERVICE -full-output")
    query = data_query(call)
    with connect(call) as api:
        names = sorted(api.get_object("/v1/catalog/services", query))
        rows = [_summary(name, api.get_list(f"/v1/health/service/{name}", query)) for name in names]
    show(call, rows, SERVICES)
    return OK if all(row["Passing"] == row["Instances"] for row in rows) else FAILURE


def _show_one(call: ParsedCommand, name: str) -> int:
    query = data_query(call)
    if call.is_on("full-output"):
        query.append(("output", "full"))
    with connect(call) as api:
        instances = api.get_list(f"/v1/health/service/{name}", query)
        if not instances:
            known = api.get_object("/v1/catalog/services", query)
            raise NotFound(f"no instance of {name} is registered{did_you_mean(name, known)}")
        rows = [_instance(each) for each in instances]
        is_partial, missing = api.header("X-Adsum-Output") == "partial", api.header("X-Adsum-Output-Missing")
    if is_table(call):
        show(call, [line for row in rows for line in _check_lines(row, call)], CHECKS)
    else:
        dump_rows(call, rows)
    if is_partial:
        print(MISSING.format(printable(unquote(missing)) or "some nodes"), file=sys.stderr)
    return OK if all(row["Status"] == "passing" for row in rows) else FAILURE


def _summary(name: str, instances: list[Any]) -> Row:
    states = [state_of(instance["Checks"]) for instance in instances]
    passing, warning = states.count("passing"), states.count("warning")
    return {
        "Service": name,
        "Instances": len(states),
        "Passing": passing,
        "Warning": warning,
        "Critical": len(states) - passing - warning,
        "Nodes": sorted({instance["Node"]["Node"] for instance in instances}),
    }


def _instance(each: dict[str, Any]) -> Row:
    service, node = each["Service"], each["Node"]
    return {
        "Service": service["Service"],
        "ID": service["ID"],
        "Node": node["Node"],
        "Address": service["Address"] or node["Address"],
        "Port": service["Port"],
        "Status": state_of(each["Checks"]),
        "Checks": [
            {key: check[key] for key in ("CheckID", "Name", "Status", "Notes", "Output")}
            for check in each["Checks"]
        ],
    }


def _check_lines(row: Row, call: ParsedCommand) -> list[Row]:
    """One for each check, or for each line that it says; the instance is named on the first."""
    first = {
        "Instance": row["ID"],
        "Node": row["Node"],
        "Address": place(row["Address"], row["Port"]),
        "Check": "(none)",
        "Status": row["Status"],
        "Output": "",
    }
    told = [line for check in row["Checks"] for line in _lines_of(check, call)]
    blank = dict.fromkeys(first, "")
    return [{**(blank if at else first), **line} for at, line in enumerate(told or [{}])]


def _lines_of(check: dict[str, str], call: ParsedCommand) -> list[Row]:
    named = {"Check": check["Name"] or check["CheckID"], "Status": check["Status"]}
    said = check["Notes"] if is_maintenance(check["CheckID"]) else check["Output"]
    if call.is_on("full-output"):
        begun, *further = said.lstrip("\r\n").rstrip().splitlines() or [""]
        return [{**named, "Output": begun}, *({"Output": line} for line in further)]
    length_max = None if call.text("o") == "wide" else OUTPUT_LENGTH_MAX
    return [{**named, "Output": said.strip().partition("\n")[0][:length_max]}]


COMMAND = Command(
    run,
    arguments="[SERVICE]",
    flags=(
        CommandFlag(
            "full-output",
            "Fetch all that the checks of SERVICE say, from where they run, and show every line.",
        ),
        OUTPUT,
    ),
    groups=(CONNECTION, QUERY),
    about="Exit status: 0 if all of it passes, 1 if anything does not, 3 if there is no such service.",
)
