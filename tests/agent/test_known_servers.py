"""Which members are servers, by literal changes."""

from __future__ import annotations

from dataclasses import replace

from adsum.address import Address
from adsum.agent import tags
from adsum.agent.known_servers import GossipedServer, KnownServers, LeadershipSeen
from adsum.agent.tags import Tags
from adsum.gossip.claims import Profile
from adsum.gossip.effects import MemberChanged
from adsum.gossip.evidence import ChangeCause, Evidence
from adsum.gossip.order import Departure, Rank, Standing

ALIVE = Standing(1, Departure.NONE, 0, Rank.ALIVE)
SUSPECT = Standing(1, Departure.NONE, 0, Rank.SUSPECT)
DEAD = Standing(1, Departure.NONE, 0, Rank.DEAD)
LEFT = Standing(1, Departure.LEFT, 0, Rank.DEAD)


def change(name: str, after: Standing | None, described: Tags) -> MemberChanged:
    profile = Profile(name.encode() * 8, name, Address("10.0.0.1", 8301), tags.encode(described))
    return MemberChanged(profile, None, after, Evidence(ChangeCause.JOINED))


SERVER = Tags(is_server=True, server_port=8300)
WAITS = Tags(is_server=True, server_port=8300, expect=3)


def test_servers_are_known_by_the_address_where_they_call_each_other() -> None:
    servers = KnownServers()
    servers.changed(change("s1", ALIVE, SERVER))
    servers.changed(change("s2", ALIVE, WAITS))
    servers.changed(change("c1", ALIVE, Tags()))
    assert servers.present == [
        GossipedServer(b"s1" * 8, "s1", Address("10.0.0.1", 8300), "", 0, None),
        GossipedServer(b"s2" * 8, "s2", Address("10.0.0.1", 8300), "", 3, None),
    ]


def test_a_suspect_stays_and_who_failed_or_left_goes() -> None:
    for after, is_present in ((SUSPECT, True), (DEAD, False), (LEFT, False), (None, False)):
        servers = KnownServers()
        servers.changed(change("s1", ALIVE, SERVER))
        servers.changed(change("s1", after, SERVER))
        assert bool(servers.present) is is_present


def test_the_version_moves_only_with_what_is_known_of_servers() -> None:
    servers, versions = KnownServers(), []
    for each in (
        change("c1", ALIVE, Tags()),
        change("s1", ALIVE, SERVER),
        change("s1", SUSPECT, SERVER),
        change("s1", DEAD, SERVER),
        change("c1", DEAD, Tags()),
    ):
        servers.changed(each)
        versions.append(servers.version)
    assert versions == [0, 1, 1, 2, 2]


def test_of_those_who_say_that_they_lead_the_highest_term_of_the_latest_epoch_is_believed() -> None:
    servers = KnownServers()
    servers.changed(change("s1", ALIVE, replace(SERVER, leads_in_term=9)))
    assert servers.leader == b"s1" * 8
    servers.changed(change("s2", ALIVE, replace(SERVER, leads_in_epoch=1, leads_in_term=3)))
    assert servers.leader == b"s2" * 8
    servers.changed(change("s2", DEAD, SERVER))
    servers.changed(change("s1", ALIVE, SERVER))
    assert servers.leader is None


def test_a_server_believes_consensus_and_not_gossip() -> None:
    servers = KnownServers()
    servers.leadership_seen(LeadershipSeen(None, None, (b"s1" * 8,), 9, "leader-silent"))
    servers.changed(change("s1", ALIVE, replace(SERVER, leads_in_term=9)))
    assert servers.leader is None
    servers.leadership_seen(LeadershipSeen(b"s3" * 8, None, (b"s1" * 8, b"s3" * 8), 10, "heard"))
    assert servers.leader == b"s3" * 8
