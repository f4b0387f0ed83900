"""The part of the configuration that the composite core decides by; the rim builds it from `Config`."""

from __future__ import annotations

from dataclasses import field

from adsum.catalog.definitions import CheckDefinition, ServiceDefinition
from adsum.catalog.model import Node, Service
from adsum.frozen import dataclass
from adsum.now import MINUTE

CHECK_UPDATE_INTERVAL_NS = 5 * MINUTE  # Consul's default


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    node: Node
    server: Service | None = None  # the catalog's `consul` entry, on an agent that is a server
    is_persistent: bool = True  # False with -dev: registrations live in memory
    services: tuple[ServiceDefinition, ...] = field(default=())
    checks: tuple[CheckDefinition, ...] = field(default=())
    check_update_interval_ns: int = CHECK_UPDATE_INTERVAL_NS
    discard_check_output: bool = False
