"""What the README shows a newcomer: register a service with an HTTP check, ask DNS, break it, mend it,
restart.
"""

from __future__ import annotations

import http.server
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import dns.message
import dns.query
import dns.rcode
import dns.rdatatype

from tests.system.agents import Agent, free_ports, until

# Checks run every second here; Consul's floor for an interval is the same.
FLIP_S_MAX = 8.0


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
