"""Service definitions out of files, in the form of the agent's configuration: `service` or `services`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from adsum.cli.command import CommandFailed
from adsum.config.errors import ConfigError, UnreadableFile
from adsum.config.sources import ConfigSource, parse, read_sources

STDIN_CHARACTERS_MAX = 16 * 1024 * 1024

Definition = Mapping[str, object]


def read_definitions(paths: Sequence[str]) -> list[Definition]:
    """Of all files, or `CommandFailed` with everything that is wrong before anything was done."""
    errors: list[ConfigError] = []
    sources = [source for path in paths for source in _read(path, errors)]
    found = [(source, list(_definitions(source.tree))) for source in sources]
    for source, definitions in found:
        if not definitions:
            errors.append(ConfigError(source.name, 'holds no service; it wants {"service": {"name": …}}'))
        if not all(map(text_of, definitions)):
            errors.append(ConfigError(source.name, "holds a service without a name"))
    if errors:
        raise CommandFailed("\n".join(map(str, errors)))
    return [definition for _, definitions in found for definition in definitions]


def text_of(definition: Definition, *keys: str) -> str:
    """The first of these keys that is given, `name` by default, as the agent would read it: in any case."""
    lowered = {key.lower(): value for key, value in definition.items()}
    return next((str(lowered[key]) for key in keys or ("name",) if lowered.get(key)), "")


def _read(path: str, errors: list[ConfigError]) -> list[ConfigSource]:
    if path != "-":
        return read_sources([path], "", errors)
    try:
        return [ConfigSource("standard input", parse(sys.stdin.read(STDIN_CHARACTERS_MAX), "json"))]
    except UnreadableFile as problem:
        errors.append(ConfigError("standard input", str(problem)))
        return []


def _definitions(tree: Mapping[str, object]) -> list[Definition]:
    values: list[object] = []
    for key in ("service", "services"):
        value = tree.get(key, [])
        values += value if isinstance(value, list) else [value]
    return [value for value in values if isinstance(value, Mapping)]
