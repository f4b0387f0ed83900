"""What one agent was told, once files, flags and defaults are put together.

Only what something acts on is a field. The rest of what was given is kept in `given`, so that an operator can
see it back (`raw`), and was warned about or refused when it was read (`keys.Support`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from adsum.catalog.definitions import OUTPUT_BYTES_MAX, CheckDefinition, ServiceDefinition
from adsum.config.redact import redacted
from adsum.frozen import dataclass
from adsum.logs.settings import LogSettings
from adsum.now import HOUR, MILLISECOND, MINUTE, SECOND
from adsum.watch_plan import WatchPlan

if TYPE_CHECKING:
    from adsum.net.tls import TlsSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """-1 does not listen."""

    dns: int = 8600
    http: int = 8500
    https: int = -1
    serf_lan: int = 8301
    serf_wan: int = 8302
    server: int = 8300


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where each listener binds: IP addresses, for HTTP and HTTPS also `unix:///path`."""

    dns: tuple[str, ...] = ("127.0.0.1",)
    http: tuple[str, ...] = ("127.0.0.1",)
    https: tuple[str, ...] = ("127.0.0.1",)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnixSockets:
    user: str = ""
    group: str = ""
    mode: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gossip:
    """`gossip_lan` with Consul's defaults, and what is ours under `gossip`."""

    mode: str = "classic"  # or "adaptive"
    refused_grace_ns: int = SECOND
    push_nodes: int = 5  # none: news waits for the next gossip
    probe_interval_ns: int = SECOND
    probe_timeout_ns: int = 500 * MILLISECOND
    gossip_interval_ns: int = 200 * MILLISECOND
    gossip_nodes: int = 3
    retransmit_mult: int = 4
    suspicion_mult: int = 4
    reconnect_timeout_ns: int = 72 * HOUR


@dataclass(frozen=True, slots=True, kw_only=True)
class SoaConfig:
    refresh_s: int = 3600
    retry_s: int = 600
    expire_s: int = 86400
    min_ttl_s: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Dns:
    node_ttl_ns: int = 0
    service_ttl_ns: Mapping[str, int] = field(default_factory=dict)  # a name, "prefix*" or "*"
    enable_truncate: bool = True
    only_passing: bool = False
    udp_answer_limit: int = 3
    a_record_limit: int = 0
    udp_answer_bytes_max: int = 1232  # to other hosts; larger answers amplify and get fragmented
    disable_compression: bool = False
    recursor_timeout_ns: int = 2 * SECOND
    enable_additional_node_meta_txt: bool = True
    soa: SoaConfig = field(default_factory=SoaConfig)
    extra_domains: tuple[str, ...] = ("adsum.",)  # answered as well as `domain` and `alt_domain`


@dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    response_headers: Mapping[str, str] = field(default_factory=dict)
    block_endpoints: tuple[str, ...] = ()
    allow_write_http_from: tuple[str, ...] = ()  # networks, as 10.0.0.0/8
    allowed_hosts: tuple[str, ...] = ()  # Host headers a loopback listener takes besides the usual ones


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsConfig:
    http_max_conns_per_client: int = 16384  # Consul's 200 is what users trip over
    https_handshake_timeout_ns: int = 5 * SECOND
    kv_value_bytes_max: int = 512 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    metrics_prefix: str = "consul"
    prefix_filter: tuple[str, ...] = ()  # "+prefix" allows, "-prefix" drops
    filter_default: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Consensus:
    """Of servers; a client holds requests as long as they do."""

    raft_multiplier: int = 1  # stretches heartbeats and elections; Consul's default is 5
    rpc_hold_timeout_ns: int = 7 * SECOND
    snapshot_threshold: int = 16_384  # entries
    snapshot_interval_ns: int = 30 * SECOND
    trailing_logs: int = 10_240
    removes_dead: bool = True
    stabilization_time_ns: int = 10 * SECOND  # how long a newcomer only learns
    trailing_logs_max: int = 250  # that it may lack when it gets its vote
    voters_min: int = 0  # so many stay, however many are dead
    session_node_grace_ns: int = 10 * SECOND  # how long a node has failed before its sessions end


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpHandler:
    url: str
    method: str = "POST"
    header: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    timeout_ns: int = 10 * SECOND
    tls_skip_verify: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchDefinition:
    """Handled by a program or by a request."""

    plan: WatchPlan
    args: tuple[str, ...] = ()
    http: HttpHandler | None = None
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    datacenter: str = "dc1"
    node_name: str = ""
    node_id: str = ""  # empty: the one kept in data_dir, or a new one
    node_meta: Mapping[str, str] = field(default_factory=dict)
    data_dir: str = ""  # empty only with -dev
    is_dev: bool = False
    is_server: bool = False
    bootstrap: bool = False
    bootstrap_expect: int = 0
    leave_on_terminate: bool = True
    skip_leave_on_interrupt: bool = False
    pid_file: str = ""

    bind_address: str = "0.0.0.0"  # noqa: S104 - as Consul
    advertise_address: str = ""  # empty: the host has to be asked, bind_addr being unspecific
    advertise_address_wan: str = ""
    tagged_addresses: Mapping[str, str] = field(default_factory=dict)
    addresses: Addresses = field(default_factory=Addresses)
    ports: Ports = field(default_factory=Ports)
    unix_sockets: UnixSockets = field(default_factory=UnixSockets)

    gossip: Gossip = field(default_factory=Gossip)
    serf_lan_address: str = "0.0.0.0"  # noqa: S104 - bind_addr unless serf_lan says otherwise
    serf_lan_allowed_cidrs: tuple[str, ...] = ()  # networks, as 10.0.0.0/8; empty lets all in
    start_join: tuple[str, ...] = ()  # tried once
    retry_join: tuple[str, ...] = ()
    retry_interval_ns: int = 30 * SECOND
    retry_max: int = 0  # never gives up
    rejoin_after_leave: bool = False
    encrypt: str = field(default="", repr=False)  # a key in base64
    encrypt_verify_incoming: bool = True
    encrypt_verify_outgoing: bool = True
    disable_keyring_file: bool = False

    domain: str = "consul."  # lower case, with the final dot
    alt_domain: str = ""
    recursors: tuple[str, ...] = ()  # an IP address, or one with a port as 1.1.1.1:53 and [::1]:53
    dns: Dns = field(default_factory=Dns)
    http: Http = field(default_factory=Http)
    limits: LimitsConfig = field(default_factory=LimitsConfig)
    consensus: Consensus = field(default_factory=Consensus)
    tls: TlsSettings | None = None  # none: not one key of it is given
    telemetry: Telemetry = field(default_factory=Telemetry)
    log: LogSettings = field(default_factory=LogSettings)

    enable_script_checks: bool = False
    check_update_interval_ns: int = 5 * MINUTE
    check_output_bytes_max: int = OUTPUT_BYTES_MAX
    discard_check_output: bool = False
    services: tuple[ServiceDefinition, ...] = ()
    checks: tuple[CheckDefinition, ...] = ()
    watches: tuple[WatchDefinition, ...] = ()

    default_query_time_ns: int = 300 * SECOND
    max_query_time_ns: int = 600 * SECOND
    session_ttl_min_ns: int = 0

    # what was given, by key ("ports.http"), secrets included: for comparing, never for printing
    given: Mapping[str, object] = field(default_factory=dict, repr=False)

    @property
    def has_https_certificate(self) -> bool:
        https = self.tls and self.tls.for_https
        return bool(https and https.cert_file and https.key_file)

    @property
    def raw(self) -> dict[str, object]:
        """What was given, as one tree, for people: secrets are hidden."""
        tree: dict[str, object] = {}
        for key, value in sorted(self.given.items()):
            _plant(tree, key, redacted(key, value))
        return tree


def _plant(tree: dict[str, object], key: str, value: object) -> None:
    *sections, name = key.split(".")
    for section in sections:
        inner = tree.setdefault(section, {})
        assert isinstance(inner, dict)  # a key is never both a section and a value
        tree = inner
    tree[name] = value
