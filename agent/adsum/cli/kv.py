"""`adsum kv …`: keys, in the words and bytes of Consul's command line, for scripts read those; `list` is
ours.

A missing key and a lost compare are failures of status 1, as in Consul. A key is named without a slash before
it, which people put there out of habit.
"""

from __future__ import annotations

import http
import sys
import time
from collections.abc import Sequence
from typing import Any

from adsum.cli import kv_text
from adsum.cli.command import FAILURE, OK, Command, CommandFailed, CommandFlag, ParsedCommand, UsageError
from adsum.cli.connection import CONNECTION, QUERY, AgentRefused, Api, Query, connect, data_query
from adsum.cli.kv_text import KeyPair
from adsum.cli.table import OUTPUT, dump, dump_rows, is_table, printable

PATH = "/v1/kv/"
SEPARATOR = "/"
UINT64_MAX = 2**64 - 1
DRAW_S = 0.1
NO_INDEX = "Must specify -modify-index with -cas!"
LOCKS = {"acquire": ("Lock acquired on", "acquire"), "release": ("Lock released on", "release")}


def get(call: ParsedCommand) -> int:
    wants_names, is_tree = call.is_on("keys"), call.is_on("recurse")
    key = _prefix(call) if wants_names or is_tree else _key(call)
    with connect(call) as api:
        if wants_names:
            separator = ("separator", call.text("separator", SEPARATOR))
            return _say_names(call, _found(api, key, [*data_query(call), ("keys", "1"), separator]))
        found = _found(api, key, [*data_query(call), ("recurse", "1" if is_tree else "")])
    if not found and not is_tree:
        return _failed(f"No key exists at: {key}")
    in_base64 = call.is_on("base64")
    if not is_table(call):
        dump_rows(call, found) if is_tree else dump(call, found[0])
    elif call.is_on("detailed"):
        kv_text.say(kv_text.details(found, in_base64=in_base64))
    elif is_tree:
        kv_text.say(kv_text.values(found, in_base64=in_base64))
    else:
        kv_text.say(kv_text.bare(found[0], in_base64=in_base64))
    return OK


def list_keys(call: ParsedCommand) -> int:
    prefix = _prefix(call)
    with connect(call) as api:
        found = _found(api, prefix, [*data_query(call), ("keys", "1")])
    if not is_table(call):
        return _say_names(call, found)
    for line in kv_text.tree(found):
        print(line)
    if not found:
        print(f"No key begins with {printable(prefix)}." if prefix else "There are no keys.", file=sys.stderr)
    return OK


def put(call: ParsedCommand) -> int:
    key = call.words[0]
    if not key:
        raise UsageError("KEY is empty")
    if key.startswith("/"):
        raise UsageError(f"a key must not begin with a slash: {printable(key)}")
    query = [("dc", call.text("datacenter"))]
    if call.text("flags"):
        query.append(("flags", str(_unsigned(call, "flags"))))
    if call.is_on("cas"):
        query.append(_compare(call))
    locks = [name for name in LOCKS if call.is_on(name)]
    if locks and not call.text("session"):
        raise UsageError("Missing -session (required with -acquire and -release)")
    query += [(name, call.text("session")) for name in locks]
    data = kv_text.given_data(call.words[1]) if len(call.words) > 1 else b""
    if call.is_on("base64"):
        data = kv_text.from_base64(data, "the data")
    with connect(call) as api:
        is_done = _is_true(api.send("PUT", PATH + key, query, data))
        reason = api.header("X-Adsum-Reason")
    if locks:
        done, wanted = LOCKS[locks[0]]
        status = _told(f"{done}: {key}") if is_done else _failed(f"Did not {wanted} lock")
        if reason:
            print(printable(reason), file=sys.stderr)
        return status
    return _told(f"Data written to: {key}") if is_done else _failed(f"Did not write to {key}: CAS failed")


def delete(call: ParsedCommand) -> int:
    is_tree, compares = call.is_on("recurse"), call.is_on("cas")
    key = _prefix(call) if is_tree else _key(call)
    if compares and is_tree:
        raise UsageError("Cannot specify both -cas and -recurse!")
    if call.text("modify-index") and not compares:
        raise UsageError("Cannot specify -modify-index without -cas!")
    query = [("dc", call.text("datacenter")), ("recurse", "1" if is_tree else "")]
    if compares:
        query.append(_compare(call))
    with connect(call) as api:
        is_done = _is_true(api.send("DELETE", PATH + key, query))
    if not is_done:
        return _failed(f"Did not delete key {key}: CAS failed")
    return _told(f"Deleted keys with prefix: {key}" if is_tree else f"Deleted key: {key}")


def export(call: ParsedCommand) -> int:
    with connect(call) as api:
        found = _found(api, _prefix(call), [*data_query(call), ("recurse", "1")])
    print(kv_text.exported(found))
    return OK


def import_keys(call: ParsedCommand) -> int:
    """Nothing is written before all of it could be read."""
    pairs = kv_text.pairs_of(kv_text.given_data(call.words[0]))
    progress = _Progress(len(pairs))
    with connect(call) as api:
        for number, pair in enumerate(pairs):
            key = call.text("prefix") + pair.key
            try:
                _put_pair(api, call, key, pair)
            except CommandFailed as problem:
                progress.end()
                done = f"{number} of {len(pairs)} keys were imported, then {printable(key)} failed: {problem}"
                problem.args = (f"{done}. To import all of them again does no harm",)
                raise
            progress.imported(key)
    progress.end()
    return OK


