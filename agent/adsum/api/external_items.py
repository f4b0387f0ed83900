"""Nodes without an agent, with their services and checks: from a client's words to what the store keeps, and
back to what Consul's clients read.

Somebody else registered them, so nothing here is checked but what would make no sense to whoever reads it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from adsum.api import shapes
from adsum.catalog import records
from adsum.catalog.decode import Fields
from adsum.catalog.definitions import CheckStatus
from adsum.catalog.model import Check, Node, Service
from adsum.catalog.replication.items import VALUE_BYTES_MAX
from adsum.catalog.view import CatalogHost, Row
from adsum.cbor import BadEncoding
from adsum.durations import format_duration
from adsum.external import ExternalItem, ExternalKind
from adsum.http.router import HttpRefusal
from adsum.quoting import quote

NO_NODE = "Must provide node"
NO_ADDRESS = "Must provide address if SkipNodeUpdate is not set"
NO_SERVICE_NAME = "Must provide service name with ID"
EVERY_ADDRESS = ("0.0.0.0", "::", "[::]")  # noqa: S104  # no address that anybody could call
STATUSES = {status.value: status for status in CheckStatus}
DEFINITION_KEYS = (
    *("HTTP", "TLSSkipVerify", "TLSServerName", "Header", "Method", "Body", "TCP", "UDP", "GRPC"),
    *("GRPCUseTLS", "Interval", "Timeout", "DeregisterCriticalServiceAfter", "OutputMaxSize"),
    *("IntervalDuration", "TimeoutDuration", "DeregisterCriticalServiceAfterDuration"),
)
DURATIONS = ("Interval", "Timeout", "DeregisterCriticalServiceAfter")
KINDS_BY_KEY = {"HTTP": "http", "TCP": "tcp", "UDP": "udp", "GRPC": "grpc"}


OUTPUT_BYTES_MAX = VALUE_BYTES_MAX - 256  # the rest of the item is shorter
TOO_LARGE = "{} is too large: it would take {} bytes in the catalog, of which {} are possible"


class UnfitItem(Exception):
    """In Consul's words."""


class ServiceNamed(NamedTuple):
    """What a check tells of its service."""

    name: str
    tags: tuple[str, ...]


def node_item(fields: Fields, datacenter: str) -> ExternalItem:
    name, node_id = fields.text("Node"), fields.text("ID")
    if not name:
        raise UnfitItem(NO_NODE)
    if node_id:
        check_node_id(node_id)
    node = Node(
        node_id=node_id,
        name=name,
        address=fields.text("Address"),
        datacenter=datacenter,
        tagged_addresses=fields.text_map("TaggedAddresses"),
        meta=fields.text_map("NodeMeta") or fields.text_map("Meta"),
    )
    row = _published(f"node {quote(name)}", records.encode_external_node(node))
    return ExternalItem(ExternalKind.NODE, name, "", row, node_id, modify=modify_of(fields))


def service_item(fields: Fields, node: str) -> ExternalItem:
    service_id, name = fields.text("ID"), fields.text("Service")
    if not name:
        raise UnfitItem(NO_SERVICE_NAME)
    address = fields.text("Address")
    if address in EVERY_ADDRESS:
        raise UnfitItem("Invalid service address")
    weights = Fields(fields.value("Weights"), type_name="structs.Weights", outer="Weights")
    is_weighted = fields.value("Weights") is not None
    addresses = dict[str, tuple[str, int]]()
    for key, each in fields.mapping("TaggedAddresses", wanted="map[string]structs.ServiceAddress").items():
        place = Fields(each, type_name="structs.ServiceAddress", outer="TaggedAddresses")
        addresses[key] = place.text("Address"), place.integer("Port")
    service = Service(
        service_id=service_id or name,
        name=name,
        kind=fields.text("Kind"),
        tags=fields.texts("Tags"),
        address=address,
        port=fields.integer("Port"),
        tagged_addresses=addresses,
        meta=fields.text_map("Meta"),
        weight_passing=weights.integer("Passing") if is_weighted else 1,
        weight_warning=weights.integer("Warning") if is_weighted else 1,
        enable_tag_override=fields.boolean("EnableTagOverride"),
        proxy=fields.opaque("Proxy", ()),
        connect=fields.opaque("Connect", ()),
        node=node,
    )
    row = _published(f"service {quote(service.service_id)}", records.encode_service(service))
    return ExternalItem(ExternalKind.SERVICE, node, service.service_id, row, modify=modify_of(fields))


