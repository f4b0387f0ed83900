from __future__ import annotations

import sys

from adsum.cli.command import Command, CommandFlag, ParsedCommand
from adsum.cli.connection import CONNECTION, QUERY, Api, blaming_flags, connect
from adsum.cli.queries import catalog_query
from adsum.cli.table import OUTPUT, Column, Row, show

SHORT_ID_LENGTH = 8

COLUMNS = [
    Column("Node"),
    Column("ID", lambda row: row["ID"][:SHORT_ID_LENGTH]),
    Column("Address"),
    Column("DC", lambda row: row["Datacenter"]),
]
DETAILED = [
    COLUMNS[0],
    Column("ID"),
    *COLUMNS[2:],
    Column("TaggedAddresses", lambda row: _pairs(row["TaggedAddresses"])),
    Column("Meta", lambda row: _pairs(row["Meta"])),
]


def run(call: ParsedCommand) -> int:
    with connect(call) as api, blaming_flags():
        rows = _nodes(call, api)
    is_detailed = call.is_on("detailed") or call.text("o") == "wide"
    show(call, rows, DETAILED if is_detailed else COLUMNS)
    if not rows:
        print("No nodes match the given query - try expanding your search.", file=sys.stderr)
    return 0


def _nodes(call: ParsedCommand, api: Api) -> list[Row]:
    query = [*catalog_query(call), ("near", call.text("near")), ("filter", call.text("filter"))]
    if not call.text("service"):
        return [_row(node, "Meta") for node in api.get_list("/v1/catalog/nodes", query)]
    instances = api.get_list(f"/v1/catalog/service/{call.text('service')}", query)
    by_name = {instance["Node"]: _row(instance, "NodeMeta") for instance in instances}
    return list(by_name.values())


def _row(node: Row, meta_key: str) -> Row:
    return {
        "Node": node["Node"],
        "ID": node["ID"],
        "Address": node["Address"],
        "Datacenter": node["Datacenter"],
        "TaggedAddresses": node["TaggedAddresses"] or {},
        "Meta": node[meta_key] or {},
    }


def _pairs(values: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(values.items()))


COMMAND = Command(
    run,
    flags=(
        CommandFlag("detailed", "Show tagged addresses and metadata."),
        CommandFlag("filter", "Only nodes for which this expression holds.", "EXPRESSION"),
        CommandFlag("near", "Order by the round trip from this node; _agent is the agent's own.", "NODE"),
        CommandFlag("node-meta", "Only nodes with this metadata.", "KEY=VALUE", is_repeatable=True),
        CommandFlag("service", "Only nodes with this service.", "NAME"),
        OUTPUT,
    ),
    groups=(CONNECTION, QUERY),
)
