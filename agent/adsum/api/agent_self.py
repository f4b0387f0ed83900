"""/v1/agent/self: who this agent is, in the words Consul's clients look for.

Clients switch features on by the version, find their datacenter here, and compare leader addresses; the Go
client reads a map of maps, so every member is an object or null, and every statistic a string. Only what is
true of this agent is said: a server that belongs to no cluster yet has no log whose indexes it could tell.
"""

from __future__ import annotations

import os
import platform
import sys
from uuid import UUID

import trio

from adsum.api import coordinates, leadership
from adsum.api.agent_members import own_member
from adsum.api.answers import json_answer
from adsum.api.api_types import Agent, EndpointFamily
from adsum.api.member_rows import shown_time
from adsum.catalog.definitions import CheckKind
from adsum.gossip.broadcasts import Class
from adsum.gossip.order import MemberStatus
from adsum.http.request import Request
from adsum.http.response import Response
from adsum.http.router import Route
from adsum.leading import PeerFigures
from adsum.logs.clock_words import off_by
from adsum.now import MILLISECOND
from adsum.version import ADSUM_VERSION, CONSUL_API_VERSION

RAFT_PROTOCOL_VERSION = "3"  # as servers of Consul 1.8 say
RAFT_STATES = {
    "leader": "Leader",
    "follower": "Follower",
    "candidate": "Candidate",
    "pre-candidate": "Candidate",
}
SESSION_TTL_NS_MIN = 10_000_000_000  # Patroni reads it after `Invalid Session TTL`


class AgentSelf(EndpointFamily):
    def routes(self) -> list[Route]:
        return [
            Route(("GET",), "/v1/agent/self", self.about),
            Route(("GET",), "/v1/agent/version", self.version),
        ]

    async def about(self, request: Request, _rest: str) -> Response:
        agent = self._agent
        shown = {
            "Config": _config(agent),
            "DebugConfig": agent.config.raw,
            "Coord": coordinates.shown(agent.cluster.membership.coordinate),
            "Member": own_member(agent),
            "Stats": _stats(agent),
            "Meta": dict(leadership.own_node(agent).meta),
        }
        return json_answer(agent, request, shown)

    async def version(self, request: Request, _rest: str) -> Response:
        shown = {"SHA": "", "BuildDate": "", "HumanVersion": CONSUL_API_VERSION, "FIPS": ""}
        return json_answer(self._agent, request, {**shown, "AdsumVersion": ADSUM_VERSION})


def _config(agent: Agent) -> dict[str, object]:
    node = leadership.own_node(agent)
    return {
        "Datacenter": agent.config.datacenter,
        "PrimaryDatacenter": agent.config.datacenter,
        "NodeName": node.name,
        "NodeID": node.node_id,
        "Revision": "",
        "Server": leadership.is_server(agent),
        "Version": CONSUL_API_VERSION,
        "BuildDate": "",
        "AdsumVersion": ADSUM_VERSION,
        "SessionTTLMin": agent.config.session_ttl_min_ns or SESSION_TTL_NS_MIN,
    }


