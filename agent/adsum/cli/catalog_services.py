from __future__ import annotations

import sys

from adsum.cli.command import Command, CommandFlag, NotFound, ParsedCommand
from adsum.cli.connection import CONNECTION, QUERY, Api, connect
from adsum.cli.queries import catalog_query
from adsum.cli.table import OUTPUT, align, dump_rows, is_table, printable

TAGS_GAP = " " * 6  # what Consul leaves between a name and its tags


def run(call: ParsedCommand) -> int:
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
        print("No services match the given query - try expanding your search.", file=sys.stderr)
    return 0


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


COMMAND = Command(
    run,
    flags=(
        CommandFlag("node", "Only services on this node.", "NODE"),
        CommandFlag(
            "node-meta", "Only services on nodes with this metadata.", "KEY=VALUE", is_repeatable=True
        ),
        CommandFlag("tags", "Show each service's tags."),
        OUTPUT,
    ),
    groups=(CONNECTION, QUERY),
)
