from __future__ import annotations

from adsum.cli.command import Command, CommandFlag, NotFound, ParsedCommand
from adsum.cli.connection import CONNECTION, AgentRefused, connect

UNKNOWN = "No node found with name"


def run(call: ParsedCommand) -> int:
    with connect(call) as api:
        prune = "1" if call.is_on("prune") else ""
        try:
            said = api.put(f"/v1/agent/force-leave/{call.words[0]}", [("prune", prune)])
        except AgentRefused as refused:
            if UNKNOWN not in str(refused):
                raise
            # Consul's status for a name that nobody has is that of a failure, and its sentence ends there.
            name = call.words[0]
            raise NotFound(f"no member has the name {name}: `adsum members` lists them") from None
    if said:
        print(said.decode())
    return 0


COMMAND = Command(
    run,
    arguments="NODE",
    flags=(
        CommandFlag("prune", "Take the member off the list at once as well; the journal keeps its story."),
    ),
    groups=(CONNECTION,),
    about="One that is still alive rejoins at once.",
)
