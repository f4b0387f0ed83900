from __future__ import annotations

import json

from adsum.cli.command import Command, CommandFlag, ParsedCommand, UsageError
from adsum.cli.connection import CONNECTION, connect

FILTERS = ("node", "service", "tag")


def run(call: ParsedCommand) -> int:
    name = call.text("name")
    if not name:
        raise UsageError("-name=NAME is missing: an event has a name")
    if call.text("tag") and not call.text("service"):
        raise UsageError("-tag needs -service: it is about the tags of a service")
    for flag in FILTERS:
        _check_pattern(flag, call.text(flag))
    payload = call.words[0].encode() if call.words else b""
    query = [("dc", call.text("datacenter")), *((each, call.text(each)) for each in FILTERS)]
    with connect(call) as api:
        fired = json.loads(api.send("PUT", f"/v1/event/fire/{name}", query, payload))
    print(f"Event ID: {fired['ID']}")
    return 0


def _check_pattern(flag: str, text: str) -> None:
    """By the very library that agents read it with."""
    if not text:
        return
    from adsum.catalog.pattern import BadPattern, Pattern  # only for those who filter

    try:
        Pattern(text)
    except BadPattern as bad:
        raise UsageError(f"-{flag} is no regular expression: {bad}") from None


COMMAND = Command(
    run,
    arguments="[PAYLOAD]",
    flags=(
        CommandFlag("name", "Name of the event.", "NAME"),
        CommandFlag("node", "Only for nodes whose name matches.", "REGEX"),
        CommandFlag("service", "Only for nodes with a service whose id matches.", "REGEX"),
        CommandFlag("tag", "Only if such a service has a tag that matches.", "REGEX"),
        CommandFlag("datacenter", "Data centre to tell; the agent's own if not given.", "NAME"),
    ),
    groups=(CONNECTION,),
    about="Every agent that is meant lists it at /v1/event/list. It is told like all news, with no promise "
    "that it arrives everywhere or in any order.",
)
