"""/v1/agent/self and /v1/agent/members: who this agent is, in the words Consul's clients look for.

Clients switch features on by the version, find their datacenter here, and compare leader addresses; the Go
client reads a map of maps, so every member is an object or null, and every statistic a string. Only what is
true of this agent is said: one that leads alone has no Raft log whose indexes it could tell.
"""

from __future__ import annotations

import os
import platform
import sys

import trio

from adsum.api import parameters, standing
from adsum.api.answers import json_answer
from adsum.api.door import Agent
from adsum.api.request import Request
from adsum.api.response import Response
from adsum.api.router import Refusal, Route
from adsum.api.version import CONSUL_API_VERSION, own_version
from adsum.catalog.definitions import CheckKind

ALIVE = 1
# What Serf speaks, for clients that print it: we speak none of it.
PROTOCOLS = {
    "ProtocolMin": 1,
    "ProtocolMax": 5,
    "ProtocolCur": 2,
    "DelegateMin": 2,
    "DelegateMax": 5,
    "DelegateCur": 4,
}
# Where one who has measured no distance to anybody stands.
ORIGIN = {"Vec": [0.0] * 8, "Error": 1.5, "Adjustment": 0.0, "Height": 1e-05}
SESSION_TTL_NS_MIN = 10_000_000_000  # Patroni reads it after `Invalid Session TTL`


class AgentSelf:
    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def routes(self) -> list[Route]:
        return [
            Route(("GET",), "/v1/agent/self", self.about),
            Route(("GET",), "/v1/agent/members", self.members),
            Route(("GET",), "/v1/agent/version", self.version),
        ]

    async def about(self, request: Request, _rest: str) -> Response:
        agent = self._agent
        shown = {
            "Config": _config(agent),
            "DebugConfig": agent.config.raw,
            "Coord": ORIGIN,
            "Member": member(agent),
            "Stats": _stats(agent),
            "Meta": dict(standing.own_node(agent).meta),
        }
        return json_answer(agent, request, shown)

    async def members(self, request: Request, _rest: str) -> Response:
        """Alone here. The pool across datacenters has servers only."""
        query = request.query
        parameters.check_namespace(query)
        if query.first("segment") not in ("", "_all"):
            raise Refusal(500, "Network segments are not supported in this version of Consul")
        if not query.has("wan"):
            return json_answer(self._agent, request, [member(self._agent)])
        members = [wan_member(self._agent)] if standing.is_server(self._agent) else []
        return json_answer(self._agent, request, members)

    async def version(self, request: Request, _rest: str) -> Response:
        shown = {"SHA": "", "BuildDate": "", "HumanVersion": CONSUL_API_VERSION, "FIPS": ""}
        return json_answer(self._agent, request, {**shown, "AdsumVersion": own_version()})


def member(agent: Agent) -> dict[str, object]:
    node, ports = standing.own_node(agent), agent.config.ports
    tags = _tags(agent)
    if standing.is_server(agent):
        tags["wan_join_port"] = str(ports.serf_wan)
    return _member(node.name, node.address, ports.serf_lan, tags)


def wan_member(agent: Agent) -> dict[str, object]:
    node = standing.own_node(agent)
    name = f"{node.name}.{agent.config.datacenter}"
    address = agent.config.advertise_address_wan or node.address
    return _member(name, address, agent.config.ports.serf_wan, _tags(agent))


def _member(name: str, address: str, port: int, tags: dict[str, str]) -> dict[str, object]:
    return {
        "Name": name,
        "Addr": address,
        "Port": port,
        "Tags": dict(sorted(tags.items())),
        "Status": ALIVE,
        **PROTOCOLS,
    }


def _tags(agent: Agent) -> dict[str, str]:
    tags = {
        "acls": "0",
        "build": f"{CONSUL_API_VERSION}:",
        "dc": agent.config.datacenter,
        "id": standing.own_node(agent).node_id,
        "role": "node",
        "segment": "",
        "vsn": "2",
        "vsn_max": "3",
        "vsn_min": "2",
    }
    if standing.is_server(agent):
        tags |= {"role": "consul", "port": str(agent.config.ports.server), "raft_vsn": "3"}
        tags |= _election_tags(agent)
    return tags


def _election_tags(agent: Agent) -> dict[str, str]:
    if agent.config.is_dev:
        return {}
    if agent.config.bootstrap_expect > 1:
        return {"expect": str(agent.config.bootstrap_expect)}
    return {"bootstrap": "1"} if agent.config.bootstrap else {}


def _config(agent: Agent) -> dict[str, object]:
    node = standing.own_node(agent)
    return {
        "Datacenter": agent.config.datacenter,
        "PrimaryDatacenter": agent.config.datacenter,
        "NodeName": node.name,
        "NodeID": node.node_id,
        "Revision": "",
        "Server": standing.is_server(agent),
        "Version": CONSUL_API_VERSION,
        "BuildDate": "",
        "AdsumVersion": own_version(),
        "SessionTTLMin": agent.config.session_ttl_min_ns or SESSION_TTL_NS_MIN,
    }


def _stats(agent: Agent) -> dict[str, dict[str, str]]:
    kinds = [check.kind for check in agent.own.checks.values()]
    ttls = kinds.count(CheckKind.TTL)
    return {
        "agent": {
            "check_monitors": str(sum(check.is_run_here for check in agent.own.checks.values())),
            "check_ttls": str(ttls),
            "checks": str(len(kinds)),
            "services": str(len(agent.own.services)),
        },
        "build": {"prerelease": "", "revision": "", "version": CONSUL_API_VERSION, "adsum": own_version()},
        "consul": _consul_stats(agent),
        **({"raft": {"num_peers": "0", "state": "Leader"}} if standing.leads_alone(agent) else {}),
        "runtime": _runtime_stats(),
        "serf_lan": _roll_stats(agent),
    }


def _consul_stats(agent: Agent) -> dict[str, str]:
    if not standing.is_server(agent):
        return {"acl": "disabled", "known_servers": "0", "server": "false"}
    return {
        "acl": "disabled",
        "bootstrap": _go(agent.config.bootstrap and not agent.config.is_dev),
        "known_datacenters": "1",
        "leader": _go(standing.leads_alone(agent)),
        "leader_addr": standing.leader_address(agent),
        "server": "true",
    }


def _runtime_stats() -> dict[str, str]:
    return {
        "arch": platform.machine(),
        "cpu_count": str(os.cpu_count() or 1),
        "goroutines": str(
            trio.lowlevel.current_statistics().tasks_living
        ),  # tasks: what stands for them here
        "max_procs": "1",
        "os": sys.platform,
        "version": f"python{platform.python_version()}",
    }


def _roll_stats(agent: Agent) -> dict[str, str]:
    encrypted = "encrypt" in agent.config.given
    return {
        "encrypted": _go(encrypted),
        "event_queue": "0",
        "failed": "0",
        "health_score": "0",
        "intent_queue": "0",
        "left": "0",
        "member_time": "1",
        "members": "1",
    }


def _go(truth: bool) -> str:  # noqa: FBT001 - the value to print, not a choice of ways
    return "true" if truth else "false"
