"""A real resolver, with the snippet we ship, finds a service through the agent."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import dns.exception
import dns.message
import dns.query
import dns.rcode
import pytest

from tests.system.agents import Agent, adsum_program, free_ports, running, until

DNSMASQ = """
port={port}
listen-address=127.0.0.1
bind-interfaces
no-resolv
no-hosts
conf-file={snippet}
"""
UNBOUND = """
server:
    interface: 127.0.0.1
    port: {port}
    do-daemonize: no
    chroot: ""
    username: ""
    directory: "{folder}"
    pidfile: ""
    use-syslog: no
    logfile: ""
remote-control:
    control-enable: no
include: "{snippet}"
"""
RESOLVERS = {
    "dnsmasq": (
        DNSMASQ,
        ["--keep-in-foreground", "--user=", "--group=", "--pid-file=", "--conf-file={config}"],
    ),
    "unbound": (UNBOUND, ["-d", "-c", "{config}"]),
}


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    with running(adsum_program()) as agent:
        service = {
            "Name": "web",
            "Port": 8080,
            "Address": "10.1.2.3",
            "Check": {"TTL": "1h", "Status": "passing"},
        }
        assert agent.put("/v1/agent/service/register", service)[0] == 200
        yield agent


@contextmanager
def resolver(name: str, program: str, agent: Agent, root: Path, folder: Path) -> Iterator[int]:
    """The resolver's port. Only the agent's port in the shipped snippet is another."""
    template, arguments = RESOLVERS[name]
    port = free_ports().dns
    snippet, config = folder / "snippet.conf", folder / "resolver.conf"
    shipped = (root / f"deploy/resolvers/{name}/adsum.conf").read_text()
    snippet.write_text(shipped.replace("8600", str(agent.ports.dns)))
    config.write_text(template.format(port=port, folder=folder, snippet=snippet))
    command = [program, *(argument.format(config=config) for argument in arguments)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield port
        finally:
            process.terminate()


def ask(port: int, name: str, kind: str) -> dns.message.Message | None:
    """None while the resolver is not there yet."""
    try:
        return dns.query.udp(dns.message.make_query(name, kind), "127.0.0.1", port=port, timeout=0.5)
    except (dns.exception.Timeout, OSError):
        return None


@pytest.mark.parametrize("name", sorted(RESOLVERS))
def test_resolver_finds_the_service_through_the_agent(
    name: str, agent: Agent, root: Path, tmp_path: Path, debian_tool: Callable[[str], str]
) -> None:
    with resolver(name, debian_tool(name), agent, root, tmp_path) as port:
        located = until(lambda: ask(port, "web.service.consul.", "SRV"), within_s=10)
        address = until(lambda: ask(port, "web.service.consul.", "A"), within_s=10)
        proof = until(lambda: ask(port, "consul.", "SOA"), within_s=10)
        unknown = until(lambda: ask(port, "nobody.service.consul.", "A"), within_s=10)
    assert located is not None
    assert address is not None
    assert unknown is not None
    assert proof is not None
    assert [str(record).split()[2] for record in located.answer[0]] == ["8080"]
    assert [str(record) for record in address.answer[0]] == ["10.1.2.3"]
    assert str(proof.answer[0][0]).startswith("ns.consul. hostmaster.consul. ")
    assert (unknown.rcode(), unknown.answer) == (dns.rcode.NXDOMAIN, [])
