"""What the items of each endpoint can be selected by. Names are Consul's Go field names, exact in case.

| table          | an item is      | endpoints                                            |
|----------------|-----------------|------------------------------------------------------|
| `NODE`         | `Node`          | catalog/nodes                                        |
| `SERVICE_NODE` | `Instance`      | catalog/service, catalog/connect                     |
| `NODE_SERVICE` | `Service`       | catalog/node, catalog/node-services, agent/services  |
| `CHECK`        | `PlacedCheck`   | health/node, health/checks, health/state, agent/checks |
| `HEALTH_ENTRY` | `Instance`      | health/service, health/connect                       |

The settings of the service mesh are kept as they were registered, so they are read with care: what has
another type than it should have counts as not set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from adsum.catalog.filter import (
    Field,
    Fields,
    FilterFlag,
    Group,
    GroupMap,
    Groups,
    Number,
    Text,
    TextMap,
    Texts,
)
from adsum.catalog.model import Node, Service
from adsum.catalog.placed_check import PlacedCheck
from adsum.catalog.view import Instance


def _text(name: str) -> Text:
    return Text(_setting(name, str))


def _number(name: str) -> Number:
    return Number(_setting(name, int))


def _flag(name: str) -> FilterFlag:
    return FilterFlag(_setting(name, bool))


def _group(name: str, fields: Fields) -> Group:
    return Group(_setting(name, dict), fields)


def _groups(name: str, fields: Fields) -> Groups:
    def read(settings: Mapping[str, object]) -> Sequence[object]:
        found = settings.get(name)
        listed = found if isinstance(found, list | tuple) else ()
        return [each for each in listed if isinstance(each, Mapping)]

    return Groups(read, fields)


def _setting(name: str, kind: Callable[[], Any]) -> Callable[[Mapping[str, object]], Any]:
    empty = kind()

    def read(settings: Mapping[str, object]) -> Any:
        found = settings.get(name)
        return found if type(found) is kind else empty

    return read


MESH_GATEWAY = _group("MeshGateway", {"Mode": _text("Mode")})

UPSTREAM: Fields = {
    "DestinationType": _text("DestinationType"),
    "DestinationNamespace": _text("DestinationNamespace"),
    "DestinationName": _text("DestinationName"),
    "Datacenter": _text("Datacenter"),
    "LocalBindAddress": _text("LocalBindAddress"),
    "LocalBindPort": _number("LocalBindPort"),
    "MeshGateway": MESH_GATEWAY,
}

EXPOSED_PATH: Fields = {
    "ListenerPort": _number("ListenerPort"),
    "Path": _text("Path"),
    "LocalPathPort": _number("LocalPathPort"),
    "Protocol": _text("Protocol"),
    "ParsedFromCheck": _flag("ParsedFromCheck"),
}

PROXY: Fields = {
    "DestinationServiceName": _text("DestinationServiceName"),
    "DestinationServiceID": _text("DestinationServiceID"),
    "LocalServiceAddress": _text("LocalServiceAddress"),
    "LocalServicePort": _number("LocalServicePort"),
    "Upstreams": _groups("Upstreams", UPSTREAM),
    "MeshGateway": MESH_GATEWAY,
    "Expose": _group("Expose", {"Checks": _flag("Checks"), "Paths": _groups("Paths", EXPOSED_PATH)}),
}

CONNECT: Fields = {"Native": _flag("Native")}

# Tagged addresses of a service are (address, port) pairs.
TAGGED_ADDRESS: Fields = {
    "Address": Text(lambda pair: str(pair[0])),
    "Port": Number(lambda pair: int(pair[1])),
}

WEIGHTS: Fields = {
    "Passing": Number(lambda item: item.weight_passing),
    "Warning": Number(lambda item: item.weight_warning),
}

NODE: Fields = {
    "ID": Text(lambda item: item.node_id),
    "Node": Text(lambda item: item.name),
    "Address": Text(lambda item: item.address),
    "Datacenter": Text(lambda item: item.datacenter),
    "TaggedAddresses": TextMap(lambda item: item.tagged_addresses),
    "Meta": TextMap(lambda item: item.meta),
}

NODE_SERVICE: Fields = {
    "Kind": Text(lambda item: item.kind),
    "ID": Text(lambda item: item.service_id),
    "Service": Text(lambda item: item.name),
    "Tags": Texts(lambda item: item.tags),
    "Address": Text(lambda item: item.address),
    "TaggedAddresses": GroupMap(lambda item: item.tagged_addresses, TAGGED_ADDRESS),
    "Meta": TextMap(lambda item: item.meta),
    "Port": Number(lambda item: item.port),
    "Weights": Group(lambda service: service, WEIGHTS),
    "EnableTagOverride": FilterFlag(lambda item: item.enable_tag_override),
    "Proxy": Group(lambda item: item.proxy, PROXY),
    "Connect": Group(lambda item: item.connect, CONNECT),
}

CHECK: Fields = {
    "Node": Text(lambda item: item.node_name),
    "CheckID": Text(lambda item: item.check.check_id),
    "Name": Text(lambda item: item.check.name),
    "Status": Text(lambda item: item.check.status),
    "Notes": Text(lambda item: item.check.notes),
    "Output": Text(lambda item: item.check.output),
    "ServiceID": Text(lambda item: item.check.service_id),
    "ServiceName": Text(lambda item: item.check.service_name),
    "ServiceTags": Texts(lambda item: item.check.service_tags),
    "Type": Text(lambda item: item.check.kind),
}


def _node(instance: Instance) -> Node:
    return instance.host.node.value


def _service(instance: Instance) -> Service:
    return instance.service.value


def _checks(instance: Instance) -> list[PlacedCheck]:
    name = instance.host.name
    return [PlacedCheck(name, row.value) for row in instance.all_checks()]


HEALTH_ENTRY: Fields = {
    "Node": Group(_node, NODE),
    "Service": Group(_service, NODE_SERVICE),
    "Checks": Groups(_checks, CHECK),
}


def _of(part: Callable[[Any], object], field: Field) -> Field:
    """The same field, read from a part of the item."""
    read = field.read
    from_there: Any = lambda item: read(part(item))  # noqa: E731 (the name carries the type, which is the field's)
    return replace(field, read=from_there)


SERVICE_NODE: Fields = {
    **{("NodeMeta" if name == "Meta" else name): _of(_node, field) for name, field in NODE.items()},
    **{
        ("ServiceName" if name == "Service" else f"Service{name}"): _of(_service, field)
        for name, field in NODE_SERVICE.items()
    },
}

Items = Literal["node", "service_node", "node_service", "check", "health_entry"]
TABLES: dict[Items, Fields] = {
    "node": NODE,
    "service_node": SERVICE_NODE,
    "node_service": NODE_SERVICE,
    "check": CHECK,
    "health_entry": HEALTH_ENTRY,
}
