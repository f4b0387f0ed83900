from __future__ import annotations

from adsum.agent.cli.command import Call, Command, Flag
from adsum.agent.cli.connection import CONNECTION, connect


def run(call: Call) -> int:
    with connect(call) as api:
        api.put(f"/v1/agent/force-leave/{call.words[0]}", [("prune", "1" if call.is_on("prune") else "")])
    return 0


COMMAND = Command(
    run,
    arguments="NODE",
    flags=(Flag("prune", "Forget the member at once, and its history."),),
    groups=(CONNECTION,),
    about="One that is still alive will soon be back on the roll.",
)
