"""`adsum agent`: reads the configuration and becomes the agent.

Its flags are configuration keys, so `agent.config` reads them, reports every slip at once, and has the help.
"""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Sequence

from adsum.cli.command import (
    FAILURE,
    HELP_FLAGS,
    USAGE,
    Command,
    CommandFlag,
    FlagGroup,
    HelpWanted,
    ParsedCommand,
)
from adsum.cli.streams import ClosedOutput
from adsum.config.errors import ConfigErrors
from adsum.config.flags import AGENT_FLAGS, FlagError, parse_agent_flags
from adsum.config.keys import Fate
from adsum.config.load import load


def run(call: ParsedCommand) -> int:
    gc.disable()  # first of all, else what was just loaded is looked through; an agent that is up enables it
    try:
        return _start(call.words)
    finally:
        gc.enable()


def _start(words: Sequence[str]) -> int:
    if any(word.startswith("-") and word.lstrip("-") in HELP_FLAGS for word in words):
        raise HelpWanted
    try:
        paths, flags = parse_agent_flags(words)
        loaded = load(paths, flags)
    except (ConfigErrors, FlagError) as problem:
        print(f"The agent did not start:\n{problem}", file=sys.stderr)
        return USAGE if isinstance(problem, FlagError) else FAILURE
    from adsum.process.run import run_agent  # trio and every room behind it, only now

    if isinstance(sys.stdout, ClosedOutput):
        sys.stdout = sys.stderr  # a daemon's starter may close it, and the log has to go somewhere
    try:
        return run_agent(loaded, lambda: load(paths, flags))
    except Exception:
        logging.getLogger("agent").critical("the agent ends, because of a bug of its own", exc_info=True)
        return FAILURE


def _shown(*fates: Fate) -> tuple[CommandFlag, ...]:
    return tuple(
        CommandFlag(flag.name, flag.help, "…" if flag.takes_value else "", is_repeatable=flag.is_repeatable)
        for flag in AGENT_FLAGS
        if flag.fate in fates
    )


COMMAND = Command(
    run,
    flags=_shown(Fate.RESTART, Fate.RELOAD),
    groups=(
        FlagGroup("Consul's flags that have no effect here yet", _shown(Fate.WARNED, Fate.MOOT)),
        FlagGroup("Consul's flags that protect something, and stop the start", _shown(Fate.PROTECTS)),
    ),
    about="`adsum agent -dev` is for trying it out.\n"
    "`adsum agent -config-dir=/etc/adsum -data-dir=/var/lib/adsum` is for staying.",
    is_raw=True,
)
