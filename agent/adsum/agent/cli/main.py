"""The command line: one file a command, imported only when it is called.

Nothing here imports trio or the agent's rooms: `adsum version` has to answer in the time of a shell prompt. The
agent itself is imported by its own command.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module

FAILURE, USAGE = 1, 2

# Each module has `run(arguments) -> exit status` and opens with the sentence that `adsum help` shows.
COMMANDS = {
    "agent": "Start the agent on this host",
    "version": "Show this version and the Consul API level it speaks",
}


def main(argv: Sequence[str] | None = None) -> int:
    name, *arguments = (sys.argv[1:] if argv is None else argv) or ["help"]
    if name in ("help", "-h", "-help", "--help"):
        print(usage())
        return 0
    if name in ("-v", "-version", "--version"):
        name = "version"
    if name not in COMMANDS:
        print(f"adsum has no command {name!r}.\n\n{usage()}", file=sys.stderr)
        return USAGE
    run: Callable[[Sequence[str]], int] = import_module(f"adsum.agent.cli.{name}").run
    return run(arguments)


def usage() -> str:
    width = max(map(len, COMMANDS))
    lines = "\n".join(f"    {name:<{width}}  {sentence}" for name, sentence in sorted(COMMANDS.items()))
    return f"Usage: adsum COMMAND [options]\n\nCommands:\n{lines}\n\n`adsum COMMAND -h` tells more."
