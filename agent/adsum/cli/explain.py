"""`adsum explain NODE`: how a node stands, the story that led there, and what one would do next. `adsum
explain kv/KEY`: what became of a key. `adsum explain SESSION`: what a session holds, or why it ended.

No node has a slash in its name that could be looked up in DNS. An id may be a session's or a node's."""

from __future__ import annotations

import http
import re
from collections.abc import Iterator

from adsum.cli.command import FAILURE, OK, Command, ParsedCommand
from adsum.cli.connection import CONNECTION, AgentRefused, Api, connect
from adsum.cli.table import OUTPUT, Row, doubt, dump, is_table, local_time, printable

EXPECTED = ("alive", "suspect")  # to answer; of the others silence is no surprise
IN_TROUBLE = ("suspect", "failed")


KEY = "kv/"
ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def run(call: ParsedCommand) -> int:
    if call.words[0].startswith(KEY):
        return _explain_key(call, call.words[0].removeprefix(KEY))
    with connect(call) as api:
        session = _session(api, call.words[0]) if ID.fullmatch(call.words[0]) else None
        if session is not None:
            return _say_session(call, session)
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


def _session(api: Api, session_id: str) -> Row | None:
    """None: nobody knows a session by that id."""
    try:
        return api.get_object(f"/v1/explain/session/{session_id}")
    except AgentRefused as refused:
        if refused.code != http.HTTPStatus.NOT_FOUND:
            raise
        return None


def _say_session(call: ParsedCommand, found: Row) -> int:
    if is_table(call):
        print("\n".join(map(printable, _lines_of_session(found))))
    else:
        dump(call, found)
    return OK if found["Status"] == "alive" else FAILURE


def _lines_of_session(found: Row) -> Iterator[str]:
    yield f"{found['Summary']} So says {found['Observer']}."
    yield f"  created {local_time(found['Created'])}"
    if found["Ended"] is not None:
        yield f"  ended {local_time(found['Ended']['Time'])}, at index {found['Ended']['Index']}"
    for key in found["Keys"]:
        yield f"  holds {key}"
    if found["KeysTotal"] > len(found["Keys"]):
        yield f"  and {found['KeysTotal'] - len(found['Keys'])} more"
    if found["Ends"]:
        yield ""
        yield "It ends when:"
    for reason in found["Ends"]:
        yield f"  {reason}"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


COMMAND = Command(
    run,
    arguments="NODE|kv/KEY|SESSION",
    flags=(OUTPUT,),
    groups=(CONNECTION,),
    about="NODE is a name or a whole id. Told is what this agent saw: ask another with -http-addr.\n"
    "kv/KEY tells when a key was changed, through which agents, and who waits for it; never its value.\n"
    "A value that is written again by Consul's clients is no change, and leaves no trace.\n"
    "SESSION is an id: told is what it holds and what would end it, or why it ended.\n"
    "Exit status: 0, or 1 if the node is suspected or failed or the session has ended, 3 if nobody knows it.",
)
