"""Rows of the catalog as the JSON that Consul's clients know, with the fields in Consul's order.

Each row is rendered once and keeps its bytes (`Row.renderings`); an answer is spliced from them. So when one
check of two thousand flips, one check is encoded again and the rest is joined. What is encoded per answer
(an agent's own services and checks) is a dict, for it is small and asked for seldom.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from adsum.catalog.definitions import ServiceDefinition
from adsum.catalog.model import Check, Node, Service
from adsum.catalog.view import CatalogHost, Instance, Row

encode = msgspec.json.Encoder().encode

PRETTY_INDENT = 4
PROXY_KINDS = ("connect-proxy", "mesh-gateway", "terminating-gateway", "ingress-gateway")

# A check as Consul's own client library prints one whose definition it does not know.
UNKNOWN_DEFINITION = {
    "Interval": "0s",
    "Timeout": "0s",
    "DeregisterCriticalServiceAfter": "0s",
    "HTTP": "",
    "Header": None,
    "Method": "",
    "Body": "",
    "TLSSkipVerify": False,
    "TCP": "",
}


def pretty(compact: bytes) -> bytes:
    """Only spaces move: numbers keep all their digits."""
    return msgspec.json.format(compact, indent=PRETTY_INDENT) + b"\n"


def list_of(fragments: Iterable[bytes]) -> bytes:
    return b"[" + b",".join(fragments) + b"]"


def object_of(members: Iterable[tuple[str, bytes]]) -> bytes:
    return b"{" + b",".join([encode(key) + b":" + value for key, value in members]) + b"}"


# Fragments: rendered once per row.


def node_fragment(row: Row[Node]) -> bytes:
    kept = row.renderings.get("node")
    if kept is None:
        node = row.value
        kept = row.renderings["node"] = encode(
            {**_place(node), "Meta": dict(node.meta) or None, **_indexes(row)}
        )
    return kept


def check_fragment(row: Row[Check], node_name: str) -> bytes:
    """Kept under the node's name: a check does not know its node, which may come to be spelled otherwise."""
    kept = row.renderings.get(node_name)
    if kept is None:
        kept = row.renderings[node_name] = encode(
            {**_check(row.value, node_name), "Definition": _definition(row.value), **_indexes(row)}
        )
    return kept


def _definition(check: Check) -> dict[str, object]:
    """Of a node without an agent: how somebody is to run it. It came over the network and may be anything."""
    if not check.definition:
        return {}
    try:
        found = msgspec.json.decode(check.definition)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def service_fragment(row: Row[Service]) -> bytes:
    kept = row.renderings.get("service")
    if kept is None:
        service = row.value
        kept = row.renderings["service"] = encode(
            {
                **({"Kind": service.kind} if service.kind else {}),
                "ID": service.service_id,
                "Service": service.name,
                "Tags": service.tags,
                "Address": service.address,
                **_service_addresses("TaggedAddresses", service.tagged_addresses),
                "Meta": dict(service.meta) or None,
                "Port": service.port,
                "Weights": _weights(service.weight_passing, service.weight_warning),
                "EnableTagOverride": service.enable_tag_override,
                "Proxy": _proxy(service.proxy),
                "Connect": dict(service.connect),
                **_indexes(row),
            }
        )
    return kept


def service_node_fragment(instance: Instance) -> bytes:
    """Half of it belongs to the node's row and half to the service's, so that each ends with its own."""
    return _node_half(instance.host.node) + b"," + _service_half(instance.service)


def health_entry(instance: Instance) -> bytes:
    name = instance.host.name
    return b'{"Node":%b,"Service":%b,"Checks":[%b]}' % (
        node_fragment(instance.host.node),
        service_fragment(instance.service),
        b",".join([check_fragment(row, name) for row in instance.all_checks()]),
    )


def checks_of_host(host: CatalogHost) -> list[bytes]:
    name = host.name
    return [check_fragment(row, name) for row in host.checks]


