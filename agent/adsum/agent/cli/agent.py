"""`adsum agent`: reads the configuration and becomes the agent."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from adsum.agent.config.build import ConfigErrors
from adsum.agent.config.flags import FlagError, agent_usage, parse_agent_flags
from adsum.agent.config.load import load


def run(arguments: Sequence[str]) -> int:
    if any(argument in ("-h", "-help", "--help") for argument in arguments):
        print(agent_usage())
        return 0
    try:
        paths, flags = parse_agent_flags(arguments)
        loaded = load(paths, flags)
    except (ConfigErrors, FlagError) as problem:
        print(f"The agent did not start:\n{problem}", file=sys.stderr)
        return 1
    from adsum.agent.run import run_agent  # trio and every room behind it, only now

    return run_agent(loaded, lambda: load(paths, flags))
