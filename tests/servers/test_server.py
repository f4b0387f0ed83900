from __future__ import annotations

from pathlib import Path

from tests.servers.support import cluster, until


async def test_three_empty_servers_found_one_cluster_and_answer_on_each(tmp_path: Path) -> None:
    async with cluster(tmp_path) as made:
        await made.leader()
        for site in made.sites:
            assert await site.server.propose(site.node.encode()) == b"heard " + site.node.encode()
        words = [site.node.encode() for site in made.sites]
        for site in made.sites:
            await until(lambda site=site: site.machine.words == words)
            await site.server.read()
        assert len({site.server.log.identity.cluster for site in made.sites}) == 1
        assert len({site.machine.hash() for site in made.sites}) == 1
