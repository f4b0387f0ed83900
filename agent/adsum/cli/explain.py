"""`adsum explain NODE`: how a node stands, the story that led there, and what one would do next; and `adsum
explain kv/KEY`: what became of a key. No node has a slash in its name that could be looked up in DNS."""

from __future__ import annotations

from collections.abc import Iterator

from adsum.cli.command import FAILURE, OK, Command, ParsedCommand
from adsum.cli.connection import CONNECTION, connect
from adsum.cli.table import OUTPUT, Row, doubt, dump, is_table, local_time, printable

EXPECTED = ("alive", "suspect")  # to answer; of the others silence is no surprise
IN_TROUBLE = ("suspect", "failed")


KEY = "kv/"


def run(call: ParsedCommand) -> int:
    if call.words[0].startswith(KEY):
        return _explain_key(call, call.words[0].removeprefix(KEY))
    with connect(call) as api:
        found = api.get_object(f"/v1/membership/explain/{call.words[0]}")
    if is_table(call):
        print("\n".join(map(printable, _lines(found))))
    else:
        dump(call, found)
    return FAILURE if found["Status"] in IN_TROUBLE else OK


def _lines(found: Row) -> Iterator[str]:
    yield f"{found['Summary']} So says {found['Observer']}."
    if sentence := doubt(found):
        yield sentence
    if found["Member"] is not None and not found["Member"]["Self"]:
        yield from _facts(found["Member"])
    if found["Story"]:
        yield ""
        for step in found["Story"]:
            yield f"  {local_time(step['Time'])}  {step['Sentence']}"
    yield ""
    yield f"Next: {found['Next']}"


def _facts(member: Row) -> Iterator[str]:
    facts = [f"at {member['Address']}", f"generation {member['Generation']}"]
    facts.append(f"incarnation {member['Incarnation']}")
    if member["HeardAgoMS"] is not None:
        facts.append(f"last answered {member['HeardAgoMS'] / 1_000:.1f} s ago")
    if member["RoundTripMS"] is not None:
        facts.append(f"round trip {member['RoundTripMS']:.1f} ms")
    yield f"  {', '.join(facts)}"
    if member["Phi"] and member["Status"] in EXPECTED:
        parts = (f"{name.lower()} {value:.1f}" for name, value in member["PhiParts"].items())
        yield f"  phi {member['Phi']:.1f}: {', '.join(parts)}"


def _explain_key(call: ParsedCommand, key: str) -> int:
    with connect(call) as api:
        found = api.get_object(f"/v1/explain/kv/{key}")
    if is_table(call):
        print("\n".join(map(printable, _lines_of_key(found))))
    else:
        dump(call, found)
    return OK


def _lines_of_key(found: Row) -> Iterator[str]:
    yield f"{found['Summary']} So says {found['Observer']}."
    facts = []
    if found["Exists"]:
        facts.append(f"written {_counted(found['Version'], 'time')} since it was created")
    facts.append(f"{_counted(found['Waiting'], 'request')} waiting here for a change")
    yield f"  {', '.join(facts)}"
    if found["IsCut"] or found["Story"]:
        yield ""
    if found["IsCut"]:
        yield "  (there is more before these)"
    for step in found["Story"]:
        yield f"  {local_time(step['Time'])}  revision {step['Revision']}: {step['Sentence']}"
    if found["Floor"]:
        yield f"  (of what happened up to revision {found['Floor']} not all is remembered)"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


COMMAND = Command(
    run,
    arguments="NODE|kv/KEY",
    flags=(OUTPUT,),
    groups=(CONNECTION,),
    about="NODE is a name or a whole id. Told is what this agent saw: ask another with -http-addr.\n"
    "kv/KEY tells when a key was changed, through which agents, and who waits for it; never its value.\n"
    "A value that is written again by Consul's clients is no change, and leaves no trace.\n"
    "Exit status: 0, or 1 if the node is suspected or failed, 3 if nobody knows it or the key.",
)
