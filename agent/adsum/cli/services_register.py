from __future__ import annotations

from adsum.cli.command import Command, CommandFlag, ParsedCommand, UsageError
from adsum.cli.connection import CONNECTION, QUERY, connect
from adsum.cli.service_files import Definition, read_definitions, text_of

PORT_MAX = 65535
OWN_FLAGS = (
    CommandFlag("name", "Name of the service.", "NAME"),
    CommandFlag("id", "Its id on this node; the name if not given.", "ID"),
    CommandFlag("address", "Where it listens, if not at the node's address.", "ADDRESS"),
    CommandFlag("port", "Port it listens on.", "PORT"),
    CommandFlag("tag", "A tag to find it by.", "TAG", is_repeatable=True),
    CommandFlag("meta", "A fact about it.", "KEY=VALUE", is_repeatable=True),
    CommandFlag("tagged-address", "Another address of it.", "NAME=HOST:PORT", is_repeatable=True),
    CommandFlag("kind", "Its kind, where it is a proxy.", "KIND"),
)


def run(call: ParsedCommand) -> int:
    is_by_flags = any(flag.name in call.values for flag in OWN_FLAGS)
    if is_by_flags == bool(call.words):
        raise UsageError("give files, or flags with at least -name")
    definitions = [_from_flags(call)] if is_by_flags else read_definitions(call.words)
    with connect(call) as api:
        for definition in definitions:
            api.put("/v1/agent/service/register", body=definition)
            print(f"Registered service: {text_of(definition)}")
    return 0


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


COMMAND = Command(
    run,
    arguments="[FILE…]",
    flags=OWN_FLAGS,
    groups=(CONNECTION, QUERY),
    about="Files hold `service` or `services` as the agent's configuration does (.json, .toml, .hcl);\n"
    "`-` reads JSON from the standard input. The service stays until it is deregistered.",
)
