"""`adsum catalog …`: the catalog as an agent has it, and where the copies of two agents differ.

While services change, a few owners differ for the moments that changes take; the ages tell those apart from
what stays.
"""

from __future__ import annotations

import sys
from typing import Any

from adsum.cli.command import OK, Command, CommandFlag, NotFound, ParsedCommand
from adsum.cli.connection import CONNECTION, QUERY, Api, blaming_flags, catalog_query, connect
from adsum.cli.table import OUTPUT, Column, Row, align, dump, dump_rows, is_table, plain, printable, show

NOTHING_FOUND = "No {} match the given query - try expanding your search."
SHORT_ID_LENGTH = 8
TAGS_GAP = " " * 6  # what Consul leaves between a name and its tags
DIFFERENT = 2  # as of `diff`, whose 1 is taken for failures here

NODES = [
    Column("Node"),
    Column("ID", lambda row: row["ID"][:SHORT_ID_LENGTH]),
    Column("Address"),
    Column("DC", lambda row: row["Datacenter"]),
]
DETAILED_NODES = [
    NODES[0],
    Column("ID"),
    *NODES[2:],
    Column("TaggedAddresses", lambda row: _pairs(row["TaggedAddresses"])),
    Column("Meta", lambda row: _pairs(row["Meta"])),
]
OWNERS = [
    Column("Node"),
    Column("Status", is_state=True),
    *plain("Items", "Bytes", "Version"),
    Column("Complete", lambda row: "yes" if row["Complete"] else f"up to {row['CompleteUpTo']}"),
    Column("Confirmed", lambda row: _confirmed(row)),
    Column("Source", lambda row: _source(row)),
    *plain("Generation", "Digest", "ID", is_wide=True),
]
DIFFERENCES = [
    Column("Owner", lambda row: row["Node"] or row["ID"]),
    Column("Status", is_state=True),
    Column("What"),
    Column("Here", lambda row: _held(row["Here"])),
    Column("Confirmed", lambda row: _confirmed(row["Here"])),
    Column("There", lambda row: _held(row["There"])),
    Column("Confirmed there", lambda row: _confirmed(row["There"])),
    Column("Generations", lambda row: _generations(row), is_wide=True),
]


def datacenters(call: ParsedCommand) -> int:
    with connect(call) as api:
        names = api.get_list("/v1/catalog/datacenters")
    if is_table(call):  # bare names, as scripts read them from Consul
        print("\n".join(map(printable, names)))
    else:
        dump_rows(call, [{"Datacenter": name} for name in names])
    return OK


def nodes(call: ParsedCommand) -> int:
    query = [*catalog_query(call), ("near", call.text("near")), ("filter", call.text("filter"))]
    service, by_name = call.text("service"), dict[str, Row]()
    with connect(call) as api, blaming_flags():
        for each in api.get_list(f"/v1/catalog/service/{service}" if service else "/v1/catalog/nodes", query):
            kept = {key: each[key] for key in ("Node", "ID", "Address", "Datacenter")}
            meta = each["NodeMeta" if service else "Meta"] or {}
            by_name[each["Node"]] = {**kept, "TaggedAddresses": each["TaggedAddresses"] or {}, "Meta": meta}
    is_detailed = call.is_on("detailed") or call.text("o") == "wide"
    show(call, list(by_name.values()), DETAILED_NODES if is_detailed else NODES)
    if not by_name:
        print(NOTHING_FOUND.format("nodes"), file=sys.stderr)
    return OK


def _pairs(values: dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(values.items()))


def services(call: ParsedCommand) -> int:
    with connect(call) as api:
        tags_by_name = _services(call, api)
    names = sorted(tags_by_name)
    if not is_table(call):
        dump_rows(call, [{"Service": name, "Tags": tags_by_name[name]} for name in names])
    elif call.is_on("tags") or call.text("o") == "wide":
        rows = [(printable(name), printable(",".join(tags_by_name[name]))) for name in names]
        print("\n".join(align(rows, TAGS_GAP) if rows else []))
    elif names:
        print("\n".join(map(printable, names)))
    if not names:
        print(NOTHING_FOUND.format("services"), file=sys.stderr)
    return OK


