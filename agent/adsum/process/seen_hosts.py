"""What a leader sees of hosts and checks, to judge sessions by: gossip's members, the records of their agents
as far as they are known here, and the view.

A node without an agent is what the store on this very server says; so what is not there is gone.

A member that gave way to another one may have done so to a tale; then it is heard of again within seconds.
So it is gone when it was not for as long as a node has to have failed. One that was only crowded out of the
roster is unknown: that says nothing about its host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adsum.agent.cluster_state import ClusterState
from adsum.agent.presence import uuid_bytes, uuid_text
from adsum.catalog.definitions import CheckStatus
from adsum.catalog.indexes import Family
from adsum.catalog.view import NO_AGENT, CatalogHost, View
from adsum.effects import Notify
from adsum.gossip.claims import SHORT
from adsum.gossip.effects import MemberChanged
from adsum.gossip.order import Rank, Standing
from adsum.now import SECOND, Now
from adsum.owners import STORE
from adsum.servers.session_keeping import SessionKeeping
from adsum.sessions.sees import CheckSeen, HostSeen, HostVerdict, NodeKey, RecordsSeen

SESSION_CHECK = "session"  # the kind of a check that follows a session, and so ends none
GIVEN_WAY_NS = 10 * SECOND  # the default of `session_node_grace`, whatever that is set to
ALL_OF_IT = RecordsSeen(0, 1 << 53, is_complete=True)


class SeenHosts:
    """It `SeesHosts`."""

    def __init__(self, cluster: ClusterState, view: View, now: Callable[[], Now]) -> None:
        self._cluster = cluster
        self._now = now
        self._membership = cluster.membership
        self._view = view

    @property
    def is_isolated(self) -> bool:
        return self._membership.is_isolated

    def host(self, who: NodeKey) -> HostSeen:
        node_id, _name = who
        if not node_id:
            return HostSeen(self._external(who))
        if node_id == self._membership.me.node_id:
            return HostSeen(HostVerdict.PRESENT, self._membership.own_standing.generation)
        member = self._membership.member_by_id(node_id)
        if member is not None:
            return HostSeen(_verdict(member.standing), member.standing.generation)
        forgotten = self._membership.forgotten(node_id)
        if forgotten is None or self._now().monotonic_ns - forgotten.at_ns < GIVEN_WAY_NS:
            return HostSeen(HostVerdict.UNKNOWN)
        return HostSeen(HostVerdict.GONE, forgotten.generation)

    def followed_by(self, who: NodeKey, node: str) -> int:
        node_id, _name = who
        membership, host = self._membership, self._view.node(node)
        if not node_id or node_id == membership.me.node_id or not self._is_compared:
            return 0
        if membership.member_by_id(node_id) is not None or membership.forgotten(node_id) is not None:
            return 0
        if host is None or host.owner == NO_AGENT:
            return 0
        if (owner := uuid_bytes(host.owner)) == membership.me.node_id:
            return membership.own_standing.generation
        member = membership.member_by_id(owner)
        return member.standing.generation if member is not None and member.standing.is_present else 0

    def records(self, who: NodeKey) -> RecordsSeen:
        node_id, _name = who
        if not node_id:
            return ALL_OF_IT if self._is_store_known else RecordsSeen()
        state = self._cluster.sharing.replication.state(node_id[:SHORT])
        if state is None:
            return RecordsSeen()
        return RecordsSeen(state.generation, state.low_water, state.is_complete)

    def check(self, who: NodeKey, check_id: str) -> CheckSeen:
        host = self._host(who)
        row = host.checks.get(check_id) if host is not None else None
        if row is None:
            return CheckSeen.MISSING
        is_critical = row.value.status is CheckStatus.CRITICAL and row.value.kind != SESSION_CHECK
        return CheckSeen.CRITICAL if is_critical else CheckSeen.FINE

    def node_named(self, name: str) -> NodeKey:
        """Who has that name in the view."""
        host = self._view.node(name)
        if host is None or host.owner == NO_AGENT:
            return b"", name.lower()
        return bytes.fromhex(host.owner.replace("-", "")), ""

    @property
    def _is_compared(self) -> bool:
        """With anybody, since this process began."""
        return self._cluster.sharing.replication.agreed_ns is not None

    @property
    def _is_store_known(self) -> bool:
        state = self._cluster.sharing.replication.state(STORE)
        return state is not None and state.is_complete

    def _external(self, who: NodeKey) -> HostVerdict:
        if self._host(who) is not None:
            return HostVerdict.PRESENT
        return HostVerdict.GONE if self._is_store_known else HostVerdict.UNKNOWN

    def _host(self, who: NodeKey) -> CatalogHost | None:
        node_id, name = who
        if not node_id:
            host = self._view.node(name)
            return host if host is not None and host.owner == NO_AGENT else None
        if node_id == self._membership.me.node_id:
            shown_as: str | None = self._membership.me.name
        else:
            shown_as = self._cluster.presence.shown_as(node_id[:SHORT])
        host = self._view.node(shown_as) if shown_as is not None else None
        return host if host is not None and host.owner == uuid_text(node_id) else None


def tell_of_hosts(
    performers: dict[type, Callable[[Any], None]], sees: SeenHosts, keeping: SessionKeeping
) -> None:
    """From now on, whatever moves on a host on which a session hangs."""
    change_member, notify = performers[MemberChanged], performers[Notify]

    def member_changed(effect: MemberChanged) -> None:
        change_member(effect)
        keeping.host_moved((effect.member.node_id, ""))

    def notified(effect: Notify) -> None:
        notify(effect)
        if keeping.keeper.watches_nodes:
            for topic in effect.topics:
                if topic.family in (Family.NODE, Family.NODE_CHECKS):
                    keeping.host_moved(sees.node_named(topic.name))

    performers[MemberChanged] = member_changed
    performers[Notify] = notified


def _verdict(standing: Standing) -> HostVerdict:
    if standing.departure:
        return HostVerdict.GONE
    return HostVerdict.FAILED if standing.rank == Rank.DEAD else HostVerdict.PRESENT
