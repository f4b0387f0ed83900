from __future__ import annotations

import sys

from adsum.cli.command import UNREACHABLE, Command, CommandFlag, ParsedCommand
from adsum.cli.connection import CONNECTION, connect

LEVELS = ("trace", "debug", "info", "warn", "err", "error")  # Consul's scripts say err


def run(call: ParsedCommand) -> int:
    query = [("loglevel", call.text("log-level")), ("logjson", "1" if call.is_on("log-json") else "")]
    with connect(call) as api:
        try:
            for chunk in api.follow("/v1/agent/monitor", query):
                sys.stdout.write(chunk.decode(errors="replace"))
                sys.stdout.flush()
        except KeyboardInterrupt:  # how one stops watching
            return 0
    print("The agent ended the log: it has stopped, or was told to.", file=sys.stderr)
    return UNREACHABLE


COMMAND = Command(
    run,
    flags=(
        CommandFlag("log-level", "The least of what is shown; info if not given.", "LEVEL", choices=LEVELS),
        CommandFlag("log-json", "Lines in JSON."),
    ),
    groups=(CONNECTION,),
    about="It shows the log as it is written, whatever level the agent itself logs at, until Ctrl-C.",
)
