"""Whether a session may be created, by this agent's own copy of the catalog, and what the copy said.

What was seen goes along with the session: whoever leads judges it again, and by evidence that is at least as
new. Until this agent has compared its copy with anybody it does not say that something is missing: it may
only not have heard of it.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from adsum.agent.cluster_state import ClusterState
from adsum.catalog.definitions import CheckStatus
from adsum.catalog.indexes import Family
from adsum.catalog.view import CatalogHost, View
from adsum.gossip.claims import SHORT
from adsum.topics import Topic

NO_NODE = "Missing node registration"
NO_CHECK = "Missing check '{}' registration"
CRITICAL = "Check '{}' is in critical state"
SESSION_CHECK = "session"  # the kind of a check that may be critical: a session's own


class SeenNode(NamedTuple):
    node_id: bytes  # of its agent; empty of a node without one
    generation: int
    records_version: int  # 0: none of that life were


class Unfit(NamedTuple):
    sentence: str  # Consul's
    may_come: bool  # this agent knows too little to say that it is not there


def judged(cluster: ClusterState, view: View, node: str, checks: tuple[str, ...]) -> SeenNode | Unfit:
    is_new_here = cluster.absence.is_joining or cluster.sharing.shows_saved
    host = view.node(node)
    if host is None:
        return Unfit(NO_NODE, may_come=is_new_here)
    for check_id in checks:
        row = host.checks.get(check_id)
        if row is None:
            return Unfit(NO_CHECK.format(check_id), may_come=is_new_here)
        if row.value.status is CheckStatus.CRITICAL and row.value.kind != SESSION_CHECK:
            return Unfit(CRITICAL.format(check_id), may_come=False)
    return _seen(cluster, host)


def topics_of(node: str) -> tuple[Topic, ...]:
    """What moves when it may be judged otherwise."""
    return Topic(Family.NODES), Topic(Family.NODE_CHECKS, node.lower())


def _seen(cluster: ClusterState, host: CatalogHost) -> SeenNode:
    if not host.owner:
        return SeenNode(b"", 0, 0)
    node_id = UUID(host.owner).bytes
    membership = cluster.membership
    if node_id == membership.me.node_id:
        generation = membership.own_standing.generation
    else:
        member = membership.member_by_id(node_id)
        generation = member.standing.generation if member is not None else 0
    replication = cluster.sharing.replication
    state = replication.state(node_id[:SHORT])
    if state is None or state.generation != generation:
        return SeenNode(node_id, generation, 0)
    if node_id == membership.me.node_id:
        # The view here is ahead of what is published.
        return SeenNode(node_id, generation, replication.publisher.promise())
    # Not `low_water`: what came past a gap was shown as well, and may be what the session hangs on.
    return SeenNode(node_id, generation, state.version)
