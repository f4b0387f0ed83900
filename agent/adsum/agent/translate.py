"""From the operator's configuration to what each room wants to know: only renamed, nothing decided."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from adsum.agent.config.config import Config
from adsum.agent.settings import Settings
from adsum.api.answers import EVERYWHERE
from adsum.api.browser import BrowserRules
from adsum.api.limits import HttpLimits
from adsum.api.router import HttpRules
from adsum.api.version import CONSUL_API_VERSION
from adsum.catalog.model import Node, Service
from adsum.catalog.tagged import with_family_addresses
from adsum.dns.settings import RECURSOR_PORT, DnsSettings, Recursor, Soa
from adsum.health_checks.runner import Options
from adsum.now import SECOND

# What Consul's servers say of themselves in the catalog; clients read the version.
SERVER_META = {
    "non_voter": "false",
    "raft_version": "3",
    "serf_protocol_current": "2",
    "serf_protocol_max": "5",
    "serf_protocol_min": "1",
    "version": CONSUL_API_VERSION,
}


def core_settings(config: Config, node: Node) -> Settings:
    return Settings(
        node=node,
        server=_server(config) if config.is_server else None,
        is_persistent=bool(config.data_dir),
        services=tuple(map(with_family_addresses, config.services)),
        checks=config.checks,
        check_update_interval_ns=config.check_update_interval_ns,
        discard_check_output=config.discard_check_output,
    )


def _server(config: Config) -> Service:
    return Service(service_id="consul", name="consul", port=config.ports.server, meta=SERVER_META)


def dns_settings(config: Config) -> DnsSettings:
    dns = config.dns
    others = (config.alt_domain, *dns.extra_domains)
    return DnsSettings(
        domain=config.domain,
        other_domains=tuple(name for name in others if name),
        datacenter=config.datacenter,
        node_ttl_s=dns.node_ttl_ns // SECOND,
        service_ttl_s={name: ttl_ns // SECOND for name, ttl_ns in dns.service_ttl_ns.items()},
        soa=Soa(
            refresh_s=dns.soa.refresh_s,
            retry_s=dns.soa.retry_s,
            expire_s=dns.soa.expire_s,
            min_ttl_s=dns.soa.min_ttl_s,
        ),
        only_passing=dns.only_passing,
        enable_additional_node_meta_txt=dns.enable_additional_node_meta_txt,
        udp_answer_limit=dns.udp_answer_limit,
        a_record_limit=dns.a_record_limit,
        enable_truncate=dns.enable_truncate,
        disable_compression=dns.disable_compression,
        udp_bytes_max_other_hosts=dns.udp_answer_bytes_max,
        recursors=tuple(map(_recursor, config.recursors)),
        recursor_timeout_s=dns.recursor_timeout_ns / SECOND,
    )


def _recursor(text: str) -> Recursor:
    """`1.1.1.1`, `1.1.1.1:53`, `::1` or `[::1]:53`, as `config.network` has checked."""
    if text.startswith("["):
        host, _, port = text[1:].partition("]")
        return Recursor(host=host, port=int(port.removeprefix(":") or RECURSOR_PORT))
    if text.count(":") == 1:
        host, _, port = text.partition(":")
        return Recursor(host=host, port=int(port))
    return Recursor(host=text)


def http_rules(config: Config) -> HttpRules:
    headers = (*EVERYWHERE, *config.http.response_headers.items())
    return HttpRules(
        block_endpoints=config.http.block_endpoints,
        allow_write_http_from=tuple(map(ipaddress.ip_network, config.http.allow_write_http_from)),
        response_headers=headers,
        browser=BrowserRules(
            hosts=frozenset(name.lower() for name in (config.node_name, *config.http.allowed_hosts)),
            domains=dns_settings(config).domains,
            allowed_origin=_allowed_origin(config.http.response_headers),
        ),
    )


def _allowed_origin(headers: Mapping[str, str]) -> str:
    for name, value in headers.items():
        if name.lower() == "access-control-allow-origin":
            return value
    return ""


def http_limits(config: Config, *, connections_max: int) -> HttpLimits:
    per_client = config.limits.http_max_conns_per_client
    return HttpLimits(connections_per_client_max=per_client, connections_max=connections_max)


def check_options(config: Config, environ: Mapping[str, str]) -> Options:
    return Options(output_bytes_max=config.check_output_bytes_max, environ=environ)
