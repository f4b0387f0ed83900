"""What an agent must still know after a power loss, as bytes: its registrations, and what TTL checks said.

One file a registration, so that a damaged one costs one. A file is a checksum and a CBOR map from field to
value, without the fields at their default; a reader of another version skips the fields it does not know.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

import cbor2

from adsum.catalog.definitions import CheckDefinition, CheckStatus, ServiceAddress, ServiceDefinition, Weights
from adsum.frozen import dataclass

MAGIC = b"adsum1\n"
SERVICES = "services/"
CHECKS = "checks/"
TTL_STATES = "ttl-states"

NUMBER_END = 1 << 63
INITIAL = ("", *(status.value for status in CheckStatus))

Form = Callable[[Any], bool]
Definition = TypeVar("Definition", ServiceDefinition, CheckDefinition)


class DamagedFile(ValueError):
    """The bytes are not what was written; set the file aside and go on without it."""


@dataclass(frozen=True, slots=True)
class TtlState:
    check_id: str
    status: CheckStatus
    output: str
    expires_wall_ms: int


@dataclass(frozen=True, slots=True)
class Saved:
    """Everything found at start."""

    services: tuple[ServiceDefinition, ...] = ()
    checks: tuple[CheckDefinition, ...] = ()
    ttl_states: tuple[TtlState, ...] = ()


def service_path(service_id: str) -> str:
    return SERVICES + _file_name(service_id)


def check_path(check_id: str) -> str:
    return CHECKS + _file_name(check_id)


def _file_name(identifier: str) -> str:
    """Ids hold any characters and any length; file names do not."""
    return hashlib.sha256(identifier.encode(errors="surrogatepass")).hexdigest()[:32]


def encode_service(definition: ServiceDefinition) -> bytes:
    """Its checks have files of their own, since they can be registered and removed alone."""
    settings = _settings_of(definition)
    settings.pop("checks", None)
    return sealed(settings)


def decode_service(content: bytes) -> ServiceDefinition:
    values = _known(ServiceDefinition, opened(content))
    values["tags"] = tuple(values.get("tags", ()))
    if "weights" in values:
        values["weights"] = Weights(*values["weights"])
    values["tagged_addresses"] = {
        key: ServiceAddress(*value) for key, value in values.get("tagged_addresses", {}).items()
    }
    return _built(ServiceDefinition, values)


def encode_check(definition: CheckDefinition) -> bytes:
    return sealed(_settings_of(definition))


def decode_check(content: bytes) -> CheckDefinition:
    values = _known(CheckDefinition, opened(content))
    values["args"] = tuple(values.get("args", ()))
    if values.get("status", "") not in INITIAL:
        raise DamagedFile("its status is none that a check has")
    return _built(CheckDefinition, values)


def encode_ttl_states(states: Iterable[TtlState]) -> bytes:
    return sealed([[each.check_id, each.status, each.output, each.expires_wall_ms] for each in states])


def decode_ttl_states(content: bytes) -> tuple[TtlState, ...]:
    rows = opened(content)
    if not isinstance(rows, list):
        raise DamagedFile("it does not hold a list")
    states = list[TtlState]()
    for row in rows:
        match row:
            case [str(check_id), str(status), str(output), int(expires_wall_ms)] if status in INITIAL[1:]:
                states.append(TtlState(check_id, CheckStatus(status), output, expires_wall_ms))
            case _:
                raise DamagedFile("it holds what no TTL check said")
    return tuple(states)


def _settings_of(definition: ServiceDefinition | CheckDefinition) -> dict[str, object]:
    plain = type(definition)()
    return {
        name: value
        for name in plain.__slots__
        if (value := getattr(definition, name)) != getattr(plain, name)
    }


def _known(kind: type[Definition], values: Any) -> dict[str, Any]:
    if not isinstance(values, Mapping):
        raise DamagedFile("it does not hold a map")
    forms = {field.name: FORMS.get(str(field.type)) for field in fields(kind)}
    known = {str(name): value for name, value in values.items() if name in forms}
    for name, value in known.items():
        form = forms[name]
        if form is None or not form(value):
            raise DamagedFile(f"its {name} is of another type")
    return known


def _built(kind: type[Definition], values: dict[str, Any]) -> Definition:
    try:
        return kind(**values)
    except (TypeError, ValueError) as problem:
        raise DamagedFile(str(problem)) from problem


def _is_number(value: object) -> bool:
    return type(value) is int and abs(value) < NUMBER_END


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(type(each) is str for each in value)


def _is_pair(value: object, first: type) -> bool:
    return isinstance(value, list) and len(value) == 2 and type(value[0]) is first and _is_number(value[1])


def _is_map(value: object, form: Form) -> bool:
    return isinstance(value, dict) and all(type(key) is str and form(each) for key, each in value.items())


# What the file may hold in the place of each type that a definition has. A checksum says that the bytes are
# those that were written, and not who wrote them: another version may have meant something else by a name.
FORMS: dict[str, Form] = {
    "str": lambda value: type(value) is str,
    "bool": lambda value: type(value) is bool,
    "int": _is_number,
    "tuple[str, ...]": _are_texts,
    "dict[str, str]": lambda value: _is_map(value, FORMS["str"]),
    "dict[str, list[str]]": lambda value: _is_map(value, _are_texts),
    "dict[str, object]": lambda value: _is_map(value, lambda _: True),
    "dict[str, ServiceAddress]": lambda value: _is_map(value, lambda each: _is_pair(each, str)),
    "Weights": lambda value: _is_pair(value, int) and _is_number(value[0]),
}


def sealed(value: object) -> bytes:
    return sealed_pieces([cbor2.dumps(value)])


def sealed_pieces(pieces: Iterable[bytes]) -> bytes:
    """What is large is copied once."""
    payload, checksum = list(pieces), 0
    for piece in payload:
        checksum = zlib.crc32(piece, checksum)
    return b"".join([MAGIC, checksum.to_bytes(4, "big"), *payload])


def opened(content: bytes) -> Any:
    payload = content[len(MAGIC) + 4 :]
    checksum = content[len(MAGIC) : len(MAGIC) + 4]
    if not content.startswith(MAGIC) or checksum != zlib.crc32(payload).to_bytes(4, "big"):
        raise DamagedFile("its checksum does not match")
    try:
        return cbor2.loads(payload)
    except (cbor2.CBORDecodeError, ValueError, MemoryError) as problem:
        raise DamagedFile(str(problem)) from problem
