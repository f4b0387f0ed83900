"""Merged settings become a `Config`: every value read in its own way, every rule looked at, no error lost."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from adsum.catalog.definitions import CheckDefinition, ServiceDefinition
from adsum.config import network
from adsum.config.config import (
    Addresses,
    Config,
    Consensus,
    Dns,
    Gossip,
    Http,
    LimitsConfig,
    Ports,
    SoaConfig,
    Telemetry,
    UnixSockets,
    WatchDefinition,
)
from adsum.config.errors import ConfigError, ConfigErrors
from adsum.config.keys import KEYS, TLS_KEYS
from adsum.config.kinds import DISABLED, BadValue
from adsum.config.merge import Placed, Settings
from adsum.config.rules import check_rules, read_gossip_mode, read_log_level, refuse_or_warn
from adsum.config.values import Values
from adsum.frozen import dataclass
from adsum.logs.settings import LogSettings

if TYPE_CHECKING:
    from adsum.net.tls import Tls, TlsSettings

__all__ = ["ConfigError", "ConfigErrors", "Loaded", "build"]

OCTAL_MODE = re.compile(r"[0-7]{3,4}")

# What -dev implies, as in Consul: one talkative server in memory on loopback. Files and flags override it.
# A log of larger entries would no longer be brought to others in single messages.
VALUE_BYTES_MOST = 4 << 20
DEV_DEFAULTS: Mapping[str, object] = {
    "server": True,
    "bind_addr": "127.0.0.1",
    "log_level": "DEBUG",
    "disable_keyring_file": True,
}


@dataclass(frozen=True, slots=True)
class Loaded:
    config: Config
    warnings: list[str]
    tls: Tls | None = None  # made of the files of config.tls


def build(
    settings: Settings, errors: list[ConfigError], *, is_dev: bool, hostname: Callable[[], str]
) -> Loaded:
    """Raises `ConfigErrors` with those given and all that are found here."""
    builder = _Builder(Values(settings, DEV_DEFAULTS if is_dev else {}, errors), settings)
    config = builder.config(is_dev=is_dev, hostname=hostname)
    if errors:
        raise ConfigErrors(errors)
    return Loaded(config, builder.warnings, builder.tls)


class _Builder:
    def __init__(self, values: Values, settings: Settings) -> None:
        self._values = values
        self._settings = settings
        self.warnings: list[str] = []
        self.tls: Tls | None = None

    def config(self, *, is_dev: bool, hostname: Callable[[], str]) -> Config:
        values = self._values
        self.warnings += refuse_or_warn(values, self._settings)
        is_server = values.boolean("server")
        bind_address = self._read("bind_addr", network.read_address)
        expect = values.count("bootstrap_expect")
        output_bytes_max = values.count("check_output_max_size")
        services, checks = self._definitions(output_bytes_max)
        config = Config(
            datacenter=values.text("datacenter").lower(),
            node_name=values.text("node_name") or hostname(),
            node_id=values.text("node_id").lower(),
            node_meta=values.text_map("node_meta"),
            data_dir=values.text("data_dir"),
            is_dev=is_dev,
            is_server=is_server,
            bootstrap=is_dev or values.boolean("bootstrap") or expect == 1,
            bootstrap_expect=expect,
            leave_on_terminate=values.boolean("leave_on_terminate", default=not is_server),
            skip_leave_on_interrupt=values.boolean("skip_leave_on_interrupt", default=is_server),
            pid_file=values.text("pid_file"),
            bind_address=bind_address,
            advertise_address=self._advertised(bind_address),
            advertise_address_wan=self._read("advertise_addr_wan", network.read_specific_address),
            tagged_addresses=values.text_map("tagged_addresses"),
            addresses=self._addresses(),
            ports=Ports(**{name: values.integer(f"ports.{name}") for name in Ports.__annotations__}),
            unix_sockets=self._unix_sockets(),
            gossip=self._gossip(),
            serf_lan_address=self._read("serf_lan", network.read_address) or bind_address,
            serf_lan_allowed_cidrs=self._read_each("serf_lan_allowed_cidrs", network.read_network),
            start_join=self._read_each("start_join", network.read_join_entry),
            retry_join=self._read_each("retry_join", network.read_join_entry),
            retry_interval_ns=values.integer("retry_interval"),
            retry_max=values.count("retry_max"),
            rejoin_after_leave=values.boolean("rejoin_after_leave"),
            encrypt=self._read("encrypt", network.read_gossip_key),
            encrypt_verify_incoming=values.boolean("encrypt_verify_incoming"),
            encrypt_verify_outgoing=values.boolean("encrypt_verify_outgoing"),
            disable_keyring_file=values.boolean("disable_keyring_file"),
            domain=(domain := self._read("domain", network.read_domain)),
            alt_domain=self._read("alt_domain", network.read_domain),
            recursors=self._read_each("recursors", network.read_recursor),
            dns=self._dns(),
            http=self._http(),
            limits=LimitsConfig(
                http_max_conns_per_client=values.count("limits.http_max_conns_per_client"),
                https_handshake_timeout_ns=values.integer("limits.https_handshake_timeout"),
                kv_value_bytes_max=self._within("limits.kv_max_value_size", 1, VALUE_BYTES_MOST),
            ),
            consensus=self._consensus(),
            tls=self._read_tls(domain),
            telemetry=self._telemetry(),
            log=self._log(),
            enable_script_checks=values.boolean("enable_script_checks"),
            check_update_interval_ns=values.integer("check_update_interval"),
            check_output_bytes_max=output_bytes_max,
            discard_check_output=values.boolean("discard_check_output"),
            services=services,
            checks=checks,
            watches=self._watches(),
            default_query_time_ns=values.integer("default_query_time"),
            max_query_time_ns=values.integer("max_query_time"),
            session_ttl_min_ns=values.integer("session_ttl_min"),
            given={name: _as_written(name, given) for name, given in self._settings.items()},
        )
        self.warnings += check_rules(config, values)
        if config.has_https_certificate or config.ports.https == DISABLED:
            return config
        # Test harnesses set the port and no certificate: with nothing to show, nothing listens.
        return replace(config, ports=replace(config.ports, https=DISABLED))

    def _consensus(self) -> Consensus:
        values = self._values
        return Consensus(
            raft_multiplier=self._within("performance.raft_multiplier", 1, 10),
            rpc_hold_timeout_ns=values.integer("performance.rpc_hold_timeout"),
            snapshot_threshold=values.count("raft_snapshot_threshold"),
            snapshot_interval_ns=values.integer("raft_snapshot_interval"),
            trailing_logs=values.count("raft_trailing_logs"),
            removes_dead=values.boolean("autopilot.cleanup_dead_servers"),
            stabilization_time_ns=values.integer("autopilot.server_stabilization_time"),
            trailing_logs_max=values.count("autopilot.max_trailing_logs"),
            voters_min=values.count("autopilot.min_quorum"),
            session_node_grace_ns=values.integer("session_node_grace"),
        )

    def _within(self, name: str, least: int, most: int) -> int:
        value = self._values.integer(name)
        if not least <= value <= most:
            self._values.refuse(name, f"must be from {least} to {most}, not {value}")
        return value

    def _addresses(self) -> Addresses:
        everywhere = self._listeners("client_addr", takes_unix=False)
        return Addresses(
            dns=self._listeners("addresses.dns", takes_unix=False) or everywhere,
            http=self._listeners("addresses.http", takes_unix=True) or everywhere,
            https=self._listeners("addresses.https", takes_unix=True) or everywhere,
        )

    def _advertised(self, bind_address: str) -> str:
        """What the other agents will connect to: a specific bind address says it already."""
        if self._values.text("advertise_addr"):
            return self._read("advertise_addr", network.read_specific_address)
        return "" if bind_address in {"0.0.0.0", "::"} else bind_address  # noqa: S104

    def _gossip(self) -> Gossip:
        values = self._values
        return Gossip(
            mode=self._read("gossip.mode", read_gossip_mode) or "classic",
            refused_grace_ns=values.integer("gossip.refused_grace"),
            push_nodes=values.integer("gossip.push_nodes"),
            probe_interval_ns=values.integer("gossip_lan.probe_interval"),
            probe_timeout_ns=values.integer("gossip_lan.probe_timeout"),
            gossip_interval_ns=values.integer("gossip_lan.gossip_interval"),
            gossip_nodes=values.integer("gossip_lan.gossip_nodes"),
            retransmit_mult=values.integer("gossip_lan.retransmit_mult"),
            suspicion_mult=values.integer("gossip_lan.suspicion_mult"),
            reconnect_timeout_ns=values.integer("reconnect_timeout"),
        )

    def _unix_sockets(self) -> UnixSockets:
        mode = self._values.text("unix_sockets.mode")
        if mode and not OCTAL_MODE.fullmatch(mode):
            self._values.refuse("unix_sockets.mode", f'must be an octal mode as "0660", not "{mode}"')
            mode = ""
        return UnixSockets(
            user=self._values.text("unix_sockets.user"),
            group=self._values.text("unix_sockets.group"),
            mode=int(mode, 8) if mode else None,
        )

    def _dns(self) -> Dns:
        values = self._values
        return Dns(
            node_ttl_ns=values.integer("dns_config.node_ttl"),
            service_ttl_ns=values.duration_map("dns_config.service_ttl"),
            enable_truncate=values.boolean("dns_config.enable_truncate"),
            only_passing=values.boolean("dns_config.only_passing"),
            udp_answer_limit=values.count("dns_config.udp_answer_limit"),
            a_record_limit=values.count("dns_config.a_record_limit"),
            udp_answer_bytes_max=values.count("dns_config.udp_answer_bytes_max"),
            disable_compression=values.boolean("dns_config.disable_compression"),
            recursor_timeout_ns=values.integer("dns_config.recursor_timeout"),
            enable_additional_node_meta_txt=values.boolean("dns_config.enable_additional_node_meta_txt"),
            soa=SoaConfig(
                refresh_s=values.count("dns_config.soa.refresh"),
                retry_s=values.count("dns_config.soa.retry"),
                expire_s=values.count("dns_config.soa.expire"),
                min_ttl_s=values.count("dns_config.soa.min_ttl"),
            ),
            extra_domains=self._read_each("dns_config.extra_domains", network.read_domain),
        )

    def _http(self) -> Http:
        values = self._values
        return Http(
            response_headers=values.text_map("http_config.response_headers"),
            block_endpoints=values.texts("http_config.block_endpoints"),
            allow_write_http_from=self._read_each("http_config.allow_write_http_from", network.read_network),
            allowed_hosts=tuple(host.lower() for host in values.texts("http_config.allowed_hosts")),
        )

    def _read_tls(self, domain: str) -> TlsSettings | None:
        if not any(self._values.is_given(name) for name in TLS_KEYS):
            return None
        from adsum.config.tls import read_tls  # which reads the certificates, too

        settings, self.tls, warnings = read_tls(self._values, domain=domain)
        self.warnings += warnings
        return settings

    def _telemetry(self) -> Telemetry:
        return Telemetry(
            metrics_prefix=self._values.text("telemetry.metrics_prefix"),
            prefix_filter=self._values.texts("telemetry.prefix_filter"),
            filter_default=self._values.boolean("telemetry.filter_default"),
        )

    def _log(self) -> LogSettings:
        values = self._values
        return LogSettings(
            level=self._read("log_level", read_log_level),
            is_json=values.boolean("log_json"),
            file=values.text("log_file"),
            rotate_duration_ns=values.integer("log_rotate_duration"),
            rotate_bytes=values.count("log_rotate_bytes"),
            rotate_max_files=values.integer("log_rotate_max_files"),
            has_syslog=values.boolean("enable_syslog"),
            syslog_facility=values.text("syslog_facility").upper(),
        )

    def _definitions(
        self, output_bytes_max: int
    ) -> tuple[tuple[ServiceDefinition, ...], tuple[CheckDefinition, ...]]:
        if not (self._values.is_given("services") or self._values.is_given("checks")):
            return (), ()
        from adsum.config.objects import read_definitions  # most agents learn theirs over HTTP

        services, checks, warnings = read_definitions(self._values, output_bytes_max=output_bytes_max)
        self.warnings += warnings
        return services, checks

    def _watches(self) -> tuple[WatchDefinition, ...]:
        if not self._values.is_given("watches"):
            return ()
        from adsum.config.watches import read_watches

        watches, warnings = read_watches(self._values)
        self.warnings += warnings
        return watches

    def _read(self, name: str, reader: Callable[[str], str]) -> str:
        text = self._values.text(name)
        try:
            return reader(text) if text else ""
        except BadValue as problem:
            self._values.refuse(name, str(problem))
            return ""

    def _read_each(self, name: str, reader: Callable[[str], str]) -> tuple[str, ...]:
        if not self._values.is_given(name):
            return self._values.texts(name)
        texts = []
        for placed in self._values.given(name):
            try:
                texts.append(reader(str(placed.value)))
            except BadValue as problem:
                self._values.refuse_at(placed.place, str(problem))
        return tuple(filter(None, texts))

    def _listeners(self, name: str, *, takes_unix: bool) -> tuple[str, ...]:
        text = self._values.text(name)
        try:
            return network.read_listeners(text, takes_unix=takes_unix) if text else ()
        except BadValue as problem:
            self._values.refuse(name, str(problem))
            return ()


def _as_written(name: str, given: tuple[Placed, ...]) -> object:
    kind = KEYS[name].kind
    if kind.is_list:
        return [each.raw for each in given]
    if kind.is_map:
        return {each.name: each.raw for each in given}
    return given[-1].raw
