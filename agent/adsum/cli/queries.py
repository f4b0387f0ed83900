"""Query parameters that commands about the catalog share; a name may repeat."""

from __future__ import annotations

from adsum.cli.command import ParsedCommand, UsageError

Pairs = list[tuple[str, str]]


def data_query(call: ParsedCommand) -> Pairs:
    return [("dc", call.text("datacenter")), ("stale", "1" if call.is_on("stale") else "")]


def catalog_query(call: ParsedCommand) -> Pairs:
    pairs = data_query(call)
    for text in call.texts("node-meta"):
        name, has_value, value = text.partition("=")
        if not name or not has_value:
            raise UsageError(f'-node-meta needs key=value, not "{text}"')
        pairs.append(("node-meta", f"{name}:{value}"))
    return pairs
