"""What an operator asks for: a service and the checks that judge it, as registered over HTTP or in a file.

One flat check definition serves every kind, as in Consul's API: which field is set decides the kind.
Definitions are immutable values; what a check currently says lives in `catalog.local`.
Texts and limits: the contract, sections 1.4, 1.13 and 2.
"""

from __future__ import annotations

import enum
import re
from dataclasses import field

from adsum.frozen import dataclass
from adsum.named import NamedTuple
from adsum.now import MINUTE, SECOND

OUTPUT_BYTES_MAX = 4096  # Consul's check_output_max_size
META_PAIRS_MAX = 64
META_KEY_LENGTH_MAX = 128
META_VALUE_LENGTH_MAX = 512
WEIGHT_MAX = 65535
INTERVAL_NS_MIN = 1 * SECOND
DEREGISTER_NS_MIN = 1 * MINUTE
PROXY_KEYS_OF_NO_GATEWAY = (
    *("DestinationServiceName", "DestinationServiceID", "LocalServiceAddress", "LocalServicePort"),
)
SHOWN_CHARACTERS_MAX = 80
META_KEY = re.compile(r"[A-Za-z0-9_-]+")


class BadDefinition(ValueError):
    """The caller's definition cannot be used; nothing was changed. The message is the answer's body."""


def shown(text: str) -> str:
    """For people, who have better uses for a megabyte of a log."""
    return f'"{text}"' if len(text) <= SHOWN_CHARACTERS_MAX else f'"{text[:SHOWN_CHARACTERS_MAX]}…"'


class CheckStatus(enum.StrEnum):
    PASSING = "passing"
    WARNING = "warning"
    CRITICAL = "critical"


class CheckKind(enum.StrEnum):
    """As the `Type` field of a check in the catalog spells it."""

    SCRIPT = "script"
    DOCKER = "docker"
    HTTP = "http"
    TCP = "tcp"
    UDP = "udp"
    GRPC = "grpc"
    H2PING = "h2ping"
    OS_SERVICE = "os_service"
    TTL = "ttl"
    ALIAS = "alias"
    MAINTENANCE = "maintenance"
    NONE = ""


SERVICE_PORT_MAX = 65535  # Consul takes any integer, but an SRV record has sixteen bits for it
DEFAULT_TIMEOUT_NS = {CheckKind.SCRIPT: 30 * SECOND, CheckKind.DOCKER: 30 * SECOND}
DEFAULT_TIMEOUT_OTHERS_NS = 10 * SECOND


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckDefinition:
    check_id: str = ""
    name: str = ""
    notes: str = ""
    service_id: str = ""
    status: str = ""  # the initial one; empty means critical
    token: str = ""

    args: tuple[str, ...] = ()
    docker_container_id: str = ""
    shell: str = ""
    http: str = ""
    method: str = ""
    header: dict[str, list[str]] = field(default_factory=dict)
    body: str = ""
    disable_redirects: bool = False
    tcp: str = ""
    tcp_use_tls: bool = False
    udp: str = ""
    grpc: str = ""
    grpc_use_tls: bool = False
    h2ping: str = ""
    h2ping_use_tls: bool = True
    os_service: str = ""
    tls_skip_verify: bool = False
    tls_server_name: str = ""
    alias_service: str = ""
    alias_node: str = ""

    interval_ns: int = 0
    timeout_ns: int = 0
    ttl_ns: int = 0
    success_before_passing: int = 0
    failures_before_warning: int = 0
    failures_before_critical: int = 0
    deregister_critical_service_after_ns: int = 0
    output_max_size: int = OUTPUT_BYTES_MAX

    @property
    def kind(self) -> CheckKind:
        if self.alias_service or self.alias_node:
            return CheckKind.ALIAS
        if self.ttl_ns:
            return CheckKind.TTL
        if self.docker_container_id and self.args:
            return CheckKind.DOCKER
        targets = (
            (CheckKind.SCRIPT, self.args),
            (CheckKind.HTTP, self.http),
            (CheckKind.TCP, self.tcp),
            (CheckKind.UDP, self.udp),
            (CheckKind.GRPC, self.grpc),
            (CheckKind.H2PING, self.h2ping),
            (CheckKind.OS_SERVICE, self.os_service),
        )
        return next((kind for kind, target in targets if target), CheckKind.NONE)

    @property
    def effective_timeout_ns(self) -> int:
        return self.timeout_ns or DEFAULT_TIMEOUT_NS.get(self.kind, DEFAULT_TIMEOUT_OTHERS_NS)

    @property
    def effective_interval_ns(self) -> int:
        return max(self.interval_ns, INTERVAL_NS_MIN)

    @property
    def effective_deregister_ns(self) -> int:
        """Nought means that a critical check never takes its service along."""
        wanted_ns = self.deregister_critical_service_after_ns
        return max(wanted_ns, DEREGISTER_NS_MIN) if wanted_ns > 0 else 0


class ServiceAddress(NamedTuple):
    address: str
    port: int


class Weights(NamedTuple):
    passing: int = 1
    warning: int = 1


EQUAL_WEIGHTS = Weights()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceDefinition:
    service_id: str = ""
    name: str = ""
    kind: str = ""
    tags: tuple[str, ...] = ()
    address: str = ""
    port: int = 0
    meta: dict[str, str] = field(default_factory=dict)
    tagged_addresses: dict[str, ServiceAddress] = field(default_factory=dict)
    weights: Weights = EQUAL_WEIGHTS
    enable_tag_override: bool = False
    token: str = ""
    proxy: dict[str, object] = field(default_factory=dict)  # carried for clients that read it; no mesh here
    connect: dict[str, object] = field(default_factory=dict)
    checks: tuple[CheckDefinition, ...] = ()  # ids, names and service ids are already filled in
