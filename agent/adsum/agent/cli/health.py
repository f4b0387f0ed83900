"""`adsum health`: all services in a line each, or the instances of one with what their checks say.

The exit status is for scripts: 0 if everything passes, 1 if anything does not, 3 if there is no such service.
"""

from __future__ import annotations

from typing import Any

from adsum.agent.cli.command import FAILURE, OK, Call, Command, Flag, NotFound, did_you_mean
from adsum.agent.cli.connection import CONNECTION, QUERY, Api, connect
from adsum.agent.cli.queries import Pairs, data_query
from adsum.agent.cli.states import first_line, is_maintenance, place, state_of
from adsum.agent.cli.table import OUTPUT, Column, Row, dump_rows, is_table, show

OUTPUT_LENGTH_MAX = 100  # of a check's first line in a table; -o wide shows it whole

SERVICES = [
    Column("Service", lambda row: row["Service"]),
    Column("Instances", lambda row: row["Instances"]),
    Column("Passing", lambda row: row["Passing"]),
    Column("Warning", lambda row: row["Warning"]),
    Column("Critical", lambda row: row["Critical"]),
    Column("Nodes", lambda row: ",".join(row["Nodes"]), is_wide=True),
]
CHECKS = [
    Column("Instance", lambda row: row["Instance"]),
    Column("Node", lambda row: row["Node"]),
    Column("Address", lambda row: row["Address"]),
    Column("Check", lambda row: row["Check"]),
    Column("Status", lambda row: row["Status"], is_state=True),
    Column("Output", lambda row: row["Output"]),
]


def run(call: Call) -> int:
    query = data_query(call)
    if call.is_on("full-output"):
        query = [*query, ("output", "full")]
    with connect(call) as api:
        rows = _one(api, call.words[0], query) if call.words else _all(api, query)
    if not call.words:
        show(call, rows, SERVICES)
        return OK if all(row["Passing"] == row["Instances"] for row in rows) else FAILURE
    if is_table(call):
        show(call, [line for row in rows for line in _check_lines(row, call)], CHECKS)
    else:
        dump_rows(call, rows)
    return OK if all(row["Status"] == "passing" for row in rows) else FAILURE


def _all(api: Api, query: Pairs) -> list[Row]:
    names = sorted(api.get_object("/v1/catalog/services", query))
    return [_summary(name, api.get_list(f"/v1/health/service/{name}", query)) for name in names]


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


def _one(api: Api, name: str, query: Pairs) -> list[Row]:
    instances = api.get_list(f"/v1/health/service/{name}", query)
    if not instances:
        known = api.get_object("/v1/catalog/services", query)
        raise NotFound(f"no instance of {name} is registered{did_you_mean(name, known)}")
    return [_instance(each) for each in instances]


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


def _check_lines(row: Row, call: Call) -> list[Row]:
    """One for each check; the instance is named on the first."""
    is_whole = call.text("o") == "wide" or call.is_on("full-output")
    length_max = None if is_whole else OUTPUT_LENGTH_MAX
    first = {
        "Instance": row["ID"],
        "Node": row["Node"],
        "Address": place(row["Address"], row["Port"]),
        "Check": "(none)",
        "Status": row["Status"],
        "Output": "",
    }
    told = [
        {
            "Check": check["Name"] or check["CheckID"],
            "Status": check["Status"],
            "Output": first_line(_said(check))[:length_max],
        }
        for check in row["Checks"]
    ]
    blank = dict.fromkeys(("Instance", "Node", "Address"), "")
    return [{**(blank if at else first), **line} for at, line in enumerate(told or [{}])]


def _said(check: dict[str, str]) -> str:
    return check["Notes"] if is_maintenance(check["CheckID"]) else check["Output"]


COMMAND = Command(
    run,
    arguments="[SERVICE]",
    flags=(
        Flag("full-output", "Fetch what checks say beyond what every agent knows, from where they run."),
        OUTPUT,
    ),
    groups=(CONNECTION, QUERY),
    about="Exit status: 0 if all of it passes, 1 if anything does not, 3 if there is no such service.",
)
