"""What this agent is among others, and who leads them, as far as gossip tells; and /v1/status, which shows
it and is what registrators use as a ping.

Until servers elect, one server that waits for no others leads, and all its members know that. Several
servers, or one that waits for more, have no leader. With consensus the answers will come from there; these
questions stay.
"""

from __future__ import annotations

from adsum.api import parameters
from adsum.api.answers import json_answer
from adsum.api.api_types import Agent, EndpointFamily
from adsum.catalog.model import Node
from adsum.http.request import Request
from adsum.http.response import Response
from adsum.http.router import Route

LEADERLESS = (
    "this version elects no leader: keys, sessions and locks are not answered; discovery works without one"
)


def leads_alone(agent: Agent) -> bool:
    return _could_lead(agent) and not agent.cluster.servers.present


def knows_leader(agent: Agent) -> bool:
    others = agent.cluster.servers.present
    if is_server(agent):
        return _could_lead(agent) and not others
    return len(others) == 1 and others[0].leads_alone


def without_leader(agent: Agent) -> str:
    """What that means, where there are servers and none of them leads; else empty."""
    servers = len(agent.cluster.servers.present) + is_server(agent)
    if servers == 0 or knows_leader(agent):
        return ""
    if agent.config.bootstrap_expect > 1:
        return one_of_several(agent.config.bootstrap_expect)
    return f"there {'is 1 server' if servers == 1 else f'are {servers} servers'}, and {LEADERLESS}"


def one_of_several(expected: int) -> str:
    return f"this server is one of {expected} expected, and {LEADERLESS}"


def is_server(agent: Agent) -> bool:
    return agent.config.is_server or agent.config.is_dev


def own_node(agent: Agent) -> Node:
    host = agent.view.node(agent.own.settings.node_name)
    assert host is not None, "an agent's own node is put before anything asks"
    return host.node.value


def server_address(agent: Agent) -> str:
    """Where servers call each other."""
    return with_port(own_node(agent).address, agent.config.ports.server)


def leader_address(agent: Agent) -> str:
    if not knows_leader(agent):
        return ""
    return server_address(agent) if is_server(agent) else with_port(*agent.cluster.servers.present[0].address)


def with_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _could_lead(agent: Agent) -> bool:
    """One that waits for others to elect with (`bootstrap_expect` above one) leads nobody."""
    config = agent.config
    return config.is_dev or (config.is_server and config.bootstrap_expect <= 1)


class StatusEndpoints(EndpointFamily):
    def routes(self) -> list[Route]:
        return [
            Route(("GET",), "/v1/status/leader", self.leader),
            Route(("GET",), "/v1/status/peers", self.peers),
        ]

    async def leader(self, request: Request, _rest: str) -> Response:
        parameters.check_datacenter(request.query, self._agent.config.datacenter)
        return json_answer(self._agent, request, leader_address(self._agent))

    async def peers(self, request: Request, _rest: str) -> Response:
        parameters.check_datacenter(request.query, self._agent.config.datacenter)
        leader = leader_address(self._agent)
        return json_answer(self._agent, request, [leader] if leader else [])
