"""`adsum services …`: what is registered with the agent, by flags or by files in the form of its
configuration: `service` or `services`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from adsum.cli.command import OK, Command, CommandFailed, CommandFlag, ParsedCommand, UsageError
from adsum.cli.connection import CONNECTION, QUERY, connect
from adsum.cli.states import NODE_MAINTENANCE, place, state_of
from adsum.cli.table import OUTPUT, Column, Row, plain, show

if TYPE_CHECKING:
    from adsum.config.errors import ConfigError
    from adsum.config.sources import ConfigSource

PORT_MAX = 65535
STDIN_CHARACTERS_MAX = 16 * 1024 * 1024
BY_FLAGS = (
    CommandFlag("name", "Name of the service.", "NAME"),
    CommandFlag("id", "Its id on this node; the name if not given.", "ID"),
    CommandFlag("address", "Where it listens, if not at the node's address.", "ADDRESS"),
    CommandFlag("port", "Port it listens on.", "PORT"),
    CommandFlag("tag", "A tag to find it by.", "TAG", is_repeatable=True),
    CommandFlag("meta", "A fact about it.", "KEY=VALUE", is_repeatable=True),
    CommandFlag("tagged-address", "Another address of it.", "NAME=HOST:PORT", is_repeatable=True),
    CommandFlag("kind", "Its kind, where it is a proxy.", "KIND"),
)
COLUMNS = [
    *plain("Service", "ID"),
    Column("Address", lambda row: place(row["Address"], row["Port"])),
    Column("Status", is_state=True),
    Column("Checks"),
    Column("Tags", lambda row: ",".join(row["Tags"])),
    Column("Meta", lambda row: ",".join(f"{k}={v}" for k, v in row["Meta"].items()), is_wide=True),
]

Definition = Mapping[str, object]


def list_services(call: ParsedCommand) -> int:
    with connect(call) as api:
        services = api.get_object("/v1/agent/services")
        checks = list(api.get_object("/v1/agent/checks").values())
    rows = [_row(service, checks) for service in services.values()]
    rows.sort(key=lambda row: (row["Service"], row["ID"]))
    show(call, rows, COLUMNS)
    if not rows:
        print("Nothing is registered here. `adsum services register -h` shows how.", file=sys.stderr)
    return OK


def _row(service: Row, checks: list[dict[str, str]]) -> Row:
    own = [check for check in checks if check["ServiceID"] == service["ID"]]
    of_node = [check for check in checks if check["CheckID"] == NODE_MAINTENANCE]
    return {
        **{key: service[key] for key in ("Service", "ID", "Address", "Port")},
        "Status": state_of([*own, *of_node]),
        "Checks": len(own),
        "Tags": service["Tags"] or [],
        "Meta": service["Meta"] or {},
    }


def register(call: ParsedCommand) -> int:
    is_by_flags = any(flag.name in call.values for flag in BY_FLAGS)
    if is_by_flags == bool(call.words):
        raise UsageError("give files, or flags with at least -name")
    definitions = [_from_flags(call)] if is_by_flags else _from_files(call.words)
    with connect(call) as api:
        for definition in definitions:
            api.put("/v1/agent/service/register", body=definition)
            print(f"Registered service: {_text_of(definition, 'name')}")
    return OK


def deregister(call: ParsedCommand) -> int:
    ids = list(call.texts("id"))
    if bool(ids) == bool(call.words):
        raise UsageError("give files, or -id")
    for word in call.words:
        if word != "-" and not os.path.exists(word):
            raise UsageError(f"there is no file {word}; a service's id goes with -id={word}")
    if call.words:
        ids = [_text_of(definition, "id", "name") for definition in _from_files(call.words)]
    with connect(call) as api:
        for service_id in ids:
            api.put(f"/v1/agent/service/deregister/{service_id}")
            print(f"Deregistered service: {service_id}")
    return OK


def _from_flags(call: ParsedCommand) -> Definition:
    if not call.text("name"):
        raise UsageError("-name is missing")
    definition = {
        "Kind": call.text("kind"),
        "ID": call.text("id"),
        "Name": call.text("name"),
        "Address": call.text("address"),
        "Port": _port(call.text("port", "0"), "-port"),
        "Tags": list(call.texts("tag")),
        "Meta": dict(_pair(text, "-meta") for text in call.texts("meta")),
        "TaggedAddresses": dict(map(_tagged_address, call.texts("tagged-address"))),
    }
    return {key: value for key, value in definition.items() if value}


def _port(text: str, flag: str) -> int:
    if text.isascii() and text.isdigit() and int(text[:6]) <= PORT_MAX:
        return int(text)
    raise UsageError(f'{flag} needs a port from 1 to {PORT_MAX}, not "{text}"')


def _pair(text: str, flag: str) -> tuple[str, str]:
    name, has_value, value = text.partition("=")
    if not name or not has_value:
        raise UsageError(f'{flag} needs name=value, not "{text}"')
    return name, value


def _tagged_address(text: str) -> tuple[str, dict[str, object]]:
    name, place = _pair(text, "-tagged-address")
    host, _, port = place.rpartition(":")
    if not host:
        raise UsageError(f'-tagged-address needs name=host:port, not "{text}"')
    return name, {"Address": host.strip("[]"), "Port": _port(port, "-tagged-address")}


def _from_files(paths: Sequence[str]) -> list[Definition]:
    """Of all files, or `CommandFailed` with everything that is wrong before anything was done."""
    from adsum.config.errors import ConfigError  # only for those who give files

    errors: list[ConfigError] = []
    sources = [source for path in paths for source in _read(path, errors)]
    found = [(source, _definitions(source.tree)) for source in sources]
    for source, definitions in found:
        if not definitions:
            errors.append(ConfigError(source.name, 'holds no service; it wants {"service": {"name": …}}'))
        if not all(_text_of(definition, "name") for definition in definitions):
            errors.append(ConfigError(source.name, "holds a service without a name"))
    if errors:
        raise CommandFailed("\n".join(map(str, errors)))
    return [definition for _, definitions in found for definition in definitions]


def _text_of(definition: Definition, *keys: str) -> str:
    """The first of these keys that is given, as the agent would read it: in any case."""
    lowered = {key.lower(): value for key, value in definition.items()}
    return next((str(lowered[key]) for key in keys if lowered.get(key)), "")


def _read(path: str, errors: list[ConfigError]) -> list[ConfigSource]:
    from adsum.config.errors import ConfigError, UnreadableFile
    from adsum.config.sources import ConfigSource, parse, read_sources

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


COMMANDS = {
    "services list": Command(list_services, flags=(OUTPUT,), groups=(CONNECTION,)),
    "services register": Command(
        register,
        arguments="[FILE…]",
        flags=BY_FLAGS,
        groups=(CONNECTION, QUERY),
        about="Files hold `service` or `services` as the agent's configuration does (.json, .toml, .hcl);\n"
        "`-` reads JSON from the standard input. The service stays until it is deregistered.",
    ),
    "services deregister": Command(
        deregister,
        arguments="[FILE…]",
        flags=(CommandFlag("id", "Id of the service.", "ID", is_repeatable=True),),
        groups=(CONNECTION, QUERY),
        about="Files are those that registered the services. One that is not registered counts as gone.",
    ),
}
