"""`adsum leave`: ends when the agent has, so that whoever starts it again next finds its data folder free."""

from __future__ import annotations

import sys

from adsum.cli.command import OK, Command, ParsedCommand
from adsum.cli.connection import CONNECTION, BrokenOff, connect

GONE_S_MAX = 10.0  # after its answer the agent only closes what it has open
STILL_THERE = (
    "What listens at {} is still there: see that the agent's process has ended before you start it again"
)


def run(call: ParsedCommand) -> int:
    broken: BrokenOff | None = None
    with connect(call) as api:
        try:
            api.put("/v1/agent/leave")
        except BrokenOff as problem:  # it may have ended before its answer was out
            broken = problem
        is_gone = api.is_gone(GONE_S_MAX)
    if broken is not None and not is_gone:
        raise broken
    print("Graceful leave complete")
    if not is_gone:
        print(STILL_THERE.format(api.shown), file=sys.stderr)
    return OK


COMMAND = Command(run, groups=(CONNECTION,))
