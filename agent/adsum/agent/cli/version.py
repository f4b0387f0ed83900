from __future__ import annotations

from adsum.agent.cli.command import Call, Command
from adsum.api.version import CONSUL_API_VERSION, own_version


def run(_call: Call) -> int:
    print(f"Adsum v{own_version()}\nSpeaks the API of Consul {CONSUL_API_VERSION}")
    return 0


COMMAND = Command(run)
