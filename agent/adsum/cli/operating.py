"""What operators ask of a running agent: maintenance, what it counts, its log, reload, leave, join."""

from __future__ import annotations

import json
import sys

from adsum.cli.command import (
    FAILURE,
    OK,
    UNREACHABLE,
    Command,
    CommandFlag,
    NotFound,
    ParsedCommand,
    UsageError,
)
from adsum.cli.connection import CONNECTION, AgentRefused, Api, BrokenOff, connect
from adsum.cli.states import NODE_MAINTENANCE, SERVICE_MAINTENANCE, is_maintenance
from adsum.cli.table import OUTPUT, Row, dump, dump_rows, is_table, printable

LEVELS = ("trace", "debug", "info", "warn", "err", "error")  # Consul's scripts say err
TOLD = {"Applied": "Applied", "NeedsRestart": "Changed, but needs a restart"}
GONE_S_MAX = 10.0  # after its answer the agent only closes what it has open
STILL_THERE = (
    "What listens at {} is still there: see that the agent's process has ended before you start it again"
)
UNKNOWN = "No node found with name"


def maint(call: ParsedCommand) -> int:
    enables, disables = call.is_on("enable"), call.is_on("disable")
    if enables and disables:
        raise UsageError("Only one of -enable or -disable may be provided")
    if not enables and not disables and (call.text("reason") or call.text("service")):
        raise UsageError("say -enable or -disable with -reason and -service")
    with connect(call) as api:
        if enables or disables:
            _set_maintenance(call, api)
        else:
            _list_maintenance(call, api)
    return OK


def _set_maintenance(call: ParsedCommand, api: Api) -> None:
    enables, service_id = call.is_on("enable"), call.text("service")
    query = [("enable", "true" if enables else "false"), ("reason", call.text("reason"))]
    done = "enabled" if enables else "disabled"
    if service_id:
        api.put(f"/v1/agent/service/maintenance/{service_id}", query)
        print(f'Service maintenance is now {done} for "{service_id}"')
    else:
        api.put("/v1/agent/maintenance", query)
        print(f"Node maintenance is now {done}")


def _list_maintenance(call: ParsedCommand, api: Api) -> None:
    checks = api.get_object("/v1/agent/checks")
    rows: list[Row] = []
    for check_id, check in sorted(checks.items()):
        if check_id == NODE_MAINTENANCE:
            rows.append({"Kind": "Node", "Name": check["Node"], "Reason": check["Notes"]})
        elif is_maintenance(check_id):
            name = check_id.removeprefix(SERVICE_MAINTENANCE)
            rows.append({"Kind": "Service", "Name": name, "Reason": check["Notes"]})
    if not is_table(call):
        dump_rows(call, rows)
        return
    for row in rows:
        name = "Name:   " if row["Kind"] == "Node" else "ID:     "
        print(f"{row['Kind']}:\n  {name}{printable(row['Name'])}\n  Reason: {printable(row['Reason'])}\n")


def info(call: ParsedCommand) -> int:
    with connect(call) as api:
        sections = api.get_object("/v1/agent/self")["Stats"]
    if not is_table(call):
        dump(call, sections)
        return OK
    for name, values in sorted(sections.items()):
        lines = [f"\t{key} = {printable(value)}" for key, value in sorted(values.items())]
        print("\n".join([f"{name}:", *lines]))
    return OK


def monitor(call: ParsedCommand) -> int:
    query = [("loglevel", call.text("log-level")), ("logjson", "1" if call.is_on("log-json") else "")]
    with connect(call) as api:
        try:
            for chunk in api.follow("/v1/agent/monitor", query):
                sys.stdout.write(chunk.decode(errors="replace"))
                sys.stdout.flush()
        except KeyboardInterrupt:  # how one stops watching
            return OK
    print("The agent ended the log: it has stopped, or was told to.", file=sys.stderr)
    return UNREACHABLE


def reload(call: ParsedCommand) -> int:
    with connect(call) as api:
        answer = api.put("/v1/agent/reload")
    print("Configuration reload triggered")
    changes = json.loads(answer) if answer else {}  # Consul's own agent says nothing
    for key, told in TOLD.items():
        if names := changes.get(key):
            print(f"{told}: {', '.join(names)}", file=sys.stderr)
    return OK


def leave(call: ParsedCommand) -> int:
    """Ends when the agent has, so that whoever starts it again next finds its data folder free."""
    broken: BrokenOff | None = None
    with connect(call) as api:
        try:
            api.put("/v1/agent/leave", [("force", "1" if call.is_on("force") else "")])
        except BrokenOff as problem:  # it may have ended before its answer was out
            broken = problem
        is_gone = api.is_gone(GONE_S_MAX)
    if broken is not None and not is_gone:
        raise broken
    print("Graceful leave complete")
    if not is_gone:
        print(STILL_THERE.format(api.shown), file=sys.stderr)
    return OK


def join(call: ParsedCommand) -> int:
    joined = 0
    with connect(call) as api:
        for address in call.words:
            try:
                api.put(f"/v1/agent/join/{address}", [("wan", "1" if call.is_on("wan") else "")])
                joined += 1
            except AgentRefused as refused:
                print(f"Error joining address '{address}': {refused}", file=sys.stderr)
    if not joined:
        print("Failed to join any nodes.", file=sys.stderr)
        return FAILURE
    print(f"Successfully joined cluster by contacting {joined} nodes.")
    return OK


def force_leave(call: ParsedCommand) -> int:
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
    return OK


COMMANDS = {
    "maint": Command(
        maint,
        flags=(
            CommandFlag("enable", "Begin maintenance: a critical check takes it out of every answer."),
            CommandFlag("disable", "End it."),
            CommandFlag("reason", "Why, for those who wonder.", "TEXT"),
            CommandFlag("service", "Id of a service on this node, instead of the node.", "ID"),
            OUTPUT,
        ),
        groups=(CONNECTION,),
        about="Without flags it lists what is in maintenance here.",
    ),
    "info": Command(info, flags=(OUTPUT,), groups=(CONNECTION,)),
    "monitor": Command(
        monitor,
        flags=(
            CommandFlag(
                "log-level", "The least of what is shown; info if not given.", "LEVEL", choices=LEVELS
            ),
            CommandFlag("log-json", "Lines in JSON."),
        ),
        groups=(CONNECTION,),
        about="It shows the log as it is written, whatever level the agent itself logs at, until Ctrl-C.",
    ),
    "reload": Command(
        reload,
        groups=(CONNECTION,),
        about="With one error in its files the agent keeps everything as it was, and says which.",
    ),
    "leave": Command(
        leave,
        flags=(CommandFlag("force", "Leave although the servers that stay cannot go on without this one."),),
        groups=(CONNECTION,),
    ),
    "join": Command(
        join,
        arguments="ADDRESS…",
        flags=(CommandFlag("wan", "Join the servers of another data centre."),),
        groups=(CONNECTION,),
    ),
    "force-leave": Command(
        force_leave,
        arguments="NODE",
        flags=(
            CommandFlag(
                "prune", "Take the member off the list at once as well; the journal keeps its story."
            ),
        ),
        groups=(CONNECTION,),
        about="One that is still alive rejoins at once.",
    ),
}
