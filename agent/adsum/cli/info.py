from __future__ import annotations

from adsum.cli.command import Command, ParsedCommand
from adsum.cli.connection import CONNECTION, connect
from adsum.cli.table import OUTPUT, dump, is_table, printable


def run(call: ParsedCommand) -> int:
    with connect(call) as api:
        sections = api.get_object("/v1/agent/self")["Stats"]
    if not is_table(call):
        dump(call, sections)
        return 0
    for name, values in sorted(sections.items()):
        lines = [f"\t{key} = {printable(value)}" for key, value in sorted(values.items())]
        print("\n".join([f"{name}:", *lines]))
    return 0


COMMAND = Command(run, flags=(OUTPUT,), groups=(CONNECTION,))
