from __future__ import annotations

from pathlib import Path

from adsum.leading import PeerFigures
from tests.servers.support import Site, cluster, until


async def test_each_server_tells_how_consensus_stands(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        assert [site.server.figures for site in made.sites] == [None, None, None]  # of no cluster yet
        leader = await made.leader()
        await leader.server.propose(b"a")
        follower = next(site for site in made.sites if site is not leader)
        await until(lambda: follower.machine.words == [b"a"])
        own, other = leader.server.figures, follower.server.figures
        assert own is not None
        assert other is not None
        assert (own.role, other.role) == ("leader", "follower")
        assert (own.leader, other.leader) == (leader.node, leader.node)
        assert own.leader_since_ms > 0
        assert own.behind_ms == 0
        assert own.term == other.term == own.last_log_term
        assert own.snapshot_index == 1  # of the founding
        last = leader.server.commit()
        assert (own.last_log_index, own.commit_index, own.applied_index) == (last, last, last)
        await until(lambda: [peer.last_index for peer in peers_of(leader)] == [last, last, last])
        nodes = [site.node for site in made.sites]
        assert other.peers == tuple(PeerFigures(node, is_voter=True, last_index=None) for node in nodes)


def peers_of(site: Site) -> tuple[PeerFigures, ...]:
    figures = site.server.figures
    return () if figures is None else figures.peers
