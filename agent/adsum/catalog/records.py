"""What the items of an owner mean: a node, services, checks and what each check says, as bytes for everybody.

Rows with their kind first. A check is two items: its definition, which stays, and its state, which flips; so
a flip takes some five bytes, and names its check by the number of the other item. Fields that a later version
appends are ignored; an item of a kind that only a later version knows is passed over.

What names no node is on its owner's own. An agent speaks for that one alone; an owner that is no node names
the node of everything it publishes, and where that is.

What another agent sent is checked for shape before anything is believed: it may be of a later version, or
mistaken. Of a check's output the first 96 bytes travel, and only while it fails: the whole of it stays with
its owner, if that is an agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import cbor2

from adsum.catalog.definitions import CheckStatus
from adsum.catalog.model import Check, Node, Service
from adsum.cbor import NO_TAGS_BUT_BIG_NUMBERS, BadEncoding, canonical_array, strict_loads
from adsum.frozen import dataclass
from adsum.rows import RowCodec, RowField, RowKinds, choice, counter, flag, listed, mapped, number, text

OUTPUT_BYTES_MAX = 96
MESH_BYTES_MAX = 32 * 1024
MESH_DEPTH_MAX = 32
NUMBER_BITS_MAX = 14_000  # Python writes no number of more than 4,300 digits
STATUSES = (CheckStatus.PASSING, CheckStatus.WARNING, CheckStatus.CRITICAL)


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """What a node says of itself; name and address only where membership does not know them."""

    datacenter: str
    tagged_addresses: Mapping[str, str]
    meta: Mapping[str, str]
    name: str = ""
    address: str = ""
    node_id: str = ""  # of a node without an agent, if one was given


@dataclass(frozen=True, slots=True)
class CheckState:
    number: int  # of the item that defines the check
    status: CheckStatus
    output: str = ""


Record = NodeRecord | Service | Check | CheckState


def encode_node(node: Node) -> bytes:
    return _NODE.bytes_of(node.datacenter, node.tagged_addresses, node.meta)


def encode_external_node(node: Node) -> bytes:
    """Of one that has no agent: membership knows nothing of it."""
    return _NODE.bytes_of(
        *(node.datacenter, node.tagged_addresses, node.meta, node.name, node.address, node.node_id)
    )


def encode_service(service: Service) -> bytes:
    return _SERVICE.encode(service)


def encode_check(check: Check) -> bytes:
    """But for what it says, which is an item of its own."""
    return _CHECK.encode(check)


def encode_state(number: int, check: Check) -> bytes:
    if check.status is CheckStatus.PASSING:
        return _STATE.bytes_of(number, check.status)
    output = check.output.encode()[:OUTPUT_BYTES_MAX].decode(errors="ignore")
    return _STATE.bytes_of(number, check.status, output)


def encode_external_state(number: int, status: CheckStatus, output: str) -> bytes:
    """Nobody could be asked for the rest of such an output, so all of it travels."""
    return _STATE.bytes_of(number, status, output)


def decode(value: bytes) -> Record | None:
    """None is a kind that only a later version knows. Raises `BadEncoding`."""
    return _RECORDS.decode(canonical_array(value))


def _nested(settings: Mapping[str, object]) -> bytes:
    """Of the service mesh: carried for clients, read by nobody here, and as deep as they like."""
    return cbor2.dumps(dict(settings)) if settings else b""


def _opened(nested: bytes) -> Mapping[str, object]:
    """A map that JSON can say: it is carried for clients, and one value they cannot be told would cost them
    the whole answer."""
    if not nested:
        return {}
    if len(nested) > MESH_BYTES_MAX:
        raise BadEncoding("mesh settings that are too long")
    value = strict_loads(nested, depth_max=MESH_DEPTH_MAX, refused=NO_TAGS_BUT_BIG_NUMBERS)
    if not isinstance(value, dict) or not _is_json(value):
        raise BadEncoding("settings that are none")
    return value


def _address(values: list[object]) -> tuple[str, int]:
    match values:
        case [str(address), int(port)] if type(port) is int:
            return address, port
    raise BadEncoding("an address that is none")


def _is_json(value: object) -> bool:
    if isinstance(value, dict):
        return all(type(key) is str for key in value) and all(map(_is_json, value.values()))
    if isinstance(value, list):
        return all(map(_is_json, value))
    if type(value) is int:
        return value.bit_length() <= NUMBER_BITS_MAX
    return value is None or type(value) in _SCALARS


_SCALARS = (str, float, bool)


# The rows, in the order of their numbers.

_NODE = RowCodec(
    NodeRecord,
    *(text("datacenter"), mapped("tagged_addresses"), mapped("meta")),
    *(text("name", default=""), text("address", default=""), text("node_id", default="")),
    kind=0,
)
_SERVICE = RowCodec(
    Service,
    *(text("service_id"), text("name"), text("kind"), listed("tags", text(""))),
    *(text("address"), number("port"), mapped("tagged_addresses", RowField("", list, _address))),
    *(mapped("meta"), number("weight_passing"), number("weight_warning"), flag("enable_tag_override")),
    *(RowField("proxy", bytes, _opened, _nested), RowField("connect", bytes, _opened, _nested)),
    text("node", default=""),
    kind=1,
    by_name=True,
)
_CHECK = RowCodec(
    partial(Check, status=CheckStatus.CRITICAL),  # until its state is known
    *(text("check_id"), text("name"), text("notes"), text("service_id"), text("service_name")),
    *(listed("service_tags", text("")), RowField("kind", str, pack=str), text("node", default="")),
    text("definition", default=""),
    kind=2,
    by_name=True,
)
_STATE = RowCodec(
    CheckState,
    *(counter("number", 1 << 32), choice("status", dict(enumerate(STATUSES))), text("output", default="")),
    kind=3,
)
_RECORDS: RowKinds[Record] = RowKinds(_NODE, _SERVICE, _CHECK, _STATE)
