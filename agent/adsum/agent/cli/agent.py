"""`adsum agent`: reads the configuration and becomes the agent.

Its flags are configuration keys, so `agent.config` reads them, reports every slip at once, and has the help.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

from adsum.agent.cli.command import FAILURE, HELP_FLAGS, Call, Command, Flag
from adsum.agent.config.errors import ConfigErrors
from adsum.agent.config.flags import AGENT_FLAGS, FlagError, agent_usage, parse_agent_flags
from adsum.agent.config.load import load


def run(call: Call) -> int:
    if wants_help(call.words):
        print(agent_usage())
        return 0
    try:
        paths, flags = parse_agent_flags(call.words)
        loaded = load(paths, flags)
    except (ConfigErrors, FlagError) as problem:
        print(f"The agent did not start:\n{problem}", file=sys.stderr)
        return FAILURE
    from adsum.agent.run import run_agent  # trio and every room behind it, only now

    try:
        return run_agent(loaded, lambda: load(paths, flags))
    except Exception:
        logging.getLogger("agent").critical("the agent ends, because of a bug of its own", exc_info=True)
        return FAILURE


def wants_help(words: Sequence[str]) -> bool:
    return any(word.startswith("-") and word.lstrip("-") in HELP_FLAGS for word in words)


COMMAND = Command(
    run,
    flags=tuple(
        Flag(flag.name, flag.help, "…" if flag.takes_value else "", is_repeatable=flag.is_repeatable)
        for flag in AGENT_FLAGS
    ),
    is_raw=True,
)
