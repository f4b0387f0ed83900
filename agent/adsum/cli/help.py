"""What `-h` shows, made from what the commands declare."""

from __future__ import annotations

from collections.abc import Mapping

from adsum.cli.command import Command, FlagGroup


def overview(name: str, commands: Mapping[str, str]) -> str:
    words = f"{name} COMMAND" if name else "COMMAND"
    rows = list(commands.items())
    return "\n".join(
        [f"Usage: adsum {words} [flags]", "", *_columns(rows), "", "`adsum COMMAND -h` tells more."]
    )


def describe(name: str, sentence: str, command: Command) -> str:
    usage = " ".join(filter(None, ("adsum", name, "[flags]", command.arguments)))
    parts = [f"Usage: {usage}", f"{sentence}."]
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


def _columns(rows: list[tuple[str, str]]) -> list[str]:
    width = max(len(left) for left, _ in rows)
    return [f"  {left:<{width}}  {right}" for left, right in rows]
