"""What an operator sees first: who started, where it listens, and a command that proves each."""

from __future__ import annotations

from adsum.catalog.model import Node
from adsum.config.config import Config
from adsum.version import ADSUM_VERSION, CONSUL_API_VERSION

ASKED_BY_DEFAULT = ("http://127.0.0.1:8500", "http://0.0.0.0:8500")


def banner(config: Config, node: Node, *, is_sealed: bool) -> str:
    ports, addresses = config.ports, config.addresses
    http = http_url(addresses.http[0], ports.http) if ports.http >= 0 and addresses.http else ""
    https = http_url(addresses.https[0], ports.https) if ports.https >= 0 and addresses.https else ""
    https = https.replace("http:", "https:", 1)
    rows = [
        ("Version", f"{ADSUM_VERSION} (speaks the API of Consul {CONSUL_API_VERSION})"),
        ("Node name", f"{config.node_name} (datacenter {config.datacenter}, id {node.node_id})"),
        ("Role", "server" if config.is_server else "client"),
    ]
    if config.bootstrap_expect > 1:
        rows.append(("Leader", f"elected when {config.bootstrap_expect} servers have met"))
    rows.append(("Data", config.data_dir or "in memory, gone with the agent"))
    if http:
        is_socket = http.startswith("unix://")
        curl = f"curl --unix-socket {http[7:]} http://localhost" if is_socket else f"curl {http}"
        rows += [("HTTP", f"{http}   try: {curl}/v1/catalog/services"), ("Metrics", f"{http}/metrics")]
    if https:
        is_known = config.tls is not None and config.tls.for_https.is_required_of_clients
        rows.append(("HTTPS", f"{https}   clients show a certificate" if is_known else https))
    if ports.dns >= 0 and addresses.dns:
        host, name = addresses.dns[0], f"{config.node_name}.node.{config.domain.rstrip('.')}"
        rows.append(("DNS", f"{host} port {ports.dns}, UDP and TCP   try: dig @{host} -p {ports.dns} {name}"))
    if ports.serf_lan >= 0:
        # Where others are told to find it: who looks here sees an address that they cannot reach.
        gossip = f"{node.address} port {ports.serf_lan}, UDP and TCP"
        gossip += ", encrypted" if is_sealed else ", in the clear"
        if where := http or https:  # nobody can ask an agent that answers no HTTP
            # As it works with no variable set.
            named = "" if where in ASKED_BY_DEFAULT else f" -http-addr={where}"
            gossip += f"   try: adsum members{named}"
        rows.append(("Gossip", gossip))
    width = max(len(name) for name, _ in rows)
    lines = "\n".join(f"    {name:>{width}}: {text}" for name, text in rows)
    return f"==> Adsum is present\n{lines}\n\n==> The log follows"


def http_url(address: str, port: int) -> str:
    if address.startswith("unix://"):
        return address
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"
