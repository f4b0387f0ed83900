from __future__ import annotations

from adsum.cli.command import Command, ParsedCommand
from adsum.version import ADSUM_VERSION, CONSUL_API_VERSION


def run(_call: ParsedCommand) -> int:
    print(f"Adsum v{ADSUM_VERSION}\nSpeaks the API of Consul {CONSUL_API_VERSION}")
    return 0


COMMAND = Command(run)
