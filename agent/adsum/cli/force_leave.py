from __future__ import annotations

from adsum.cli.command import Call, Command, Failed, Flag, NotFound
from adsum.cli.connection import CONNECTION, Refused, connect

UNKNOWN = "No node found with name"


def run(call: Call) -> int:
    with connect(call) as api:
        prune = "1" if call.is_on("prune") else ""
        try:
            said = api.put(f"/v1/agent/force-leave/{call.words[0]}", [("prune", prune)])
        except Refused as refused:
            raise _told(refused, call.words[0]) from None
    if said:
        print(said.decode())
    return 0


def _told(refused: Refused, name: str) -> Failed:
    """Consul's status for a name that nobody has is that of a failure, and its sentence ends there."""
    if UNKNOWN in str(refused):
        return NotFound(f"no member has the name {name}: `adsum members` lists them")
    return refused


COMMAND = Command(
    run,
    arguments="NODE",
    flags=(Flag("prune", "Take the member off the list at once as well; the journal keeps its story."),),
    groups=(CONNECTION,),
    about="One that is still alive will soon be back on the roll.",
)
