"""The command line: one file for a command or a family of them, imported only when it is called.

Nothing here imports trio or the agent's rooms: `adsum version` has to answer in the time of a shell prompt.
Data goes to the standard output and everything said to people to the standard error. Whatever goes wrong is
one sentence and an exit status: 1 failed, 2 not understood, 3 not found, 4 no agent to ask.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from itertools import takewhile

from adsum.cli.command import (
    FAILURE,
    USAGE,
    Command,
    CommandFailed,
    FlagGroup,
    HelpWanted,
    UsageError,
    did_you_mean,
    parse,
)
from adsum.cli.streams import open_closed_streams

# What a shell reports for a program that a signal ended, which is what Consul's would be.
INTERRUPTED, PIPE_CLOSED = 130, 141
HELP_WORDS = (["-h"], ["-help"], ["--help"])

# In the order in which people meet them.
COMMANDS = {
    "agent": "Start the agent on this host",
    "members": "The members, and how each of them stands",
    "services list": "The services registered with this agent",
    "services register": "Register services with this agent",
    "services deregister": "Take services off this agent",
    "health": "How services are, or one of them with its checks",
    "catalog datacenters": "The data centres",
    "catalog nodes": "The nodes of the catalog",
    "catalog services": "The services of the catalog, by name",
    "catalog owners": "Whose entries this agent has, and since when they are certain",
    "catalog diff": "Where the catalogs of two agents differ",
    "resolve": "What DNS answers to a name, and why",
    "kv get": "The value of a key, or all values below a prefix",
    "kv list": "The keys below a prefix, as a tree",
    "kv put": "Write a value under a key",
    "kv delete": "Delete a key, or all keys below a prefix",
    "kv export": "Write out all keys below a prefix, with their values",
    "kv import": "Write keys that were exported",
    "session create": "Begin a session, which can hold keys",
    "session renew": "Keep a session alive",
    "session destroy": "End a session, and let go of what it holds",
    "session list": "The sessions",
    "session info": "One session",
    "txn": "Do several operations, all or none",
    "lock": "Run a command while holding a lock",
    "watch": "Show what there is, or run a command for each change of it",
    "maint": "Put this node or one of its services into maintenance",
    "info": "What the agent counts about itself",
    "monitor": "Follow the agent's log",
    "validate": "Check configuration files without starting anything",
    "reload": "Have the agent read its configuration again",
    "leave": "Have the agent leave in good order and end",
    "join": "Have the agent join others",
    "force-leave": "Declare a failed member gone",
    "rtt": "How far apart two members are",
    "event": "Tell all agents that something happened",
    "keyring": "List and change the keys of gossip on every member",
    "operator raft": "Which servers take part in consensus, who leads and who votes",
    "timeline": "What happened to members, and on what grounds",
    "explain": "Why a node, a key or a session is as it is, and what to do next",
    "simulate": "Rehearse trouble in a simulated cluster: times, false verdicts, cost",
    "keygen": "Make a key for encrypting gossip",
    "completion": "Completion for bash, zsh or fish",
    "version": "This version and the Consul API level it speaks",
}
OPERATING = ("maint", "info", "monitor", "reload", "leave", "join", "force-leave")

# What Consul 1.8.7 has beside those, so that they are not taken for slips.
NOT_HERE = "acl config connect debug exec intention login logout snapshot tls"


def main(argv: Sequence[str] | None = None) -> int:
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal that lacks a letter is no reason to fail
            stream.reconfigure(errors="backslashreplace")
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        status = _run(words)
        sys.stdout.flush()
    except CommandFailed as problem:
        print(f"adsum: {problem}", file=sys.stderr)
        return problem.status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # whoever read us has seen enough
        _forget_output()
        return PIPE_CLOSED
    except OSError as problem:  # of what is asked of the agent nothing comes this far: it is our own output
        _forget_output()
        is_closed = problem.errno == errno.EBADF
        reason = "the standard output is closed" if is_closed else problem.strerror or str(problem)
        print(f"adsum: cannot write the output: {reason}", file=sys.stderr)
        return FAILURE
    except Exception as bug:  # a traceback tells an operator nothing; the place is enough for us
        print(f"adsum: a bug of its own stopped it: {_told(bug)}. Please report it.", file=sys.stderr)
        return FAILURE
    return status


def _run(words: list[str]) -> int:
    if words[:1] in (["-v"], ["-version"], ["--version"]):
        words[0] = "version"
    wants_help = words[:1] in ([], ["help"], *HELP_WORDS)
    if wants_help:
        del words[:1]
    if words[:1] and words[0].startswith("-"):
        raise UsageError(f"{words[0]} stands before a command: flags follow it\nTry `adsum help`.")
    name = find_command(words)
    rest = words[len(name.split()) :]
    if name not in COMMANDS:
        return _overview(name, wants_help=wants_help or rest[:1] in HELP_WORDS)
    try:
        gc.disable()  # loading makes little garbage and much to look through
        try:
            command = load_command(name)
            call = parse(command, ["-h"] if wants_help else rest)
        finally:
            gc.enable()
        return command.run(call)
    except HelpWanted:
        print(_described(name, load_command(name)))
        return 0
    except UsageError as problem:
        raise UsageError(f"{name}: {problem}\nTry `adsum {name} -h`.") from None


def find_command(words: Sequence[str]) -> str:
    """The name that the words begin with, or the first word of several, or "" when there is none."""
    for name in (" ".join(words[:2]), *words[:1]):
        if name in COMMANDS:
            return name
    before_flags = list(takewhile(lambda word: not word.startswith("-"), words[:2]))
    firsts = [name.split()[0] for name in COMMANDS]
    if before_flags and before_flags[0] in NOT_HERE.split():
        raise UsageError(f"Consul has the command {before_flags[0]}, Adsum has not yet\nTry `adsum help`.")
    if before_flags and before_flags[0] not in firsts:
        raise _unknown(before_flags[0], firsts)
    if len(before_flags) > 1:
        raise _unknown(" ".join(before_flags), list(COMMANDS))
    return " ".join(before_flags)


def _unknown(name: str, known: Sequence[str]) -> UsageError:
    return UsageError(f'there is no command "{name}"{did_you_mean(name, known)}\nTry `adsum help`.')


def load_command(name: str) -> Command:
    first = name.split()[0]
    module = import_module(f"adsum.cli.{'operating' if first in OPERATING else first}")
    command: Command = module.COMMAND if hasattr(module, "COMMAND") else module.COMMANDS[name]
    return command


def _described(name: str, command: Command) -> str:
    usage = " ".join(filter(None, ("adsum", name, "[flags]", command.arguments)))
    parts = [f"Usage: {usage}", f"{COMMANDS[name]}."]
    if command.about:
        parts.append(command.about)
    for group in (FlagGroup("Flags", command.flags), *command.groups):
        if group.flags:
            rows = []
            for flag in group.flags:
                again = " May be given again." if flag.is_repeatable else ""
                choices = f" One of: {', '.join(flag.choices)}." if flag.choices else ""
                rows.append((f"-{flag.name}={flag.value}".rstrip("="), f"{flag.help}{choices}{again}"))
            parts.append("\n".join([f"{group.title}:", *_columns(rows)]))
    return "\n\n".join(parts)


def _overview(name: str, *, wants_help: bool) -> int:
    """Of all commands, or of those that share their first word."""
    words = f"{name} COMMAND".lstrip()
    rows = [each for each in COMMANDS.items() if each[0].startswith(f"{name} ".lstrip())]
    lines = [f"Usage: adsum {words} [flags]", "", *_columns(rows), "", "`adsum COMMAND -h` tells more."]
    print("\n".join(lines), file=sys.stdout if wants_help else sys.stderr)
    return 0 if wants_help else USAGE


def _columns(rows: list[tuple[str, str]]) -> list[str]:
    width = max(len(left) for left, _ in rows)
    return [f"  {left:<{width}}  {right}" for left, right in rows]


def _forget_output() -> None:
    """So that the interpreter's own last flush does not complain as well."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _told(bug: Exception) -> str:
    trace = bug.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" ({os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno})" if trace else ""
    return f"{type(bug).__name__}: {bug}{place}"
