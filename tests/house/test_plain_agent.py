"""Each start pays for what it loads, each host in memory: a plain agent has loaded only what it used.

Plain is a client without TLS, a key, checks, recursors or a scraper. Whoever needs such a module imports it
where it is first used; what takes longer than 10 ms to load is loaded in a thread.
"""

from __future__ import annotations

import sys

import dns.message
import dns.query

from tests.system.agents import Agent, Program, running

NOT_LOADED = (
    "adsum.agent.server_agent",
    "adsum.api.agent_checks",
    "adsum.api.membership",
    "adsum.catalog.filter",
    "adsum.catalog.filter_fields",
    "adsum.consensus",
    "adsum.health_checks.docker",
    "adsum.health_checks.grpc",
    "adsum.health_checks.http",
    "adsum.health_checks.script",
    "adsum.health_checks.url",
    "adsum.observe.metrics",
    "adsum.raft",
    "adsum.servers",
    "adsum.storage.raft_log",
    "adsum.store",
    "argparse",
    "asyncio",
    "cryptography",
    "difflib",
    "dnslib",
    "email",
    "h11",
    "h2",
    "http.client",
    "importlib.metadata",
    "multiprocessing",
    "prometheus_client",
    "re2",
    "sqlite3",
    "tomllib",
    "unittest",
    "urllib.request",
    "xml",
)

CLIENT = {"bind_addr": "127.0.0.1"}

# The agent as it is, but that it tells at its end what it loaded.
PROGRAM = """
import sys
from adsum.cli.main import main

main()
print("\\nloaded:", *sorted(sys.modules))
"""


def test_a_plain_agent_has_loaded_nothing_that_it_did_not_use() -> None:
    program = Program("Adsum", (sys.executable, "-c", PROGRAM))
    with running(program, CLIENT, ("-data-dir=data",)) as agent:
        agent.put("/v1/agent/service/register", {"Name": "web", "Address": "10.0.0.1", "Port": 80})
        assert len(agent.get_json("/v1/health/service/web?passing")) == 1
        assert "web" in agent.get_json("/v1/catalog/services")
        assert agent.get_json("/v1/agent/self")["Config"]["NodeName"] == "n1"
        assert has_answer(agent, "web.service.consul")
        agent.stop()
        modules = agent.log().splitlines()[-1].split()
    assert modules[0] == "loaded:"
    below = tuple(f"{each}." for each in NOT_LOADED)
    assert [name for name in modules if name in NOT_LOADED or name.startswith(below)] == []


def has_answer(agent: Agent, name: str) -> bool:
    query = dns.message.make_query(name, "A")
    return len(dns.query.udp(query, "127.0.0.1", port=agent.ports.dns, timeout=5).answer) == 1
