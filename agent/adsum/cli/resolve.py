"""`adsum resolve NAME`: what DNS answers, as zone file lines, under the reasons as comments.

So `adsum resolve web.service.consul | grep -v '^;'` is the bare answer. The exit status is 3 where the answer
holds nothing.
"""

from __future__ import annotations

import ipaddress
from contextlib import suppress

from adsum.cli.command import FAILURE, NOT_FOUND, OK, Command, CommandFlag, ParsedCommand
from adsum.cli.connection import CONNECTION, connect
from adsum.cli.table import OUTPUT, dump, is_table, printable

TYPES = ("A", "AAAA", "SRV", "TXT", "ANY", "PTR", "CNAME", "NS", "SOA")
ANSWERED = ("NOERROR", "NXDOMAIN")


def run(call: ParsedCommand) -> int:
    name, qtype = call.words[0], call.text("type")
    with suppress(ValueError):  # an address alone asks who is there
        name, qtype = ipaddress.ip_address(name).reverse_pointer, qtype or "PTR"
    with connect(call) as api:
        found = api.get_object(f"/v1/resolve/{name}", [("type", qtype or "A")])
    if is_table(call):
        lines = [f"; {reason}" for reason in found["Reasons"]] + found["Answers"]
        if found["Additional"]:
            lines += ["; Beside it:", *found["Additional"]]
        print("\n".join(map(printable, lines)))
    else:
        dump(call, found)
    if found["Rcode"] not in ANSWERED:
        return FAILURE
    return OK if found["Answers"] else NOT_FOUND


COMMAND = Command(
    run,
    arguments="NAME",
    flags=(CommandFlag("type", "Type of the records; A if not given.", "TYPE", choices=TYPES), OUTPUT),
    groups=(CONNECTION,),
    about="NAME is a whole DNS name as web.service.consul, or an address to ask who is there.\n"
    "Exit status: 0 if there are records, 3 if there are none.",
)