def _services(call: ParsedCommand, api: Api) -> dict[str, list[str]]:
    query = catalog_query(call)
    node = call.text("node")
    if not node:
        found = api.get_object("/v1/catalog/services", query)
        return {name: sorted(tags) for name, tags in found.items()}
    listed = api.get_object_or_null(f"/v1/catalog/node/{node}", query)
    if listed is None:
        raise NotFound(f"there is no node {node}; `adsum catalog nodes` lists them")
    tags: dict[str, set[str]] = {}
    for service in listed["Services"].values():
        tags.setdefault(service["Service"], set()).update(service["Tags"] or ())
    return {name: sorted(found) for name, found in tags.items()}


def owners(call: ParsedCommand) -> int:
    with connect(call) as api:
        show(call, api.get_list("/v1/catalog/owners"), OWNERS)
    return OK


def _confirmed(held: Row | None) -> str:
    if held is None:
        return ""
    ms = held["ConfirmedMs"]
    return "never" if ms is None else _ago(ms)


def _source(row: Row) -> str:
    saved_ms = row.get("SavedMs")
    return row["Source"] if saved_ms is None else f"{row['Source']} of {_ago(saved_ms)}"


def _ago(ms: int) -> str:
    seconds, minutes = ms / 1_000, ms / 60_000
    if seconds < 1:
        return f"{ms} ms ago"
    return f"{seconds:.0f} s ago" if minutes < 2 else f"{minutes:.0f} min ago"


def diff(call: ParsedCommand) -> int:
    with connect(call) as api:
        found = api.get_object(f"/v1/catalog/diff/{call.words[0]}")
    differences, equal = found["Differences"], found["Equal"]
    if is_table(call):
        show(call, differences, DIFFERENCES)
        here, other = printable(found["Node"]), printable(found["Other"])
        equals = f"{equal} owners are equal"
        verdict = f"{len(differences)} differ, {equals}" if differences else f"all {equals}"
        print(f"{here} and {other}: {verdict}", file=sys.stderr)
    else:
        dump(call, found)
    return DIFFERENT if differences else OK


def _held(held: dict[str, Any] | None) -> str:
    if held is None:
        return "nothing"
    gaps = "" if held["Complete"] else f" (complete up to {held['CompleteUpTo']})"
    return f"{held['Items']} items at version {held['Version']}{gaps}"


def _generations(row: Row) -> str:
    return " / ".join(str(held["Generation"]) if held else "-" for held in (row["Here"], row["There"]))


COMMANDS = {
    "catalog datacenters": Command(datacenters, flags=(OUTPUT,), groups=(CONNECTION, QUERY)),
    "catalog nodes": Command(
        nodes,
        flags=(
            CommandFlag("detailed", "Show tagged addresses and metadata."),
            CommandFlag("filter", "Only nodes for which this expression holds.", "EXPRESSION"),
            CommandFlag("near", "Order by the round trip from this node; _agent is the agent's own.", "NODE"),
            CommandFlag("node-meta", "Only nodes with this metadata.", "KEY=VALUE", is_repeatable=True),
            CommandFlag("service", "Only nodes with this service.", "NAME"),
            OUTPUT,
        ),
        groups=(CONNECTION, QUERY),
    ),
    "catalog services": Command(
        services,
        flags=(
            CommandFlag("node", "Only services on this node.", "NODE"),
            CommandFlag(
                "node-meta", "Only services on nodes with this metadata.", "KEY=VALUE", is_repeatable=True
            ),
            CommandFlag("tags", "Show each service's tags."),
            OUTPUT,
        ),
        groups=(CONNECTION, QUERY),
    ),
    "catalog owners": Command(
        owners,
        flags=(OUTPUT,),
        groups=(CONNECTION,),
        about="An owner is the agent of a node. Complete: without gaps; Confirmed: when that was last known.",
    ),
    "catalog diff": Command(
        diff,
        arguments="NODE",
        flags=(OUTPUT,),
        groups=(CONNECTION,),
        about="Exit status: 0 if the two are equal, 2 if they differ.",
    ),
}
