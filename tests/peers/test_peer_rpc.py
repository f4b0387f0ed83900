"""Questions between agents, over real sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from random import Random

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from adsum.address import Address
from adsum.gossip.claims import Profile, alive
from adsum.gossip.core import GossipCore
from adsum.gossip.effects import SyncPart
from adsum.gossip.membership_view import MembershipView
from adsum.gossip.settings import GossipSettings, MemberIdentity
from adsum.net.calls import Declined, NotSent, Unanswered
from adsum.net.introduction import Peer, PeerIdentity
from adsum.net.keyring import Keyring
from adsum.net.streams import StreamServer
from adsum.now import Now
from adsum.peers.peer_rpc import PeerRpc
from adsum.testing.introducing import introduce
from tests.net.support import KEY_A, gate, ring, serving


async def echo(_caller: Peer, body: bytes) -> bytes:
    return body


@asynccontextmanager
async def answering(peer_rpc: PeerRpc, keyring: Keyring) -> AsyncIterator[Address]:
    async with serving(StreamServer(gate(keyring), calls=peer_rpc.server)) as address:
        yield address


def asking(keyring: Keyring) -> PeerRpc:
    peer_rpc = PeerRpc(members_at(), Random(1))
    peer_rpc.gate = gate(keyring, name=b"asker")
    return peer_rpc


def members_at(*hosts: str) -> MembershipView:
    now = Now(0, 1_800_000_000_000)
    me = Profile(b"me" * 8, "me", Address("10.0.0.9", 8301))
    core = GossipCore(now, GossipSettings(), MemberIdentity(me, 1), Random(1))
    for number, host in enumerate(hosts):
        told = alive(Profile(bytes([number]) * 16, f"m{number}", Address(host, 8301)), 1, 0)
        introduce(partial(core.command, now), partial(core.report, now), SyncPart(told.encoded))
    return core.membership


async def test_a_question_is_answered_by_who_registered_for_it() -> None:
    peer_rpc = PeerRpc(members_at(), Random(1))
    peer_rpc.register("echo", echo)
    async with answering(peer_rpc, ring(KEY_A)) as address:
        assert await asking(ring(KEY_A)).ask(address, "echo", b"present") == b"present"


async def test_a_question_that_nobody_knows_is_declined_with_its_name() -> None:
    async with answering(PeerRpc(members_at(), Random(1)), ring()) as address:
        with pytest.raises(Declined, match="does not know the question 'echo'"):
            await asking(ring()).ask(address, "echo", b"")


async def test_without_a_key_only_hosts_of_present_members_may_change_things() -> None:
    stranger, known = (
        PeerRpc(members_at("10.0.0.1"), Random(1)),
        PeerRpc(members_at("127.0.0.1"), Random(1)),
    )
    for peer_rpc in (stranger, known):
        peer_rpc.register("change", echo, is_change=True)
    async with answering(stranger, ring()) as address:
        with pytest.raises(Declined, match="only hosts of present members"):
            await asking(ring()).ask(address, "change", b"x")
    async with answering(known, ring()) as address:
        assert await asking(ring()).ask(address, "change", b"x") == b"x"


@pytest.mark.parametrize(
    ("node_id", "is_authenticated", "is_member"),
    [(bytes(16), False, True), (b"x" * 16, False, False), (b"x" * 16, True, True)],
    ids=["on the roster", "a stranger", "holds a key"],
)
def test_members_are_those_on_the_roster_and_those_who_hold_a_key(
    node_id: bytes, is_authenticated: bool, is_member: bool
) -> None:
    caller = Peer(Address("192.0.2.1", 1), PeerIdentity(node_id), 1, is_authenticated)
    assert PeerRpc(members_at("10.0.0.1"), Random(1)).is_member(caller) is is_member


async def test_with_a_key_who_holds_it_may_change_things() -> None:
    peer_rpc = PeerRpc(members_at(), Random(1))
    peer_rpc.register("change", echo, is_change=True)
    async with answering(peer_rpc, ring(KEY_A)) as address:
        assert await asking(ring(KEY_A)).ask(address, "change", b"x") == b"x"


async def test_a_host_without_an_agent_was_sent_nothing() -> None:
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    address = Address(*listener.socket.getsockname())
    await listener.aclose()
    with pytest.raises(NotSent):
        await asking(ring()).ask(address, "echo", b"")


async def test_an_agent_that_does_not_listen_asks_nobody() -> None:
    with pytest.raises(Declined, match="does not listen for others"):
        await PeerRpc(members_at(), Random(1)).ask(Address("127.0.0.1", 1), "echo", b"")


async def test_a_call_beyond_the_number_of_those_at_once_waits_its_turn() -> None:
    running = most = 0

    async def count(_caller: Peer, body: bytes) -> bytes:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await trio.testing.wait_all_tasks_blocked(0.01)
        running -= 1
        return body

    answerer = PeerRpc(members_at(), Random(1))
    answerer.register("count", count)
    asker = PeerRpc(members_at(), Random(1), calls_max=2)
    asker.gate = gate(ring(), name=b"asker")
    async with answering(answerer, ring()) as address, trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(asker.ask, address, "count", b"")
    assert (most, asker.waited) == (2, 4)


async def test_a_call_whose_turn_does_not_come_in_time_was_not_sent(autojump_clock: MockClock) -> None:
    async def hang(_caller: Peer, _body: bytes) -> bytes:
        await trio.sleep_forever()
        raise AssertionError

    answerer = PeerRpc(members_at(), Random(1))
    answerer.register("hang", hang)
    asker = PeerRpc(members_at(), Random(1), calls_max=1)
    asker.gate = gate(ring(), name=b"asker")
    async with answering(answerer, ring()) as address, trio.open_nursery() as nursery:
        nursery.start_soon(unanswered, asker, address)
        await trio.testing.wait_all_tasks_blocked(0.01)
        with pytest.raises(NotSent, match="as many calls"):
            await asker.ask(address, "hang", b"", timeout_s=1)


async def unanswered(asker: PeerRpc, address: Address) -> None:
    with pytest.raises(Unanswered):
        await asker.ask(address, "hang", b"", timeout_s=3)
