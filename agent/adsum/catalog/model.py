"""The facts that an owner publishes: a node, its services, its checks.

Plain immutable values, the same on the owner and on every copy. Who may write them is not their concern;
indexes, order and liveness are added by `catalog.view`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from adsum.catalog.definitions import CheckStatus
from adsum.frozen import dataclass
from adsum.named import NamedTuple

SERF_HEALTH = "serfHealth"
NODE_MAINTENANCE = "_node_maintenance"
SERVICE_MAINTENANCE = "_service_maintenance:"  # followed by the service id


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    node_id: str
    name: str
    address: str
    datacenter: str
    tagged_addresses: Mapping[str, str] = field(default_factory=dict)
    meta: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    service_id: str
    name: str
    kind: str = ""
    tags: tuple[str, ...] = ()
    address: str = ""
    port: int = 0
    tagged_addresses: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    meta: Mapping[str, str] = field(default_factory=dict)
    weight_passing: int = 1
    weight_warning: int = 1
    enable_tag_override: bool = False
    # Service mesh settings: carried for the clients that registered them, never interpreted.
    proxy: Mapping[str, object] = field(default_factory=dict)
    connect: Mapping[str, object] = field(default_factory=dict)
    node: str = ""  # empty: its owner's own


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    check_id: str
    name: str
    status: CheckStatus
    notes: str = ""
    output: str = ""
    service_id: str = ""  # empty for a check of the node as a whole
    service_name: str = ""
    service_tags: tuple[str, ...] = ()
    kind: str = ""
    node: str = ""  # empty: its owner's own
    definition: str = ""  # JSON, for whoever runs the checks of nodes without an agent


class PlacedCheck(NamedTuple):
    """A check with the node it is on, which it does not know itself."""

    node_name: str
    check: Check
