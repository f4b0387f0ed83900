from __future__ import annotations

from adsum.agent.cli.command import Call, Command
from adsum.agent.cli.connection import CONNECTION, connect


def run(call: Call) -> int:
    with connect(call) as api:
        api.put("/v1/agent/leave")
    print("Graceful leave complete")
    return 0


COMMAND = Command(run, groups=(CONNECTION,))
