from __future__ import annotations

import sys

from adsum.cli.command import FAILURE, Command, CommandFlag, ParsedCommand
from adsum.cli.connection import CONNECTION, AgentRefused, connect


def run(call: ParsedCommand) -> int:
    joined = 0
    with connect(call) as api:
        for address in call.words:
            try:
                api.put(f"/v1/agent/join/{address}", [("wan", "1" if call.is_on("wan") else "")])
                joined += 1
            except AgentRefused as refused:
                print(f"Error joining address '{address}': {refused}", file=sys.stderr)
    if not joined:
        print("Failed to join any nodes.", file=sys.stderr)
        return FAILURE
    print(f"Successfully joined cluster by contacting {joined} nodes.")
    return 0


COMMAND = Command(
    run,
    arguments="ADDRESS…",
    flags=(CommandFlag("wan", "Join the servers of another data centre."),),
    groups=(CONNECTION,),
)
