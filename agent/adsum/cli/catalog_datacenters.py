from __future__ import annotations

from adsum.cli.command import Command, ParsedCommand
from adsum.cli.connection import CONNECTION, QUERY, connect
from adsum.cli.table import OUTPUT, dump_rows, is_table, printable


def run(call: ParsedCommand) -> int:
    with connect(call) as api:
        names = api.get_list("/v1/catalog/datacenters")
    if is_table(call):  # bare names, as scripts read them from Consul
        print("\n".join(map(printable, names)))
    else:
        dump_rows(call, [{"Datacenter": name} for name in names])
    return 0


COMMAND = Command(run, flags=(OUTPUT,), groups=(CONNECTION, QUERY))
