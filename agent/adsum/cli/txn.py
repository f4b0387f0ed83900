"""`adsum txn`: operations that are all done or none, as JSON in the shape of Consul's API."""

from __future__ import annotations

import http
import json
import sys

from adsum.cli import kv_text
from adsum.cli.command import FAILURE, OK, Command, ParsedCommand
from adsum.cli.connection import CONNECTION, QUERY, AgentRefused, connect, data_query
from adsum.cli.table import printable


def run(call: ParsedCommand) -> int:
    word = call.words[0]
    body = kv_text.given_data(word if word == "-" else f"@{word.removeprefix('@')}")
    with connect(call) as api:
        try:
            answer = api.send("PUT", "/v1/txn", data_query(call), body)
        except AgentRefused as refused:
            if refused.code != http.HTTPStatus.CONFLICT:
                raise
            return _failed(str(refused))
    print(json.dumps(json.loads(answer)["Results"], indent=2))
    return OK


def _failed(told: str) -> int:
    """All operations that failed, each with its place from 0, as the API counts them."""
    print("Error! Nothing was done:", file=sys.stderr)
    for each in json.loads(told)["Errors"]:
        print(f"  operation {each['OpIndex']}: {printable(each['What'])}", file=sys.stderr)
    return FAILURE


COMMAND = Command(
    run,
    arguments="FILE",
    groups=(CONNECTION, QUERY),
    about="FILE is JSON, as for /v1/txn, or - for the standard input. It prints what was read and written.\n"
    "Exit status: 0, or 1 if some operation failed, and so none was done.",
)