class _Progress:
    """A line for each key, as in Consul; on a terminal one line that counts."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._done = 0
        self._is_drawn = sys.stdout.isatty()
        self._drawn_s = 0.0

    def imported(self, key: str) -> None:
        self._done += 1
        if not self._is_drawn:
            print(f"Imported: {key}")
        elif time.monotonic() - self._drawn_s >= DRAW_S:
            self._draw()

    def end(self) -> None:
        if self._is_drawn:
            self._draw()
            print()

    def _draw(self) -> None:
        self._drawn_s = time.monotonic()
        print(f"\rImported {self._done} of {self._total} keys", end="", flush=True)


def _put_pair(api: Api, call: ParsedCommand, key: str, pair: KeyPair) -> None:
    flags = ("flags", str(pair.flags) if pair.flags else "")
    if not _is_true(api.send("PUT", PATH + key, [("dc", call.text("datacenter")), flags], pair.value)):
        raise CommandFailed("the agent did not write it, and did not say why")


# What is asked.


def _prefix(call: ParsedCommand) -> str:
    return call.words[0].removeprefix("/") if call.words else ""


def _key(call: ParsedCommand) -> str:
    key = _prefix(call)
    if not key:
        raise UsageError("KEY is missing")
    return key


def _compare(call: ParsedCommand) -> tuple[str, str]:
    if not call.text("modify-index"):
        raise UsageError(NO_INDEX)
    return "cas", str(_unsigned(call, "modify-index"))


def _unsigned(call: ParsedCommand, flag: str) -> int:
    """In the forms that Go takes: 42, 0x2a."""
    try:
        number = int(call.text(flag), 0)
    except ValueError:
        number = -1
    if not 0 <= number <= UINT64_MAX:
        raise UsageError(f'-{flag} is a number from 0 to 2^64 - 1, not "{call.text(flag)}"')
    return number


def _found(api: Api, key: str, query: Query) -> list[Any]:
    try:
        return api.get_list(PATH + key, query)
    except AgentRefused as refused:
        if refused.code == http.HTTPStatus.NOT_FOUND:
            return []
        raise


def _is_true(answer: bytes) -> bool:
    return b"true" in answer


# What is told.


def _say_names(call: ParsedCommand, found: Sequence[str]) -> int:
    if is_table(call):
        kv_text.say(kv_text.names(found))
    else:
        dump_rows(call, found)
    return OK


def _told(what: str) -> int:
    print(f"Success! {what}")
    return OK


def _failed(why: str) -> int:
    print(f"Error! {printable(why)}", file=sys.stderr)
    return FAILURE


CAS = CommandFlag("cas", "Only if the key's ModifyIndex is still what -modify-index says.")
MODIFY_INDEX = CommandFlag("modify-index", "The ModifyIndex that the key must have, with -cas.", "NUMBER")
IN_BASE64 = CommandFlag("base64", "Show values in base64.")

COMMANDS = {
    "kv get": Command(
        get,
        arguments="[KEY]",
        flags=(
            CommandFlag("recurse", "All keys that begin so, each with its value."),
            CommandFlag("keys", "The names of those alone, cut after the separator."),
            CommandFlag("separator", "Where names are cut, with -keys; / if not given.", "TEXT"),
            CommandFlag("detailed", "Also indexes, flags, and the session that holds it."),
            IN_BASE64,
            OUTPUT,
        ),
        groups=(CONNECTION, QUERY),
        about="Exit status: 0, or 1 if there is no such key.",
    ),
    "kv list": Command(
        list_keys,
        arguments="[PREFIX]",
        flags=(OUTPUT,),
        groups=(CONNECTION, QUERY),
    ),
    "kv put": Command(
        put,
        arguments="KEY [DATA]",
        flags=(
            CAS._replace(help=f"{CAS.help} With 0: only if there is none."),
            MODIFY_INDEX,
            CommandFlag("flags", "A number to keep with the value.", "NUMBER"),
            CommandFlag("base64", "The data is in base64."),
            CommandFlag("acquire", "Lock the key with -session."),
            CommandFlag("release", "Unlock it."),
            CommandFlag("session", "The session that locks or unlocks.", "ID"),
        ),
        groups=(CONNECTION, QUERY),
        flags_come_first=True,
        about="DATA is the value itself, @FILE, or - for the standard input; without it the value is empty.\n"
        "Exit status: 0, or 1 if nothing was written, as when another was faster than -cas.",
    ),
    "kv delete": Command(
        delete,
        arguments="[KEY]",
        flags=(CommandFlag("recurse", "All keys that begin so; without a key, all."), CAS, MODIFY_INDEX),
        groups=(CONNECTION, QUERY),
        about="A key that is not there counts as deleted.",
    ),
    "kv export": Command(
        export,
        arguments="[PREFIX]",
        groups=(CONNECTION, QUERY),
        about="It writes JSON that `kv import` reads, here and in Consul: key, flags, and value in base64.",
    ),
    "kv import": Command(
        import_keys,
        arguments="DATA",
        flags=(CommandFlag("prefix", "Put this before each key.", "PREFIX"),),
        groups=(CONNECTION, QUERY),
        flags_come_first=True,
        about="DATA is JSON as `kv export` writes it, @FILE, or - for the standard input. Other keys stay.",
    ),
}
