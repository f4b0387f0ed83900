from __future__ import annotations

from adsum.api.version import ADSUM_VERSION, CONSUL_API_VERSION
from adsum.cli.command import Call, Command


def run(_call: Call) -> int:
    print(f"Adsum v{ADSUM_VERSION}\nSpeaks the API of Consul {CONSUL_API_VERSION}")
    return 0


COMMAND = Command(run)
