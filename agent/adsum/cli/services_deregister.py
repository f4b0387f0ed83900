from __future__ import annotations

import os

from adsum.cli.command import Command, CommandFlag, ParsedCommand, UsageError
from adsum.cli.connection import CONNECTION, QUERY, connect
from adsum.cli.service_files import read_definitions, text_of


def run(call: ParsedCommand) -> int:
    ids = list(call.texts("id"))
    if bool(ids) == bool(call.words):
        raise UsageError("give files, or -id")
    for word in call.words:
        if word != "-" and not os.path.exists(word):
            raise UsageError(f"there is no file {word}; a service's id goes with -id={word}")
    if call.words:
        ids = [text_of(definition, "id", "name") for definition in read_definitions(call.words)]
    with connect(call) as api:
        for service_id in ids:
            api.put(f"/v1/agent/service/deregister/{service_id}")
            print(f"Deregistered service: {service_id}")
    return 0


COMMAND = Command(
    run,
    arguments="[FILE…]",
    flags=(CommandFlag("id", "Id of the service.", "ID", is_repeatable=True),),
    groups=(CONNECTION, QUERY),
    about="Files are those that registered the services. One that is not registered counts as gone.",
)
