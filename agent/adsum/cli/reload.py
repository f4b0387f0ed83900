from __future__ import annotations

import json
import sys

from adsum.cli.command import Command, ParsedCommand
from adsum.cli.connection import CONNECTION, connect

TOLD = {"Applied": "Applied", "NeedsRestart": "Changed, but needs a restart"}


def run(call: ParsedCommand) -> int:
    with connect(call) as api:
        answer = api.put("/v1/agent/reload")
    print("Configuration reload triggered")
    changes = json.loads(answer) if answer else {}  # Consul's own agent says nothing
    for key, told in TOLD.items():
        if names := changes.get(key):
            print(f"{told}: {', '.join(names)}", file=sys.stderr)
    return 0


COMMAND = Command(
    run,
    groups=(CONNECTION,),
    about="With one error in its files the agent keeps everything as it was, and says which.",
)
