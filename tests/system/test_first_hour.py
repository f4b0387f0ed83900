"""What the README shows a newcomer: register a service with an HTTP check, ask DNS, break it, mend it,
restart.
"""

from __future__ import annotations

import http.server
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import dns.exception
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype
import pytest

from tests.system.agents import Agent, free_ports, until

# Checks run every second here; Consul's floor for an interval is the same.
FLIP_S_MAX = 8.0
RESOLVER_S_MAX = 10.0


class Fine(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"fine")

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Says nothing: the test's own output matters."""


@contextmanager
def web_server(port: int) -> Iterator[None]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), Fine) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()


def test_service_with_an_http_check_passes_falls_and_comes_back(durable_agent: Agent) -> None:
    port = free_ports().http
    with web_server(port):
        register(durable_agent, port)
        assert until(lambda: instances(durable_agent) == 1, within_s=FLIP_S_MAX)
        assert srv(durable_agent) == [(port, "n1.node.dc1.consul.")]
    assert until(lambda: instances(durable_agent) == 0, within_s=FLIP_S_MAX)
    (check,) = durable_agent.get_json("/v1/health/checks/web")
    assert check["Status"] == "critical"
    assert "connection refused" in check["Output"]
    assert ask(durable_agent, "SRV").rcode() == dns.rcode.NXDOMAIN
    durable_agent.kill()
    with web_server(port):
        durable_agent.start_again()
        assert until(lambda: instances(durable_agent) == 1, within_s=FLIP_S_MAX)
        assert srv(durable_agent) == [(port, "n1.node.dc1.consul.")]


def register(agent: Agent, port: int) -> None:
    check = {"HTTP": f"http://127.0.0.1:{port}/", "Interval": "1s", "Timeout": "500ms"}
    status, body = agent.put("/v1/agent/service/register", {"Name": "web", "Port": port, "Check": check})
    assert (status, body) == (200, b"")


def instances(agent: Agent) -> int:
    return len(agent.get_json("/v1/health/service/web?passing"))


def ask(agent: Agent, kind: str) -> dns.message.Message:
    query = dns.message.make_query("web.service.consul", kind)
    return dns.query.udp(query, "127.0.0.1", 2.0, agent.ports.dns)


def srv(agent: Agent) -> list[tuple[int, str]]:
    return [(each.port, str(each.target)) for rrset in ask(agent, "SRV").answer for each in rrset]


@pytest.mark.parametrize("resolver", ["dnsmasq", "unbound"])
def test_real_resolver_forwards_the_domain_to_the_agent(
    resolver: str, agent: Agent, debian_tool: Callable[[str], str], tmp_path: Path
) -> None:
    agent.put("/v1/agent/service/register", {"Name": "web", "Port": 80, "Address": "10.0.0.7"})
    port = free_ports().dns
    command = RESOLVERS[resolver](debian_tool(resolver), port, agent.ports.dns, tmp_path)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            assert until(
                lambda: resolved("web.service.consul", port) == ["10.0.0.7"], within_s=RESOLVER_S_MAX
            )
        finally:
            process.terminate()


def resolved(name: str, port: int) -> list[str]:
    try:
        response = dns.query.udp(dns.message.make_query(name, "A"), "127.0.0.1", 1.0, port)
    except (OSError, dns.exception.DNSException):
        return []
    return [str(each) for rrset in response.answer if rrset.rdtype == dns.rdatatype.A for each in rrset]


def dnsmasq(program: str, port: int, agent_port: int, folder: Path) -> list[str]:
    server = f"--server=/consul/127.0.0.1#{agent_port}"
    listening = [f"--port={port}", "--listen-address=127.0.0.1", "--bind-interfaces"]
    alone = [
        "--no-resolv",
        "--no-hosts",
        "--conf-file=/dev/null",
        f"--pid-file={folder / 'pid'}",
        "--user=root",
    ]
    return [program, "--keep-in-foreground", *listening, *alone, server]


def unbound(program: str, port: int, agent_port: int, folder: Path) -> list[str]:
    config = folder / "unbound.conf"
    config.write_text(
        f"""server:
  directory: "{folder}"
  chroot: ""
  username: ""
  pidfile: ""
  interface: 127.0.0.1
  port: {port}
  use-syslog: no
  do-not-query-localhost: no
  domain-insecure: "consul."
  local-zone: "consul." nodefault
remote-control:
  control-enable: no
stub-zone:
  name: "consul."
  stub-addr: 127.0.0.1@{agent_port}
"""
    )
    return [program, "-d", "-c", str(config)]


RESOLVERS: dict[str, Callable[[str, int, int, Path], list[str]]] = {"dnsmasq": dnsmasq, "unbound": unbound}
