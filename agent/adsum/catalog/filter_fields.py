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
from operator import attrgetter, itemgetter
from typing import Any, Literal

from adsum.catalog.filter import FieldKind, Fields, FilterField
from adsum.catalog.model import PlacedCheck
from adsum.catalog.view import Instance
from adsum.frozen import replace

# What a setting is that counts as set.
SETTING_TYPES: dict[FieldKind, type] = {"text": str, "number": int, "flag": bool, "group": dict}


def _attributes(kind: FieldKind, **names: str) -> dict[str, FilterField]:
    """By their names in a filter: where they are in an item."""
    return {name: FilterField(kind, attrgetter(path)) for name, path in names.items()}


def _settings(kind: FieldKind, *names: str) -> dict[str, FilterField]:
    return {name: _setting(kind, name) for name in names}


def _setting(kind: FieldKind, name: str, fields: Fields | None = None) -> FilterField:
    wanted = SETTING_TYPES[kind]
    empty = wanted()

    def read(settings: Mapping[str, object]) -> Any:
        found = settings.get(name)
        return found if type(found) is wanted else empty

    return FilterField(kind, read, fields or {})


def _groups(name: str, fields: Fields) -> FilterField:
    def read(settings: Mapping[str, object]) -> Sequence[object]:
        found = settings.get(name)
        listed = found if isinstance(found, list | tuple) else ()
        return [each for each in listed if isinstance(each, Mapping)]

    return FilterField("groups", read, fields)


MESH_GATEWAY = _setting("group", "MeshGateway", _settings("text", "Mode"))

UPSTREAM: Fields = {
    **_settings("text", "DestinationType", "DestinationNamespace", "DestinationName"),
    **_settings("text", "Datacenter", "LocalBindAddress"),
    **_settings("number", "LocalBindPort"),
    "MeshGateway": MESH_GATEWAY,
}

EXPOSED_PATH: Fields = {
    **_settings("text", "Path", "Protocol"),
    **_settings("number", "ListenerPort", "LocalPathPort"),
    **_settings("flag", "ParsedFromCheck"),
}

EXPOSE: Fields = {**_settings("flag", "Checks"), "Paths": _groups("Paths", EXPOSED_PATH)}

PROXY: Fields = {
    **_settings("text", "DestinationServiceName", "DestinationServiceID", "LocalServiceAddress"),
    **_settings("number", "LocalServicePort"),
    "Upstreams": _groups("Upstreams", UPSTREAM),
    "MeshGateway": MESH_GATEWAY,
    "Expose": _setting("group", "Expose", EXPOSE),
}

CONNECT: Fields = _settings("flag", "Native")

# Tagged addresses of a service are (address, port) pairs.
TAGGED_ADDRESS: Fields = {
    "Address": FilterField("text", itemgetter(0)),
    "Port": FilterField("number", itemgetter(1)),
}

WEIGHTS: Fields = _attributes("number", Passing="weight_passing", Warning="weight_warning")

NODE: Fields = {
    **_attributes("text", ID="node_id", Node="name", Address="address", Datacenter="datacenter"),
    **_attributes("text map", TaggedAddresses="tagged_addresses", Meta="meta"),
}

NODE_SERVICE: Fields = {
    **_attributes("text", Kind="kind", ID="service_id", Service="name", Address="address"),
    **_attributes("texts", Tags="tags"),
    **_attributes("text map", Meta="meta"),
    **_attributes("number", Port="port"),
    **_attributes("flag", EnableTagOverride="enable_tag_override"),
    "TaggedAddresses": FilterField("group map", attrgetter("tagged_addresses"), TAGGED_ADDRESS),
    "Weights": FilterField("group", lambda service: service, WEIGHTS),
    "Proxy": FilterField("group", attrgetter("proxy"), PROXY),
    "Connect": FilterField("group", attrgetter("connect"), CONNECT),
}

CHECK: Fields = {
    **_attributes("text", Node="node_name", CheckID="check.check_id", Name="check.name", Type="check.kind"),
    **_attributes("text", Status="check.status", Notes="check.notes", Output="check.output"),
    **_attributes("text", ServiceID="check.service_id", ServiceName="check.service_name"),
    **_attributes("texts", ServiceTags="check.service_tags"),
}

NODE_OF_INSTANCE, SERVICE_OF_INSTANCE = attrgetter("host.node.value"), attrgetter("service.value")


def _checks(instance: Instance) -> list[PlacedCheck]:
    name = instance.host.name
    return [PlacedCheck(name, row.value) for row in instance.all_checks()]


HEALTH_ENTRY: Fields = {
    "Node": FilterField("group", NODE_OF_INSTANCE, NODE),
    "Service": FilterField("group", SERVICE_OF_INSTANCE, NODE_SERVICE),
    "Checks": FilterField("groups", _checks, CHECK),
}


def _of(part: Callable[[Any], object], field: FilterField) -> FilterField:
    """The same field, read from a part of the item."""
    read = field.read
    return replace(field, read=lambda item: read(part(item)))


SERVICE_NODE: Fields = {
    **{
        ("NodeMeta" if name == "Meta" else name): _of(NODE_OF_INSTANCE, field) for name, field in NODE.items()
    },
    **{
        ("ServiceName" if name == "Service" else f"Service{name}"): _of(SERVICE_OF_INSTANCE, field)
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
