"""/v1/agent/members: the members in the words of Consul's clients, tags of Serf included.

What a member says about itself rides in its claim, and the tags are made from it: `build` is the level of the
API, `adsum` the version of what speaks it. A suspect is alive: nothing
is decided about it, and Consul shows it so. There is no pool across datacenters yet; asked for it, a server
lists the servers of its own.
"""

from __future__ import annotations

from adsum.agent import tags
from adsum.agent.presence import uuid_text
from adsum.api import leadership, parameters
from adsum.api.answers import json_answer
from adsum.api.api_types import Agent, EndpointFamily
from adsum.api.freshness import stale_header
from adsum.gossip.order import MemberStatus
from adsum.http.request import Request
from adsum.http.response import Response
from adsum.http.router import HttpRefusal, Route
from adsum.version import ADSUM_VERSION, CONSUL_API_VERSION

ALIVE = 1
STATUSES = {
    MemberStatus.ALIVE: ALIVE,
    MemberStatus.SUSPECT: ALIVE,
    MemberStatus.LEFT: 3,
    MemberStatus.FAILED: 4,
}
# What Serf speaks, for clients that print it: we speak none of it.
PROTOCOLS = {
    "ProtocolMin": 1,
    "ProtocolMax": 5,
    "ProtocolCur": 2,
    "DelegateMin": 2,
    "DelegateMax": 5,
    "DelegateCur": 4,
}
CLIENT_TAGS = {"acls": "0", "role": "node", "segment": "", "vsn": "2", "vsn_max": "3", "vsn_min": "2"}


class AgentMembers(EndpointFamily):
    def routes(self) -> list[Route]:
        return [Route(("GET",), "/v1/agent/members", self.members)]

    async def members(self, request: Request, _rest: str) -> Response:
        query = request.query
        parameters.check_namespace(query)
        if query.first("segment") not in ("", "_all"):
            raise HttpRefusal(500, "Network segments are not supported in this version of Consul")
        listed = wide_area(self._agent) if query.has("wan") else everybody(self._agent)
        return json_answer(self._agent, request, listed, headers=stale_header(self._agent))


def everybody(agent: Agent) -> list[dict[str, object]]:
    """By name; Serf's own order differs from one call to the next."""
    listed = [own_member(agent)]
    for member in agent.cluster.membership.members():
        profile = member.profile
        described = _tags(tags.decode(profile.meta), uuid_text(profile.node_id), profile.version)
        listed.append(_member(profile.name, *profile.address, described, STATUSES[member.status]))
    return sorted(listed, key=lambda member: str(member["Name"]))


def wide_area(agent: Agent) -> list[dict[str, object]]:
    """Only servers are in that pool, and only they know it."""
    if not leadership.is_server(agent):
        return []
    node, config = leadership.own_node(agent), agent.config
    address = config.advertise_address_wan or node.address
    described = _own_tags(agent)
    del described["wan_join_port"]
    listed = [_member(f"{node.name}.{config.datacenter}", address, config.ports.serf_wan, described)]
    for server in agent.cluster.servers.present:
        name, (host, port) = f"{server.name}.{config.datacenter}", server.address
        described = {**CLIENT_TAGS, "dc": config.datacenter, "role": "consul", "port": str(port)}
        listed.append(_member(name, host, server.wan_port, described))
    return sorted(listed, key=lambda member: str(member["Name"]))


def own_member(agent: Agent) -> dict[str, object]:
    node = leadership.own_node(agent)
    return _member(node.name, node.address, agent.config.ports.serf_lan, _own_tags(agent))


def _member(
    name: str, address: str, port: int, described: dict[str, str], status: int = ALIVE
) -> dict[str, object]:
    return {
        "Name": name,
        "Addr": address,
        "Port": port,
        "Tags": dict(sorted(described.items())),
        "Status": status,
        **PROTOCOLS,
    }


def _own_tags(agent: Agent) -> dict[str, str]:
    """A `-dev` agent leads without being told to, and Consul's has no tag for that."""
    config = agent.config
    described = tags.Tags(
        datacenter=config.datacenter,
        build=CONSUL_API_VERSION,
        is_server=leadership.is_server(agent),
        server_port=config.ports.server,
        is_bootstrap=config.bootstrap and not config.is_dev,
        expect=0 if config.is_dev else config.bootstrap_expect,
        wan_port=config.ports.serf_wan,
    )
    return _tags(described, leadership.own_node(agent).node_id, ADSUM_VERSION)


def _tags(described: tags.Tags, node_id: str, version: str) -> dict[str, str]:
    shown = {**CLIENT_TAGS, "build": f"{described.build}:", "dc": described.datacenter, "id": node_id}
    if version:
        shown["adsum"] = version
    if described.is_server:
        shown |= {"role": "consul", "port": str(described.server_port), "raft_vsn": "3"}
        shown["wan_join_port"] = str(described.wan_port)
        if described.expect > 1:
            shown["expect"] = str(described.expect)
        elif described.is_bootstrap:
            shown["bootstrap"] = "1"
    return shown
