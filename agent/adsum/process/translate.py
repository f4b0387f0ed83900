"""From the operator's configuration to what each room wants to know: only renamed, nothing decided."""

from __future__ import annotations

from adsum.agent.settings import AgentSettings
from adsum.catalog.model import Node, Service
from adsum.catalog.tagged import with_family_addresses
from adsum.config.config import Config
from adsum.dns.limits import DnsLimits
from adsum.dns.settings import RECURSOR_PORT, DnsSettings, Recursor, Soa
from adsum.now import SECOND
from adsum.process.file_limit import Shares
from adsum.version import CONSUL_API_VERSION

# What Consul's servers say of themselves in the catalog; clients read the version.
SERVER_META = {
    "non_voter": "false",
    "raft_version": "3",
    "serf_protocol_current": "2",
    "serf_protocol_max": "5",
    "serf_protocol_min": "1",
    "version": CONSUL_API_VERSION,
}


def core_settings(config: Config, node: Node) -> AgentSettings:
    server = Service(service_id="consul", name="consul", port=config.ports.server, meta=SERVER_META)
    return AgentSettings(
        node=node,
        server=server if config.is_server else None,
        is_persistent=bool(config.data_dir),
        services=tuple(map(with_family_addresses, config.services)),
        checks=config.checks,
        check_update_interval_ns=config.check_update_interval_ns,
        discard_check_output=config.discard_check_output,
    )


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


def dns_limits(shares: Shares) -> DnsLimits:
    """One host has half at most of everything."""
    usual = DnsLimits()
    return DnsLimits(
        tcp_newcomers_max=shares.dns_newcomers,
        tcp_newcomers_per_host_max=min(usual.tcp_newcomers_per_host_max, shares.dns_newcomers // 2),
        tcp_connections_max=shares.dns_connections,
        tcp_connections_per_host_max=min(usual.tcp_connections_per_host_max, shares.dns_connections // 2),
        recursions_max=shares.recursions,
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
