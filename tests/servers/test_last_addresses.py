"""Gossip adds addresses; it takes none away from the members of the configuration."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from adsum.address import Address
from adsum.net.gate import Security
from adsum.servers import answering
from adsum.servers.directory import KnownServer
from adsum.servers.last_addresses import FILE, LastAddresses
from adsum.storage.files import read_whole, write_whole
from adsum.testing.block_disk import BlockDisk
from tests.servers.support import Roster, cluster, node, ring, until

HERE, THERE = Address("10.0.0.1", 8300), Address("10.0.0.2", 8300)


def addresses(disk: BlockDisk, roster: Roster) -> LastAddresses:
    return LastAddresses(disk, roster, lambda: [node(1), node(2)])


def test_gossip_is_asked_first_and_where_it_was_found_is_looked_at_next() -> None:
    roster = Roster()
    last = addresses(BlockDisk(Random(1)), roster)
    assert last.addresses_of(node(1)) == []
    last.found(node(1), HERE)
    assert last.addresses_of(node(1)) == [HERE]
    roster.known[node(1)] = KnownServer(node(1), THERE)
    assert last.addresses_of(node(1)) == [THERE, HERE]
    last.found(node(1), THERE)
    assert last.addresses_of(node(1)) == [THERE]


async def test_what_is_known_of_members_is_there_at_the_next_start() -> None:
    disk, roster = BlockDisk(Random(1)), Roster()
    last = addresses(disk, roster)
    last.found(node(1), HERE)
    last.found(node(3), HERE)  # no member
    roster.known[node(2)] = KnownServer(node(2), THERE)  # never spoken to
    await last.save()
    disk.lose_power()
    operations = disk.operations
    await last.save()
    assert disk.operations == operations  # nothing new
    again = addresses(disk, Roster())
    assert [again.addresses_of(node(number)) for number in (1, 2, 3)] == [[HERE], [THERE], []]


def test_a_damaged_file_is_as_good_as_none() -> None:
    for content in (b"", b"\xff\xff", b"\x81\x82\x01\x02", b"\x01"):
        disk = BlockDisk(Random(1))
        write_whole(disk, FILE, content)
        assert addresses(disk, Roster()).addresses_of(node(1)) == []
        assert read_whole(disk, FILE) == content


async def test_a_cluster_without_a_key_writes_on_when_gossip_is_wrong_about_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "ADMITTED_S", 0.0)  # each message is looked at
    async with cluster(tmp_path, security=Security(ring(), "dc1")) as three:
        leader = await three.leader()
        await leader.server.propose(b"before")
        for site in three.sites:
            await site.server._addresses.save()
        term = leader.server.driver.core.raft.replica.term  # type: ignore[union-attr]
        three.roster.known.clear()
        for _ in range(20):
            await leader.server.propose(b"after")
        assert leader.server.driver is not None
        assert leader.server.driver.core.raft.replica.term == term
        assert sum(site.server.answering.counters.strangers for site in three.sites) == 0


async def test_followers_that_start_while_gossip_knows_nobody_find_the_others(tmp_path: Path) -> None:
    async with cluster(tmp_path) as three:
        leader = await three.leader()
        await leader.server.propose(b"before")
        followers = [site for site in three.sites if site is not leader]
        for site in followers:
            await site.server._addresses.save()
            await site.kill()
        for site in followers:
            three.start(site)
        three.roster.known.clear()
        again = await three.leader()
        await again.server.propose(b"after")
        await until(lambda: all(site.machine.words == [b"before", b"after"] for site in three.sites))
