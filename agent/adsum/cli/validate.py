from __future__ import annotations

import sys

from adsum.cli.command import FAILURE, Command, CommandFlag, ParsedCommand
from adsum.config.errors import ConfigErrors
from adsum.config.load import load


def run(call: ParsedCommand) -> int:
    try:
        loaded = load(call.words, {"config_format": call.text("config-format")})
    except ConfigErrors as problem:
        print(f"Config validation failed:\n{problem}", file=sys.stderr)
        return FAILURE
    for warning in loaded.warnings:
        print(f"Warning: {warning}", file=sys.stderr)
    if not call.is_on("quiet"):
        print("Configuration is valid!")
    return 0


COMMAND = Command(
    run,
    arguments="PATH…",
    flags=(
        CommandFlag(
            "config-format",
            "Format of all files, whatever their suffix.",
            "FORMAT",
            choices=("json", "toml", "hcl"),
        ),
        CommandFlag("quiet", "Say nothing if all is well."),
    ),
    about="Files and folders are merged as the agent would; every error is told at once, with its place.",
)
