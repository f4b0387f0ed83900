"""What strangers, and streams that make us fail, can take from the others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from adsum.address import Address
from adsum.gossip.effects import SyncMessage, SyncPart
from adsum.logs.faults import Faults
from adsum.net import call_frames, introduction, syncs
from adsum.net.call_server import CallServer
from adsum.net.errors import Lost, NetError, TurnedAway
from adsum.net.framing import hello
from adsum.net.gate import OpenedChannel, connect
from adsum.net.introduction import Introduction, Peer, PeerIdentity, Purpose
from adsum.net.streams import AgentLines, StreamLimits, StreamServer, open_sync, ping
from adsum.net.syncs import Sync
from adsum.net.unread import UnreadBytes
from tests.net.support import Wire, serving
from tests.net.support import gate as make_gate

ROSTER = SyncMessage(7, tuple(SyncPart(bytes(500), b"verdict", 3) for _ in range(500)))


async def answer_in_kind(sync: Sync, asked: SyncMessage, _: Peer) -> None:
    await sync.send(asked)
    await sync.receive(idle_s=30)


def by_name(*members: bytes) -> Callable[[Peer], bool]:
    return lambda peer: peer.identity.node_id.rstrip(b"-") in members


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(5):
        while not condition():
            await trio.lowlevel.checkpoint()


async def test_half_open_streams_take_no_place_and_delay_nobody_who_speaks_at_once() -> None:
    limits = StreamLimits(openings_max=4, openings_per_host_max=4, streams_max=1, streams_per_host_max=1)
    server = StreamServer(make_gate(), limits=limits)
    async with serving(server) as address, contextlib.AsyncExitStack() as held:
        for number in range(20):
            stream = await held.enter_async_context(await connect(address))
            await stream.send_all(b"adsm" if number % 2 else hello("dc1", bytes(16)).encoded)
        with trio.fail_after(5):
            await ping(make_gate(), address, timeout_s=5)
        await until(lambda: server.counters.openings.displaced == 17)
        assert (server.counters.openings.held, server.counters.turned_away) == (3, 0)


async def test_many_half_open_streams_are_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    server = StreamServer(make_gate(), limits=StreamLimits(openings_max=1))
    async with serving(server) as address, contextlib.AsyncExitStack() as held:
        for _ in range(20):
            await held.enter_async_context(await connect(address))
        await until(lambda: server.counters.openings.displaced == 19)
    (line,) = [record.getMessage() for record in caplog.records if record.name == "net"]
    assert line == "streams that do not say who they are make room for others, one from 127.0.0.1"


async def test_a_stranger_tells_a_short_roster_and_a_member_a_long_one() -> None:
    server_gate = make_gate()
    server = StreamServer(server_gate, answer_sync=answer_in_kind, is_member=by_name(b"member"))
    short = SyncMessage(7, tuple(SyncPart(bytes(500)) for _ in range(120)))
    async with serving(server) as address:
        for name, roster in ((b"member", ROSTER), (b"stranger", short)):
            async with open_sync(make_gate(name=name), address) as (sync, _):
                await sync.send(roster)
                assert await sync.receive(idle_s=5) == roster
        async with open_sync(make_gate(name=b"stranger"), address) as (sync, _):
            with contextlib.suppress(NetError):  # cut off while it was sending
                await sync.send(ROSTER)
            await until(lambda: server_gate.unread.counters.refused["length"] == 1)
    assert server.counters.syncs_failed == 3


ASK = next(syncs.frames(SyncMessage(1)))
MEMBER = b"member".ljust(16, b"-")


async def begin_sync(to: Address, *, node_id: bytes, source: str, says: bytes | None) -> trio.SocketStream:
    """Let in from another address of ours, and left alone then."""
    sock = trio.socket.socket()
    await sock.bind((source, 0))
    await sock.connect((to.host, to.port))
    stream = trio.SocketStream(sock)
    client = Wire(stream, None)
    await client.greet()
    await client.say(introduction.encode(Introduction(PeerIdentity(node_id), Purpose.SYNC)))
    assert await client.heard()
    if says is not None:
        await client.say(says)
    return stream


@pytest.mark.parametrize("says", [None, ASK], ids=["nothing", "its first message"])
async def test_exchanges_that_stand_idle_keep_nobody_from_one(says: bytes | None) -> None:
    server = StreamServer(make_gate(), answer_sync=answer_in_kind, is_member=by_name(b"member"))
    async with serving(server) as address, contextlib.AsyncExitStack() as held:
        for number in range(12):
            node_id = MEMBER if number % 3 else bytes(15) + bytes((number,))
            source = f"127.0.0.{2 + number % 2}"
            idle = await begin_sync(address, node_id=node_id, source=source, says=says)
            held.push_async_callback(idle.aclose)
        await until(lambda: server.counters.openings.held + server.counters.syncs.held >= 8)
        for served in range(5):
            for name in (b"member", b"stranger"):
                async with open_sync(make_gate(name=name), address) as (sync, _):
                    await sync.send(SyncMessage(served))
                    assert await sync.receive(idle_s=5) == SyncMessage(served)
                    await sync.send(SyncMessage(99))
        await until(lambda: server.counters.syncs_served == 10)


async def test_those_who_said_nothing_yet_take_no_place_of_an_exchange() -> None:
    server = StreamServer(make_gate(), answer_sync=answer_in_kind)
    async with serving(server) as address, contextlib.AsyncExitStack() as held:
        for _ in range(12):
            await held.enter_async_context(open_sync(make_gate(), address))
        assert (server.counters.openings.held, server.counters.syncs.held) == (12, 0)
        async with open_sync(make_gate(), address) as (sync, _):
            await sync.send(SyncMessage(1))
            assert await sync.receive(idle_s=5) == SyncMessage(1)
            assert (server.counters.openings.displaced, server.counters.syncs.held) == (0, 1)


async def test_an_exchange_that_makes_room_is_hung_up_on_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = StreamServer(make_gate(), answer_sync=answer_in_kind, limits=StreamLimits(syncs_max=1))
    async with (
        serving(server) as address,
        open_sync(make_gate(), address) as (old, _),
        open_sync(make_gate(), address) as (new, _),
    ):
        await old.send(SyncMessage(1))
        assert await old.receive(idle_s=5) == SyncMessage(1)
        await new.send(SyncMessage(2))
        assert await new.receive(idle_s=5) == SyncMessage(2)
        with pytest.raises(Lost):
            await old.receive(idle_s=5)
        assert (server.counters.syncs.displaced, server.counters.syncs.held) == (1, 1)
        assert server.counters.syncs_failed == 1
    (line,) = [record.getMessage() for record in caplog.records if record.name == "net"]
    assert line == "exchanges that stand idle make room for others, one from 127.0.0.1"


async def test_an_exchange_whose_answer_is_on_its_way_makes_no_room(mock_clock: MockClock) -> None:
    """The kernel takes some of it, and no more until it is read."""
    long = SyncMessage(7, tuple(SyncPart(bytes(4_000)) for _ in range(2_000)))

    async def answer(sync: Sync, _asked: SyncMessage, _: Peer) -> None:
        await sync.send(long)
        await sync.receive(idle_s=5)

    server = StreamServer(make_gate(), answer_sync=answer, limits=StreamLimits(syncs_max=1))
    async with serving(server) as address, open_sync(make_gate(), address) as (first, _):
        await first.send(SyncMessage(1))
        await until(lambda: server.counters.syncs.held == 1)
        for _ in range(3):
            async with open_sync(make_gate(), address) as (late, _):
                await late.send(SyncMessage(2))
                with pytest.raises(Lost):
                    await late.receive(idle_s=5)
        assert await first.receive(idle_s=5) == long
        await first.send(SyncMessage(99))
        await until(lambda: server.counters.syncs_served == 1)
    assert (server.counters.syncs.turned_away, server.counters.syncs.displaced) == (3, 0)


def test_whoever_opens_an_exchange_and_says_nothing_is_cut_off_soon() -> None:
    async def main() -> None:
        server = StreamServer(make_gate(), answer_sync=answer_in_kind)
        async with serving(server) as address, open_sync(make_gate(), address) as (sync, _):
            began_s = trio.current_time()
            with pytest.raises(Lost):
                await sync.receive(idle_s=100)
            assert trio.current_time() - began_s == pytest.approx(2.0)
        assert server.counters.syncs_failed == 1

    trio.run(main, clock=MockClock(autojump_threshold=0.02))


@pytest.mark.parametrize(("name", "for_s"), [(b"stranger", 10.0), (b"member", 60.0)])
def test_an_exchange_with_a_stranger_takes_seconds_at_most(name: bytes, for_s: float) -> None:
    async def wait(_sync: Sync, _asked: SyncMessage, _: Peer) -> None:
        await trio.sleep_forever()

    async def main() -> None:
        server = StreamServer(make_gate(), answer_sync=wait, is_member=by_name(b"member"))
        async with serving(server) as address, open_sync(make_gate(name=name), address) as (sync, _):
            await sync.send(SyncMessage(1))
            began_s = trio.current_time()
            with pytest.raises(Lost):
                await sync.receive(idle_s=100)
            assert trio.current_time() - began_s == pytest.approx(for_s)

    trio.run(main, clock=MockClock(autojump_threshold=0.02))


async def test_what_one_stream_makes_us_fail_at_ends_that_stream_and_no_other() -> None:
    async def stumble(_sync: Sync, _asked: SyncMessage, _: Peer) -> None:
        async with trio.open_nursery():
            raise KeyError("hostile")

    faults = Faults()
    server = StreamServer(make_gate(), answer_sync=stumble, faults=faults)
    async with serving(server) as address:
        async with open_sync(make_gate(), address) as (sync, _):
            await sync.send(SyncMessage(1))
            with pytest.raises(Lost):
                await sync.receive(idle_s=5)
        await ping(make_gate(), address, timeout_s=5)
    assert (faults.counts["stream"], server.counters.open) == (1, 0)


async def test_a_failed_assertion_about_our_own_state_is_not_taken_for_a_fault_of_one_stream() -> None:
    async def stumble(_sync: Sync, _asked: SyncMessage, _: Peer) -> None:
        async with trio.open_nursery():
            raise AssertionError("the roster is consistent")

    async def story() -> None:
        server = StreamServer(make_gate(), answer_sync=stumble)
        async with serving(server) as address, open_sync(make_gate(), address) as (sync, _):
            await sync.send(SyncMessage(1))
            await trio.sleep(5)

    with pytest.raises(ExceptionGroup) as caught:
        await story()
    assert caught.group_contains(AssertionError, match="the roster is consistent")


class Echo:
    async def answer(self, _caller: Peer, method: str, body: bytes) -> bytes:
        return method.encode() + body

    def hear(self, caller: Peer, topic: str, body: bytes) -> None:
        raise NotImplementedError


async def test_agents_take_no_place_and_no_room_of_those_that_servers_have_among_themselves() -> None:
    server_gate = make_gate()
    limits = StreamLimits(streams_max=1, streams_per_host_max=1)
    unread = UnreadBytes(bytes_max=2_000, per_host_bytes_max=2_000)
    agents = AgentLines(CallServer(Echo()), unread, lines_max=2, lines_per_host_max=2)
    server = StreamServer(server_gate, calls=CallServer(Echo()), agents=agents, limits=limits)
    async with serving(server) as address, contextlib.AsyncExitStack() as held:

        async def dial(purpose: Purpose) -> OpenedChannel:
            opened = await make_gate().dial(address, purpose, payload_bytes_max=10_000)
            await held.enter_async_context(opened.channel)
            return opened

        agent = await dial(Purpose.KEYS)
        await dial(Purpose.KEYS)
        with pytest.raises(TurnedAway, match="it serves as many as it can already"):
            await dial(Purpose.KEYS)
        assert (server.counters.agents.open, server.counters.agents.turned_away) == (2, 1)
        caller = await dial(Purpose.CALLS)
        with pytest.raises(TurnedAway, match="it serves as many as it can already"):
            await dial(Purpose.CALLS)
        await agent.channel.send(call_frames.ask(1, "a", 5, bytes(1_500)))
        assert call_frames.decode(await agent.channel.receive(idle_s=5)) == call_frames.Answered(
            1, b"a" + bytes(1_500)
        )
        with contextlib.suppress(NetError):
            await agent.channel.send(call_frames.ask(2, "a", 5, bytes(3_000)))
        await until(lambda: sum(unread.counters.refused.values()) == 1)
        await caller.channel.send(call_frames.ask(1, "s", 5, bytes(3_000)))
        assert call_frames.decode(await caller.channel.receive(idle_s=5)) == call_frames.Answered(
            1, b"s" + bytes(3_000)
        )
        assert sum(server_gate.unread.counters.refused.values()) == 0
    await until(lambda: server.counters.agents.open + server.counters.open == 0)


async def test_where_agents_are_not_answered_they_are_told_so() -> None:
    async with serving(StreamServer(make_gate(), calls=CallServer(Echo()))) as address:
        with pytest.raises(TurnedAway, match="it does not offer this here"):
            await make_gate().dial(address, Purpose.KEYS, payload_bytes_max=1_000)
