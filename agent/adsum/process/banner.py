"""What an operator sees first: who started, where it listens, and a command that proves each."""

from __future__ import annotations

from adsum.api import leadership
from adsum.catalog.model import Node
from adsum.config.config import Config
from adsum.version import ADSUM_VERSION, CONSUL_API_VERSION

ASKED_BY_DEFAULT = ("http://127.0.0.1:8500", "http://0.0.0.0:8500")


def banner(config: Config, node: Node, *, is_sealed: bool) -> str:
    rows = [
        ("Version", f"{ADSUM_VERSION} (speaks the API of Consul {CONSUL_API_VERSION})"),
        ("Node name", f"{config.node_name} (datacenter {config.datacenter}, id {node.node_id})"),
        ("Role", "server" if config.is_server else "client"),
        *_leader_rows(config),
        ("Data", config.data_dir or "in memory, gone with the agent"),
        *_http_rows(config),
        *_https_rows(config),
        *_dns_rows(config),
        *_gossip_rows(config, node, is_sealed=is_sealed),
    ]
    width = max(len(name) for name, _ in rows)
    lines = "\n".join(f"    {name:>{width}}: {text}" for name, text in rows)
    return f"==> Adsum is present\n{lines}\n\n==> The log follows"


def _leader_rows(config: Config) -> list[tuple[str, str]]:
    """Nothing of one that leads alone: it may meet other servers yet."""
    expected = config.bootstrap_expect
    return [("Leader", f"none: {leadership.one_of_several(expected)}")] if expected > 1 else []


def _http_rows(config: Config) -> list[tuple[str, str]]:
    if config.ports.http < 0 or not config.addresses.http:
        return []
    where = http_url(config.addresses.http[0], config.ports.http)
    curl = (
        f"curl {where}"
        if not where.startswith("unix://")
        else f"curl --unix-socket {where[7:]} http://localhost"
    )
    return [("HTTP", f"{where}   try: {curl}/v1/catalog/services"), ("Metrics", f"{where}/metrics")]


def _https_rows(config: Config) -> list[tuple[str, str]]:
    if config.ports.https < 0 or not config.addresses.https:
        return []
    is_known = config.tls is not None and config.tls.for_https.is_required_of_clients
    return [("HTTPS", f"{_url(config)}   clients show a certificate" if is_known else _url(config))]


def _url(config: Config) -> str:
    return http_url(config.addresses.https[0], config.ports.https).replace("http:", "https:", 1)


def _dns_rows(config: Config) -> list[tuple[str, str]]:
    if config.ports.dns < 0 or not config.addresses.dns:
        return []
    host, port = config.addresses.dns[0], config.ports.dns
    name = f"{config.node_name}.node.{config.domain.rstrip('.')}"
    return [("DNS", f"{host} port {port}, UDP and TCP   try: dig @{host} -p {port} {name}")]


def _gossip_rows(config: Config, node: Node, *, is_sealed: bool) -> list[tuple[str, str]]:
    """Where others are told to find it: who looks here sees an address that they cannot reach."""
    if config.ports.serf_lan < 0:
        return []
    where = f"{node.address} port {config.ports.serf_lan}, UDP and TCP"
    form = "encrypted" if is_sealed else "in the clear"
    return [("Gossip", f"{where}, {form}{_members(config)}")]


def _members(config: Config) -> str:
    """As it works with no variable set; nobody can ask an agent that answers no HTTP."""
    if config.ports.http >= 0 and config.addresses.http:
        where = http_url(config.addresses.http[0], config.ports.http)
    elif config.ports.https >= 0 and config.addresses.https:
        where = _url(config)
    else:
        return ""
    named = "" if where in ASKED_BY_DEFAULT else f" -http-addr={where}"
    return f"   try: adsum members{named}"


def http_url(address: str, port: int) -> str:
    if address.startswith("unix://"):
        return address
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"
