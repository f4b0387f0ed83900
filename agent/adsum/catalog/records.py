"""What the items of an owner mean: a node, services, checks and what each check says, as bytes for everybody.

Positional CBOR with its kind first. A check is two items: its definition, which stays, and its state, which
flips; so a flip takes some five bytes, and names its check by the number of the other item. Fields that a
later version appends are ignored; an item of a kind that only a later version knows is passed over.

What another agent sent is checked for shape before anything is believed: it may be of a later version, or
mistaken. Of a check's output the first 96 bytes travel, and only while it fails: the whole of it stays with
its owner.
"""

from __future__ import annotations

from collections.abc import Mapping

import cbor2

from adsum.catalog.definitions import CheckStatus
from adsum.catalog.model import Check, Node, Service
from adsum.cbor import NO_TAGS_BUT_BIG_NUMBERS, BadEncoding, canonical_array, counter, strict_loads
from adsum.frozen import dataclass

OUTPUT_BYTES_MAX = 96
MESH_BYTES_MAX = 32 * 1024
MESH_DEPTH_MAX = 32
STATUSES = (CheckStatus.PASSING, CheckStatus.WARNING, CheckStatus.CRITICAL)


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """What a node says of itself beyond its name and address, which the roll knows."""

    datacenter: str
    tagged_addresses: Mapping[str, str]
    meta: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CheckState:
    number: int  # of the item that defines the check
    status: CheckStatus
    output: str = ""


Record = NodeRecord | Service | Check | CheckState


def encode_node(node: Node) -> bytes:
    return cbor2.dumps([0, node.datacenter, dict(node.tagged_addresses), dict(node.meta)])


def encode_service(service: Service) -> bytes:
    tagged = {name: list(address) for name, address in service.tagged_addresses.items()}
    fields = [
        *(1, service.service_id, service.name, service.kind, list(service.tags), service.address),
        *(service.port, tagged, dict(service.meta), service.weight_passing, service.weight_warning),
        *(service.enable_tag_override, _nested(service.proxy), _nested(service.connect)),
    ]
    return cbor2.dumps(fields)


def encode_check(check: Check) -> bytes:
    """But for what it says, which is an item of its own."""
    fields = [
        *(2, check.check_id, check.name, check.notes, check.service_id, check.service_name),
        *(list(check.service_tags), str(check.kind)),
    ]
    return cbor2.dumps(fields)


def encode_state(number: int, check: Check) -> bytes:
    fields: list[object] = [3, number, STATUSES.index(check.status)]
    output = check.output.encode()[:OUTPUT_BYTES_MAX].decode(errors="ignore")
    if output and check.status is not CheckStatus.PASSING:
        fields.append(output)
    return cbor2.dumps(fields)


def decode(value: bytes) -> Record | None:
    """None is a kind that only a later version knows. Raises `BadEncoding`."""
    match canonical_array(value):
        case [0, str(datacenter), dict(tagged), dict(meta), *_]:
            return NodeRecord(datacenter, _texts(tagged), _texts(meta))
        case [1, *fields]:
            return _service(fields)
        case [
            2,
            str(check_id),
            str(name),
            str(notes),
            str(service_id),
            str(service),
            list(tags),
            str(kind),
            *_,
        ]:
            return Check(
                check_id=check_id,
                name=name,
                status=CheckStatus.CRITICAL,  # until its state is known
                notes=notes,
                service_id=service_id,
                service_name=service,
                service_tags=_tuple_of_texts(tags),
                kind=kind,
            )
        case [3, number, int(status), *rest] if 0 <= status < len(STATUSES):
            output = rest[0] if rest and isinstance(rest[0], str) else ""
            return CheckState(counter(number, 1 << 32), STATUSES[status], output)
        case [int(kind), *_] if kind > 3:
            return None
    raise BadEncoding("an item that makes no sense")


def _service(fields: list[object]) -> Service:
    match fields:
        case [
            str(service_id),
            str(name),
            str(kind),
            list(tags),
            str(address),
            int(port),
            dict(tagged),
            dict(meta),
            int(passing),
            int(warning),
            bool(override),
            bytes(proxy),
            bytes(connect),
            *_,
        ]:
            return Service(
                service_id=service_id,
                name=name,
                kind=kind,
                tags=_tuple_of_texts(tags),
                address=address,
                port=port,
                tagged_addresses=_addresses(tagged),
                meta=_texts(meta),
                weight_passing=passing,
                weight_warning=warning,
                enable_tag_override=override,
                proxy=_opened(proxy),
                connect=_opened(connect),
            )
    raise BadEncoding("a service that makes no sense")


def _nested(settings: Mapping[str, object]) -> bytes:
    """Of the service mesh: carried for clients, read by nobody here, and as deep as they like."""
    return cbor2.dumps(dict(settings)) if settings else b""


def _opened(nested: bytes) -> Mapping[str, object]:
    if not nested:
        return {}
    if len(nested) > MESH_BYTES_MAX:
        raise BadEncoding("mesh settings that are too long")
    return _settings(nested)


def _texts(values: dict[object, object]) -> dict[str, str]:
    for key, value in values.items():
        if type(key) is not str or type(value) is not str:
            raise BadEncoding("a map with something else than text")
    return values  # type: ignore[return-value]  # looked at above


def _tuple_of_texts(values: list[object]) -> tuple[str, ...]:
    for value in values:
        if type(value) is not str:
            raise BadEncoding("a list with something else than text")
    return tuple(values)  # type: ignore[arg-type]  # looked at above


def _addresses(values: dict[object, object]) -> dict[str, tuple[str, int]]:
    addresses = {}
    for name, value in values.items():
        match name, value:
            case str(), [str(address), int(port)]:
                addresses[name] = (address, port)
            case _:
                raise BadEncoding("an address that is none")
    return addresses


def _settings(encoded: bytes) -> dict[str, object]:
    """A map that JSON can say: it is carried for clients, and one value they cannot be told would cost them
    the whole answer."""
    value = strict_loads(encoded, depth_max=MESH_DEPTH_MAX, refused=NO_TAGS_BUT_BIG_NUMBERS)
    if not isinstance(value, dict) or not _is_json(value):
        raise BadEncoding("settings that are none")
    return value


def _is_json(value: object) -> bool:
    if isinstance(value, dict):
        return all(type(key) is str for key in value) and all(map(_is_json, value.values()))
    if isinstance(value, list):
        return all(map(_is_json, value))
    return value is None or type(value) in _SCALARS


_SCALARS = (str, int, float, bool)
