from __future__ import annotations

import dataclasses
import logging
import os
import socket

import cbor2
import pytest
import trio

from adsum.agent.saved_files import COPY, PEERS
from adsum.catalog.saved import sealed
from adsum.config.config import Config
from adsum.gossip import wire
from adsum.gossip.wire import PacketKind
from adsum.net.gossiping import GossipingLimits
from adsum.net.keyring import Keyring
from adsum.net.sealing import Sealing
from adsum.net.streams import StreamLimits
from adsum.process.cluster_rim import gossiping_limits, saved_copy
from adsum.process.file_limit import LEAST, MOST
from adsum.storage.memory import MemoryDisk
from tests.process.agents import CONFIG, made


async def test_what_others_sent_while_the_agent_started_waits_until_it_listens() -> None:
    """Others go on probing an agent that was killed: its successor finds datagrams in its socket."""
    ping = wire.header(os.urandom(8), 1) + wire.encode(wire.Packet(PacketKind.PING, about=bytes(8)))
    async with trio.open_nursery() as nursery:
        agent = made(CONFIG, nursery)
        network = agent.cluster_rim.network
        assert network is not None
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(Sealing(Keyring(MemoryDisk()), "dc1").seal(ping), network.datagrams.address)
        await agent.begin()
        with trio.fail_after(10):
            while not agent.cluster.gossip.tally.packets_in[PacketKind.PING]:
                await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()


async def staleness(config: Config, disk: MemoryDisk | None = None) -> str:
    """Before anybody was heard."""
    async with trio.open_nursery() as nursery:
        agent = made(config, nursery, disk)
        found = agent.cluster.staleness(agent.now())
        if agent.cluster_rim.network is not None:
            await nursery.start(agent.cluster_rim.network.run)  # which closes its sockets
        nursery.cancel_scope.cancel()
    return found


async def test_whoever_has_somebody_to_join_says_from_the_start_on_that_others_are_missing() -> None:
    assert await staleness(CONFIG) == ""
    assert await staleness(dataclasses.replace(CONFIG, retry_join=("10.0.0.9",))) == "joining"
    assert await staleness(dataclasses.replace(CONFIG, start_join=("10.0.0.9",))) == "joining"
    disk = MemoryDisk()
    disk.write_durably(PEERS, cbor2.dumps([["10.0.0.9", 8301]]))
    assert await staleness(CONFIG, disk) == "joining"


async def test_without_gossip_nobody_is_missing() -> None:
    config = dataclasses.replace(CONFIG, retry_join=("10.0.0.9",))
    ports = dataclasses.replace(CONFIG.ports, serf_lan=-1)
    assert await staleness(dataclasses.replace(config, ports=ports)) == ""


def test_a_saved_catalog_of_another_format_is_as_good_as_none(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    disk.write_durably(COPY, sealed([2, 1_800_000_000_000, []]))
    with caplog.at_level(logging.INFO):
        assert saved_copy(disk) is None
    said = "the saved catalog is not used: it is of format 2, and this version writes 3; the next one "
    said += "replaces it"
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [("INFO", said)]
    assert disk.read(COPY) is not None


def test_with_many_files_streams_have_their_usual_limits() -> None:
    assert gossiping_limits(MOST) == GossipingLimits()


def test_with_few_files_half_of_the_streams_are_for_pings_and_exchanges() -> None:
    streams = StreamLimits(
        openings_max=4,
        openings_per_host_max=2,
        streams_max=4,
        streams_per_host_max=2,
        syncs_max=2,
        callers_max=2,
        callers_of_strangers_max=1,
    )
    assert gossiping_limits(LEAST) == GossipingLimits(pings_max=1, syncs_max=2, streams=streams)