def _node_half(row: Row[Node]) -> bytes:
    kept = row.renderings.get("of service")
    if kept is None:
        node = row.value
        kept = row.renderings["of service"] = encode({**_place(node), "NodeMeta": dict(node.meta)})[:-1]
    return kept


def _service_half(row: Row[Service]) -> bytes:
    kept = row.renderings.get("of node")
    if kept is None:
        service = row.value
        kept = row.renderings["of node"] = encode(
            {
                "ServiceKind": service.kind,
                "ServiceID": service.service_id,
                "ServiceName": service.name,
                "ServiceTags": service.tags,
                "ServiceAddress": service.address,
                **_service_addresses("ServiceTaggedAddresses", service.tagged_addresses),
                "ServiceWeights": _weights(service.weight_passing, service.weight_warning),
                "ServiceMeta": dict(service.meta),
                "ServicePort": service.port,
                "ServiceEnableTagOverride": service.enable_tag_override,
                "ServiceProxy": _proxy(service.proxy),
                "ServiceConnect": dict(service.connect),
                **_indexes(row),
            }
        )[1:]
    return kept


# This agent's own, as the endpoints under /v1/agent show them: no indexes, and nothing is null.


def own_service(definition: ServiceDefinition, content_hash: str = "") -> dict[str, object]:
    shown: dict[str, object] = {"Kind": definition.kind} if definition.kind else {}
    shown |= {
        "ID": definition.service_id,
        "Service": definition.name,
        "Tags": definition.tags,
        "Meta": definition.meta,
        "Port": definition.port,
        "Address": definition.address,
        **_service_addresses("TaggedAddresses", definition.tagged_addresses),
        "Weights": _weights(*definition.weights),
        "EnableTagOverride": definition.enable_tag_override,
    }
    if content_hash:
        shown["ContentHash"] = content_hash
    if definition.kind in PROXY_KINDS:
        shown["Proxy"] = _proxy(definition.proxy)
    if definition.connect.get("Native") is True:
        shown["Connect"] = dict(definition.connect)
    return shown


def own_check(node_name: str, check: Check) -> dict[str, object]:
    return {**_check(check, node_name), "Definition": {}, "CreateIndex": 0, "ModifyIndex": 0}


def judged_check(node_name: str, check: Check) -> dict[str, object]:
    """As agent/health lists it, where Consul fills in less than elsewhere."""
    return {
        **_check(check, node_name),
        "ServiceTags": check.service_tags or None,
        "Type": "",
        "Definition": UNKNOWN_DEFINITION,
        "CreateIndex": 0,
        "ModifyIndex": 0,
    }


# Parts.


def _place(node: Node) -> dict[str, object]:
    return {
        "ID": node.node_id,
        "Node": node.name,
        "Address": node.address,
        "Datacenter": node.datacenter,
        "TaggedAddresses": dict(node.tagged_addresses) or None,
    }


def _check(check: Check, node_name: str) -> dict[str, object]:
    return {
        "Node": node_name,
        "CheckID": check.check_id,
        "Name": check.name,
        "Status": check.status,
        "Notes": check.notes,
        "Output": check.output,
        "ServiceID": check.service_id,
        "ServiceName": check.service_name,
        "ServiceTags": check.service_tags,
        "Type": check.kind,
    }


def _indexes(row: Row[Node] | Row[Service] | Row[Check]) -> dict[str, int]:
    return {"CreateIndex": row.create_index, "ModifyIndex": row.modify_index}


def _weights(passing: int, warning: int) -> dict[str, int]:
    return {"Passing": passing, "Warning": warning}


def _service_addresses(field: str, addresses: Mapping[str, tuple[str, int]]) -> dict[str, object]:
    if not addresses:
        return {}
    return {field: {key: {"Address": address, "Port": port} for key, (address, port) in addresses.items()}}


def _proxy(settings: Mapping[str, object]) -> dict[str, object]:
    """Go prints these two even when nobody set them, and prints them last."""
    last = {name: settings.get(name, {}) for name in ("MeshGateway", "Expose")}
    return {**{name: value for name, value in settings.items() if name not in last}, **last}
