"""What a leader sees of hosts and checks, read from the cores that ship."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from uuid import UUID

from adsum.catalog.definitions import CheckStatus
from adsum.effects import Notify
from adsum.gossip import claims
from adsum.gossip.claims import Alive
from adsum.gossip.effects import MemberChanged
from adsum.gossip.evidence import ChangeCause
from adsum.gossip.order import Departure
from adsum.process.seen_hosts import SeenHosts, tell_of_hosts
from adsum.sessions.sees import CheckSeen, HostSeen, HostVerdict, NodeKey, RecordsSeen
from tests.api.agents import NODE_ID, FakeAgent

ME: NodeKey = (UUID(NODE_ID).bytes, "")
B: NodeKey = (hashlib.blake2b(b"b", digest_size=16).digest(), "")


def seen_by(agent: FakeAgent) -> SeenHosts:
    return SeenHosts(agent.cluster, agent.view, agent.now)


def reborn(b: Alive, generation: int = 2) -> Alive:
    """At the same address and of the same name, with another id: its host lost the data folder."""
    return claims.alive(replace(b.profile, node_id=b"\7" * 16), generation, 0)


def test_members_are_seen_as_gossip_has_them() -> None:
    agent = FakeAgent()
    sees = seen_by(agent)
    assert sees.host(ME) == HostSeen(HostVerdict.PRESENT, 1)
    assert sees.host(B) == HostSeen(HostVerdict.UNKNOWN)
    b, c = agent.meet("b"), agent.meet("c")
    assert sees.host(B) == HostSeen(HostVerdict.PRESENT, 1)
    agent.fail(b, c)
    assert sees.host(B) == HostSeen(HostVerdict.FAILED, 1)
    agent.judge(c, claims.left(b.subject, 1, 0, Departure.LEFT, b.subject).encoded)
    assert sees.host(B) == HostSeen(HostVerdict.GONE, 1)


def test_whoever_gave_way_to_another_agent_is_gone_when_it_is_not_heard_of_again_for_ten_seconds() -> None:
    agent = FakeAgent()
    sees, b = seen_by(agent), agent.meet("b")
    agent.hear(reborn(b).encoded)
    assert agent.cluster.membership.member_by_id(b.profile.node_id) is None
    assert sees.host(B) == HostSeen(HostVerdict.UNKNOWN)
    assert sees.followed_by(B, "b") == 0
    agent.wall_ms += 10_000
    assert sees.host(B) == HostSeen(HostVerdict.GONE, 1)


def test_whoever_gave_way_and_is_heard_of_again_is_present() -> None:
    agent = FakeAgent()
    sees, b = seen_by(agent), agent.meet("b")
    agent.hear(reborn(b).encoded)
    agent.hear(claims.alive(b.profile, 3, 0).encoded)
    agent.wall_ms += 10_000
    assert sees.host(B) == HostSeen(HostVerdict.PRESENT, 3)


def test_whoever_was_reaped_is_gone() -> None:
    agent = FakeAgent()
    sees, b, c = seen_by(agent), agent.meet("b"), agent.meet("c")
    agent.fail(b, c)
    for _hour in range(74):
        agent.wall_ms += 3_600_000
        agent._perform(agent.core.tick(agent.now()))
    assert agent.cluster.membership.member_by_id(b.profile.node_id) is None
    assert sees.host(B) == HostSeen(HostVerdict.GONE, 1)


def test_whoever_only_found_no_room_in_the_roster_is_not_gone() -> None:
    agent = FakeAgent()
    sees, b = seen_by(agent), agent.meet("b")
    member = agent.cluster.membership.member_by_id(b.profile.node_id)
    assert member is not None
    agent.cluster.gossip._merger.purge(agent.now(), member, ChangeCause.CROWDED_OUT)
    agent.wall_ms += 60_000
    assert sees.host(B) == HostSeen(HostVerdict.UNKNOWN)


def test_of_an_agent_that_this_server_never_met_another_that_has_its_name_tells() -> None:
    """When this server has compared its catalog with somebody."""
    agent = FakeAgent()
    sees, b = seen_by(agent), agent.meet("b")
    never_met: NodeKey = (b"\7" * 16, "")
    assert sees.host(never_met) == HostSeen(HostVerdict.UNKNOWN)
    assert sees.followed_by(never_met, "b") == 0
    agent.cluster.sharing.replication._exchanges.agreed_ns = 1
    assert sees.followed_by(never_met, "B") == 1
    assert sees.followed_by(never_met, "nobody") == 0
    assert sees.followed_by(B, "b") == 0
    assert sees.followed_by((b"", "b"), "b") == 0
    agent.fail(b, agent.meet("c"))
    assert sees.followed_by(never_met, "b") == 0


def test_own_records_and_checks_are_seen_and_a_warning_is_fine() -> None:
    agent = FakeAgent()
    sees = seen_by(agent)
    assert sees.check(ME, "service:web") is CheckSeen.MISSING
    agent.put_service("web")
    for _ in range(100):
        agent._perform(agent.core.tick(agent.now()))
    records = sees.records(ME)
    assert (records.generation, records.is_complete) == (1, True)
    assert records.version > 0
    assert sees.check(ME, "service:web") is CheckSeen.FINE
    agent.report("service:web", CheckStatus.WARNING)
    assert sees.check(ME, "service:web") is CheckSeen.FINE
    agent.report("service:web", CheckStatus.CRITICAL)
    assert sees.check(ME, "service:web") is CheckSeen.CRITICAL


def test_of_a_node_without_an_agent_nothing_is_known_before_the_store_has_published() -> None:
    sees = seen_by(FakeAgent())
    assert sees.host((b"", "router")) == HostSeen(HostVerdict.UNKNOWN)
    assert sees.records((b"", "router")) == RecordsSeen()
    assert sees.check((b"", "router"), "ping") is CheckSeen.MISSING


def test_a_name_leads_to_the_agent_that_has_it() -> None:
    agent = FakeAgent()
    agent.meet("b")
    sees = seen_by(agent)
    assert sees.node_named("b") == B
    assert sees.node_named("N1") == ME
    assert sees.node_named("Router") == (b"", "router")


class Told:
    """It is told what a keeper is."""

    def __init__(self) -> None:
        self.keeper = self
        self.watches_nodes = True
        self.moved: list[NodeKey] = []

    def host_moved(self, who: NodeKey) -> None:
        self.moved.append(who)


def test_whoever_keeps_sessions_hears_which_host_moved_and_so_does_whoever_heard_before() -> None:
    agent, told, before = FakeAgent(), Told(), list[object]()
    performers = {Notify: before.append, MemberChanged: before.append}
    tell_of_hosts(performers, seen_by(agent), told)  # type: ignore[arg-type]
    b, c = agent.meet("b"), agent.meet("c")
    fail = claims.dead(claims.suspect(b.subject, 1, 0, (c.subject,)), claims.DeathCause.SILENT)
    seen: list[object] = []
    agent._perform = lambda effects: seen.extend(effects) or effects  # type: ignore[method-assign,func-returns-value]
    agent.judge(c, fail.encoded)
    for effect in seen:
        if type(effect) in performers:
            performers[type(effect)](effect)
    assert B in told.moved
    assert before
