from __future__ import annotations

import dataclasses
import os
import socket
from random import Random

import cbor2
import trio

from adsum.agent.cluster_state import PEERS
from adsum.agent.core import AgentCore
from adsum.agent.settings import AgentSettings
from adsum.catalog.model import Node as CatalogNode
from adsum.catalog.saved import Saved
from adsum.config.config import Config
from adsum.gossip import wire
from adsum.gossip.wire import PacketKind
from adsum.net.keyring import Keyring
from adsum.net.sealing import Sealing
from adsum.process.cluster_rim import ClusterRim
from adsum.process.node import AgentRim, system_now
from adsum.storage.memory import MemoryDisk
from adsum.storage.owed import Owed

PLAIN = Config(node_name="n1", advertise_address="127.0.0.1", serf_lan_address="127.0.0.1")
CONFIG = dataclasses.replace(PLAIN, ports=dataclasses.replace(PLAIN.ports, serf_lan=0))
OWN = CatalogNode(
    node_id="6a0c4f0e-5f0b-4b1e-9d5c-0d3c1b2a9f01", name="n1", address="127.0.0.1", datacenter="dc1"
)


async def test_what_others_sent_while_the_agent_started_waits_until_the_roll_is_called() -> None:
    """Others go on probing an agent that was killed: its successor finds datagrams in its socket."""
    node = AgentRim(AgentCore(system_now(), AgentSettings(node=OWN, is_persistent=False), Random(0)))
    node.core.start(node.now(), Saved())
    cluster_rim = ClusterRim(node, CONFIG, OWN, Owed(MemoryDisk()), Random(0))
    assert cluster_rim.network is not None
    ping = wire.header(os.urandom(8), 1) + wire.encode(PacketKind.PING, about=bytes(8))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(Sealing(Keyring(MemoryDisk()), "dc1").seal(ping), cluster_rim.network.datagrams.address)
    async with trio.open_nursery() as nursery:
        await cluster_rim.begin(nursery)
        with trio.fail_after(10):
            while not cluster_rim.cluster.gossip.tally.packets_in[PacketKind.PING]:
                await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()


async def staleness(config: Config, disk: MemoryDisk | None = None) -> str:
    """Before the roll is called."""
    node = AgentRim(AgentCore(system_now(), AgentSettings(node=OWN, is_persistent=False), Random(0)))
    cluster_rim = ClusterRim(node, config, OWN, Owed(disk or MemoryDisk()), Random(0))
    if cluster_rim.network is not None:
        async with trio.open_nursery() as nursery:  # closes its sockets
            await nursery.start(cluster_rim.network.run)
            nursery.cancel_scope.cancel()
    return cluster_rim.cluster.staleness(node.now())


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
