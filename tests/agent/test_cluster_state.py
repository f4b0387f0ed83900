"""What a roll keeps of the others, so that the next life finds them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random

import cbor2

from adsum.address import Address
from adsum.agent import tags
from adsum.agent.cluster_state import ClusterState
from adsum.agent.known_servers import LeadershipSeen
from adsum.agent.saved_files import PEERS
from adsum.agent.settings import AgentSettings
from adsum.agent.tags import Tags
from adsum.catalog.model import Node
from adsum.catalog.own_writer import OwnCatalogWriter
from adsum.catalog.replication import items
from adsum.catalog.replication.deltas import push
from adsum.catalog.view import View
from adsum.effects import LeaderChanged, WriteFile
from adsum.gossip import claims, wire
from adsum.gossip.claims import Claim
from adsum.gossip.commands import Datagram
from adsum.gossip.core import GossipCore
from adsum.gossip.effects import SyncPart
from adsum.gossip.settings import GossipSettings, MemberIdentity
from adsum.gossip.wire import PacketKind
from adsum.now import MILLISECOND, SECOND, Now
from adsum.owners import STORE
from adsum.testing.introducing import introduce
from tests.gossip.support import GENERATION, WALL_MS, alive, dead, profile, short

NODE = Node(node_id="00000000-0000-0000-0000-000000000001", name="me", address="10.0.0.1", datacenter="dc1")


LED = Tags(is_server=True, server_port=8300)


class Stage:
    def __init__(self) -> None:
        self.now_ns = SECOND
        gossip = GossipCore(self.now, GossipSettings(), MemberIdentity(profile("me"), GENERATION), Random(1))
        self.cluster = ClusterState(
            *(self.now, gossip, OwnCatalogWriter(View(self.now, tag=1), NODE.node_id, "me")),
            *(AgentSettings(node=NODE), Random(1)),
        )

    @property
    def now(self) -> Now:
        return Now(self.now_ns, WALL_MS + self.now_ns // MILLISECOND)

    def meet(self, name: str) -> None:
        command, receive = partial(self.cluster.command, self.now, 1), partial(self.cluster.receive, self.now)
        introduce(command, receive, SyncPart(alive(name).encoded))

    def sees(self, leader: bytes | None, term: int, cause: str) -> list[LeaderChanged]:
        """As consensus on this server tells it."""
        seen = LeadershipSeen(leader, None, (), term, cause)
        return [each for each in self.cluster.receive(self.now, seen) if isinstance(each, LeaderChanged)]

    def hears(self, name: str, described: Tags, *, incarnation: int = 0) -> list[LeaderChanged]:
        """As a member describes itself."""
        command, receive = partial(self.cluster.command, self.now, 1), partial(self.cluster.receive, self.now)
        said = claims.alive(replace(profile(name), meta=tags.encode(described)), GENERATION, incarnation)
        effects = introduce(command, receive, SyncPart(said.encoded))
        return [each for each in effects if isinstance(each, LeaderChanged)]

    def hear(self, *told: Claim) -> None:
        encoded = [claim.encoded for claim in told]
        message = wire.header(short("a"), GENERATION) + wire.encode(
            wire.Packet(PacketKind.GOSSIP, claims=encoded)
        )
        self.cluster.receive(self.now, Datagram(profile("a").address, message, True))

    def peers_after(self, wait_ns: int) -> list[Address] | None:
        """What the file of peers is to hold, if it is to be written by then."""
        self.now_ns += wait_ns
        for change in self.cluster.take_files(self.now):
            if isinstance(change, WriteFile) and change.path == PEERS:
                return [Address(*each) for each in cbor2.loads(change.content)]
        return None


def test_of_the_store_the_word_of_a_member_counts_that_is_a_server() -> None:
    stage = Stage()
    stage.meet("a")
    stage.hears("s", LED)
    item = items.Item(1, 5, b"a node without an agent")
    told = (push(STORE, 7, 5, items.term(item), [item]),)
    replication = stage.cluster.sharing.replication
    replication.hear(stage.now, short("a"), told)
    assert replication.state(STORE) is None
    replication.hear(stage.now, short("s"), told)
    assert replication.state(STORE) is not None


def test_the_first_peers_are_written_down_at_once_and_later_ones_now_and_then() -> None:
    stage = Stage()
    stage.meet("a")
    assert stage.peers_after(SECOND // 2) == [profile("a").address]
    stage.hear(alive("b"))
    assert stage.peers_after(SECOND // 2) is None
    assert stage.peers_after(5 * SECOND) == [profile("a").address, profile("b").address]


def test_those_who_failed_are_written_down_behind_the_others() -> None:
    stage = Stage()
    stage.meet("a")
    stage.hear(alive("b"), dead("a", "b"))
    assert stage.peers_after(SECOND) == [profile("b").address, profile("a").address]


def test_whoever_met_nobody_keeps_what_it_knew_before() -> None:
    stage = Stage()
    assert [change for change in stage.cluster.last_files(stage.now) if change.path == PEERS] == []


def test_a_server_tells_who_leads_as_consensus_sees_it() -> None:
    stage, me = Stage(), profile("me")
    assert stage.sees(me.node_id, 4, "elected") == [
        LeaderChanged(me.node_id, me.name, me.address, True, 4, "elected")
    ]
    assert stage.sees(me.node_id, 5, "elected") == []
    assert stage.sees(None, 6, "quorum-silent") == [
        LeaderChanged(me.node_id, me.name, me.address, False, 5, "quorum-silent")
    ]
    assert stage.sees(None, 7, "not-elected") == []
    assert stage.sees(b"x" * 16, 8, "heard") == [LeaderChanged(b"x" * 16, "", None, True, 8, "heard")]


def test_a_client_tells_who_leads_as_the_leader_says_in_gossip() -> None:
    stage = Stage()
    assert stage.hears("a", LED) == []
    (leads,) = stage.hears("b", replace(LED, leads_in_term=4))
    assert (leads.name, leads.is_leading, leads.term, leads.cause) == ("b", True, 4, "")
    (leads,) = stage.hears("a", replace(LED, leads_in_term=5), incarnation=1)
    assert (leads.name, leads.is_leading, leads.term) == ("a", True, 5)


def test_a_server_describes_itself_anew_only_when_it_leads_or_no_longer_does() -> None:
    stage, me = Stage(), profile("me").node_id
    led_in: list[tuple[int, int] | None] = [None, (0, 4), (0, 4), None, None]
    incarnations = []
    for term in led_in:
        stage.cluster.receive(stage.now, LeadershipSeen(me if term else None, term, (), 4, ""))
        incarnations.append(stage.cluster.membership.own_standing.incarnation)
    assert incarnations == [0, 1, 1, 2, 2]