def _stats(agent: Agent) -> dict[str, dict[str, str]]:
    kinds = [check.kind for check in agent.own.checks.values()]
    ttls = kinds.count(CheckKind.TTL)
    owners = agent.cluster.sharing.replication.owners().values()
    incomplete = sum(each.state is not None and not each.state.is_complete for each in owners)
    tasks = trio.lowlevel.current_statistics().tasks_living
    return {
        "agent": {
            "check_monitors": str(sum(check.is_run_here for check in agent.own.checks.values())),
            "check_ttls": str(ttls),
            "checks": str(len(kinds)),
            "services": str(len(agent.own.services)),
            **({"unsaved_files": str(agent.unsaved_files)} if agent.unsaved_files else {}),  # ours alone
        },
        "build": {"prerelease": "", "revision": "", "version": CONSUL_API_VERSION, "adsum": ADSUM_VERSION},
        # Ours alone: whether what it answers about others is as they say, or why not, and how old.
        "catalog": {
            "incomplete_owners": str(incomplete),
            "last_contact_ms": str(agent.cluster.behind_ns(agent.now()) // MILLISECOND),
            "owners": str(len(owners)),
            "stale": agent.cluster.staleness(agent.now()),
        },
        "consul": _consul_stats(agent),
        **({"raft": _raft_stats(agent)} if leadership.is_server(agent) else {}),
        "runtime": {
            "arch": platform.machine(),
            "cpu_count": str(os.cpu_count() or 1),
            "goroutines": str(tasks),  # what stands for them here
            "max_procs": "1",
            "os": sys.platform,
            "version": f"python{platform.python_version()}",
        },
        "serf_lan": _membership_stats(agent),
    }


def _raft_stats(agent: Agent) -> dict[str, str]:
    """Under the names of Consul's, as far as there is their like; who leads since when is ours alone."""
    it = agent.keys.consensus
    if it is None:
        return {"num_peers": "0", "protocol_version": RAFT_PROTOCOL_VERSION, "state": "Follower"}
    leading = it.role == "leader"
    shown = [_member_of_configuration(agent, peer) for peer in it.peers]
    since = {"leader_since": shown_time(it.leader_since_ms)} if it.leader_since_ms else {}
    doubt = {"state_doubt": it.doubt} if it.doubt else {}  # ours alone
    return {
        "applied_index": str(it.applied_index),
        "commit_index": str(it.commit_index),
        "fsm_pending": str(max(it.commit_index - it.applied_index, 0)),
        "last_contact": "0" if leading else f"{it.behind_ms}ms" if it.leader else "never",
        "last_log_index": str(it.last_log_index),
        "last_log_term": str(it.last_log_term),
        "last_snapshot_index": str(it.snapshot_index),
        "last_snapshot_term": str(it.snapshot_term),
        "latest_configuration": f"[{' '.join(shown)}]",
        "leader": _name_of(agent, it.leader) if it.leader else "",
        **since,
        "num_peers": str(sum(peer.is_voter for peer in it.peers if peer.node_id != _own_id(agent))),
        "protocol_version": RAFT_PROTOCOL_VERSION,
        "state": RAFT_STATES[it.role],
        **doubt,
        "term": str(it.term),
        "voters": ",".join(sorted(_name_of(agent, peer.node_id) for peer in it.peers if peer.is_voter)),
    }


def _member_of_configuration(agent: Agent, peer: PeerFigures) -> str:
    """As Go would print it, for those who take it apart."""
    suffrage = "Voter" if peer.is_voter else "Nonvoter"
    address = leadership.address_of(agent, UUID(peer.node_id).bytes)
    return f"{{Suffrage:{suffrage} ID:{peer.node_id} Address:{address}}}"


def _name_of(agent: Agent, node: str) -> str:
    return leadership.name_of(agent, UUID(node).bytes) or node


def _own_id(agent: Agent) -> str:
    return str(UUID(bytes=agent.cluster.membership.me.node_id))


def _consul_stats(agent: Agent) -> dict[str, str]:
    sentence = leadership.without_leader(agent)
    leaderless = {"no_leader": sentence} if sentence else {}  # ours alone
    if not leadership.is_server(agent):
        present, leader = agent.cluster.servers.present, agent.cluster.servers.leader
        leading = (
            {"leader_name": leadership.name_of(agent, leader)} if leader is not None else {}
        )  # ours alone
        known = {"acl": "disabled", "known_servers": str(len(present))}
        return {**known, **leading, **leaderless, "server": "false"}
    return {
        "acl": "disabled",
        "bootstrap": _go(agent.config.bootstrap and not agent.config.is_dev),
        "known_datacenters": "1",
        "leader": _go(leadership.is_leader(agent)),
        "leader_addr": leadership.leader_address(agent),
        **leaderless,
        "server": "true",
    }


def _membership_stats(agent: Agent) -> dict[str, str]:
    """Under the names of Serf's, as far as gossip has their like; it has no queries."""
    membership = agent.cluster.membership
    counts, clocks = membership.counts(), membership.clocks
    clock = off_by(clocks.ahead_ms(agent.now()), clocks.others)
    return {
        **({"clock": clock} if clock else {}),  # ours alone
        "coordinate_resets": "0",
        "encrypted": _go(agent.keyrings.is_encrypted),
        "event_queue": str(membership.queue(Class.EVENTS).waiting),
        "event_time": str(membership.event_time),
        "failed": str(counts[MemberStatus.FAILED]),
        "health_score": str(membership.condition.health_score),
        "intent_queue": str(membership.queue(Class.MEMBERSHIP).waiting),
        "left": str(counts[MemberStatus.LEFT]),
        "member_time": str(membership.own_standing.incarnation + 1),
        "members": str(sum(counts.values()) + 1),
        "query_queue": "0",
        "query_time": "1",
    }


def _go(truth: bool) -> str:  # noqa: FBT001 - the value to print, not a choice of ways
    return "true" if truth else "false"