def check_item(
    fields: Fields, node: str, host: CatalogHost | None, beside: Sequence[ExternalItem]
) -> ExternalItem:
    """`host` as this agent's copy has it, and `beside` what is registered with it: one of them knows the
    service of the check."""
    check_id, name = fields.text("CheckID") or fields.text("Name"), fields.text("Name")
    if not check_id:
        raise UnfitItem(
            f'failed inserting check: failed inserting check: object missing primary index on node "{node}"'
        )
    wanted = fields.text("Status") or CheckStatus.CRITICAL.value
    status = STATUSES.get(wanted)
    if status is None:
        raise HttpRefusal(400, f"Bad check status {wanted!r}: it is passing, warning or critical")
    service_id = fields.text("ServiceID")
    service = _service_named(service_id, host, beside)
    definition = _definition(fields)
    kinds = [kind for key, kind in KINDS_BY_KEY.items() if key in definition]
    check = Check(
        check_id=check_id,
        name=name,
        status=CheckStatus.CRITICAL,
        notes=fields.text("Notes"),
        service_id=service_id,
        service_name=service.name,
        service_tags=service.tags,
        kind=fields.text("Type") or (kinds[0] if kinds else ""),
        node=node,
        definition=json.dumps(definition, separators=(",", ":")) if definition else "",
    )
    return ExternalItem(
        *(ExternalKind.CHECK, node, check_id),
        row=_published(f"check {quote(check_id)}", records.encode_check(check)),
        service_id=service_id,
        status=status.value,
        output=fields.text("Output").encode()[:OUTPUT_BYTES_MAX].decode(errors="ignore"),
        modify=modify_of(fields),
    )


def check_node_id(node_id: str) -> None:
    if len(node_id) != 36:
        raise UnfitItem("Bad node ID: uuid string is wrong length")
    try:
        UUID(node_id)
    except ValueError:
        raise UnfitItem("Bad node ID: uuid is improperly formatted") from None


def modify_of(fields: Fields) -> int:
    return max(fields.integer("ModifyIndex"), 0)


# Back.


def shown(item: ExternalItem) -> dict[str, bytes]:
    """By the name under which a transaction tells it; rows that nobody can read are shown by their names."""
    record = records.decode(item.row)
    match record:
        case records.NodeRecord():
            node = Node(
                node_id=record.node_id,
                name=record.name,
                address=record.address,
                datacenter=record.datacenter,
                tagged_addresses=record.tagged_addresses,
                meta=record.meta,
            )
            return {"Node": shapes.node_fragment(Row(node, item.create, item.modify))}
        case Service():
            return {"Service": shapes.service_fragment(Row(record, item.create, item.modify))}
        case Check():
            said = with_state(record, item)
            return {"Check": shapes.check_fragment(Row(said, item.create, item.modify), item.node)}
        case _:
            return {}


def with_state(check: Check, item: ExternalItem) -> Check:
    return Check(
        check_id=check.check_id,
        name=check.name,
        status=STATUSES.get(item.status, CheckStatus.CRITICAL),
        notes=check.notes,
        output=item.output,
        service_id=check.service_id,
        service_name=check.service_name,
        service_tags=check.service_tags,
        kind=check.kind,
        node=check.node,
        definition=check.definition,
    )


def is_shown(host: CatalogHost | None, item: ExternalItem) -> bool:
    """This agent's copy has it as it was registered."""
    if host is None:
        return False
    record = records.decode(item.row)
    match record:
        case records.NodeRecord():
            node = host.node.value
            said = record.address, dict(record.meta), dict(record.tagged_addresses)
            return (node.address, dict(node.meta), dict(node.tagged_addresses)) == said
        case Service():
            instance = host.instances.get(record.service_id)
            return instance is not None and instance.service.value == record
        case Check():
            row = host.checks.get(record.check_id)
            return row is not None and (row.value.status, row.value.output) == (item.status, item.output)
        case _:
            return True


def _service_named(service_id: str, host: CatalogHost | None, beside: Sequence[ExternalItem]) -> ServiceNamed:
    for item in beside:
        if item.kind is ExternalKind.SERVICE and item.id == service_id:
            record = records.decode(item.row)
            if isinstance(record, Service):
                return ServiceNamed(record.name, record.tags)
    instance = host.instances.get(service_id) if host is not None else None
    if instance is None:
        return ServiceNamed("", ())
    return ServiceNamed(instance.service.value.name, instance.service.value.tags)


def _published(what: str, row: bytes) -> bytes:
    """What other agents cannot take would hold up all that the servers publish."""
    if len(row) > VALUE_BYTES_MAX:
        raise UnfitItem(TOO_LARGE.format(what, len(row), VALUE_BYTES_MAX))
    try:
        records.decode(row)
    except BadEncoding as bad:
        raise UnfitItem(f"{what} is what no other agent would take: {bad}") from None
    return row


def _definition(fields: Fields) -> dict[str, object]:
    """How somebody is to run it, under Consul's names; what is empty is left away."""
    definition = fields.opaque("Definition", DEFINITION_KEYS)
    for name in DURATIONS:
        alias = definition.pop(f"{name}Duration", None)
        value = definition.get(name) or alias
        if isinstance(value, int) and not isinstance(value, bool):
            value = format_duration(value) if value else None
        definition[name] = value
    return {key: value for key, value in definition.items() if value}
