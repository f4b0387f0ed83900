"""What this agent is among others, and who leads them; and /v1/status, which shows it and is what
registrators use as a ping.

A server knows it from consensus, a client from what the leader says of itself in gossip.
"""

from __future__ import annotations

from uuid import UUID

from adsum.agent.known_servers import KnownServers
from adsum.api import parameters
from adsum.api.answers import json_answer
from adsum.api.api_types import Agent, EndpointFamily
from adsum.catalog.model import Node
from adsum.http.request import Request
from adsum.http.response import Response
from adsum.http.router import Route


def is_leader(agent: Agent) -> bool:
    return agent.cluster.servers.leader == _own_id(agent)


def knows_leader(agent: Agent) -> bool:
    return agent.cluster.servers.leader is not None


def without_leader(agent: Agent) -> str:
    """What that means, where there are servers and none of them leads; else empty."""
    servers = len(agent.cluster.servers.present) + is_server(agent)
    if servers == 0 or knows_leader(agent):
        return ""
    if why := agent.keys.waits_for:
        return why
    return f"there {'is 1 server' if servers == 1 else f'are {servers} servers'}, and none is known to lead"


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
    leader = agent.cluster.servers.leader
    return "" if leader is None else address_of(agent, leader)


def address_of(agent: Agent, node_id: bytes) -> str:
    """Empty for one that is not present."""
    if node_id == _own_id(agent):
        return server_address(agent)
    server = agent.cluster.servers.named(node_id)
    return "" if server is None else with_port(*server.address)


def why_not_leave(agent: Agent) -> str:
    """What would become of the store if this server left; empty where it goes on without it, or was its own
    alone."""
    servers, me = agent.cluster.servers, agent.cluster.membership.me.node_id
    staying = [voter for voter in servers.voters if voter != me]
    if me not in servers.voters or not staying:
        return ""
    missing = [voter for voter in staying if servers.named(voter) is None]
    if 2 * (len(staying) - len(missing)) > len(staying):
        return ""
    return (
        f"{len(missing)} of the {len(staying)} servers that would stay cannot be reached, so without this "
        "one nobody could write keys any more; bring them back first, or leave with force"
    )


def name_of(agent: Agent, node_id: bytes) -> str:
    """Of any member; empty for one that is not known."""
    if node_id == _own_id(agent):
        return own_node(agent).name
    member = agent.cluster.membership.member_by_id(node_id)
    return "" if member is None else member.profile.name


def server_roles(agent: Agent) -> list[dict[str, str]]:
    """Of each server: whether it leads, or votes. Only servers know who votes."""
    servers = agent.cluster.servers
    ids = [_own_id(agent)] if is_server(agent) else []
    ids += [each.node_id for each in servers.present]
    ids += [each for each in servers.voters if each not in ids]  # one that is down still counts
    return [
        {"ID": str(UUID(bytes=each)), "Name": name_of(agent, each), "Role": _role(servers, each)}
        for each in ids
    ]


def _role(servers: KnownServers, node_id: bytes) -> str:
    if node_id == servers.leader:
        return "leader"
    if not servers.voters:
        return "server"
    return "voter" if node_id in servers.voters else "non-voter"


def voter_addresses(agent: Agent) -> list[str]:
    """A client takes the servers that are present for them."""
    servers = agent.cluster.servers
    voters = servers.voters if is_server(agent) else [each.node_id for each in servers.present]
    return [address for voter in voters if (address := address_of(agent, voter))]


def with_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _own_id(agent: Agent) -> bytes:
    return agent.cluster.membership.me.node_id


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
        return json_answer(self._agent, request, voter_addresses(self._agent))
