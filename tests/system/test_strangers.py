"""Strangers, where gossip is not encrypted: they take no room, and real agents are let in."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from adsum.address import Address
from adsum.gossip import claims, wire
from adsum.gossip.claims import Profile
from adsum.gossip.effects import Send, SyncMessage, SyncPart
from adsum.net.datagrams import GossipDatagrams
from adsum.net.errors import NetError
from adsum.net.listening import bind_udp
from adsum.net.sealing import Sealing
from adsum.net.streams import open_sync
from tests.net.support import gate, ring
from tests.system.agents import Agent, Program, adsum_program, running, until

MADE_UP = 16_400
GENERATION = 1_700_000_000_000
LOG_LINES_MAX = 10


@pytest.fixture
def program() -> Program:
    return adsum_program()


@pytest.fixture
def agent(program: Program) -> Iterator[Agent]:
    with running(program, arguments=("-dev", "-log-level=info")) as started:
        yield started


def made_up(number: int) -> bytes:
    address = Address(f"10.{number >> 8 & 255}.{number & 255}.9", 8301)
    return claims.alive(Profile(os.urandom(16), f"ghost-{number}", address), GENERATION, 0).encoded


def members(agent: Agent) -> list[str]:
    return sorted(row["Name"] for row in agent.get_json("/v1/agent/members"))


def test_thousands_of_made_up_members_lock_nobody_out(agent: Agent, program: Program, tmp_path: Path) -> None:
    lines = len(agent.log().splitlines())
    trio.run(tell_in_an_exchange, agent)
    trio.run(tell_in_datagrams, agent)
    assert members(agent) == ["n1"]
    assert len(agent.log().splitlines()) - lines <= LOG_LINES_MAX
    seed = f"127.0.0.1:{agent.ports.serf_lan}"
    newcomer = {"node_name": "n2", "retry_join": [seed], "data_dir": str(tmp_path)}
    with running(program, newcomer, arguments=()) as other:
        assert until(lambda: members(agent) == members(other) == ["n1", "n2"], within_s=20)


async def tell_in_an_exchange(agent: Agent) -> None:
    parts = tuple(SyncPart(made_up(number)) for number in range(MADE_UP))
    with contextlib.suppress(NetError):  # it may hang up on us, and should
        async with open_sync(gate(), Address("127.0.0.1", agent.ports.serf_lan)) as (sync, _peer):
            await sync.send(SyncMessage(1, parts))
            await sync.receive(idle_s=10)
            await sync.send(SyncMessage(1, parts))


async def tell_in_datagrams(agent: Agent) -> None:
    with bind_udp("127.0.0.1", 0) as sock:
        stranger = GossipDatagrams(sock, Sealing(ring(), "dc1"), print)
        for number in range(MADE_UP // 10):
            body = wire.encode(
                wire.Packet(
                    wire.PacketKind.GOSSIP, claims=[made_up(number * 10 + each) for each in range(10)]
                )
            )
            message = wire.header(os.urandom(8), GENERATION) + body
            stranger.send(Send(Address("127.0.0.1", agent.ports.serf_lan), message))
            await trio.lowlevel.checkpoint()
