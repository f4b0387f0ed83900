"""What strangers, and streams that make us fail, can take from the others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
import trio
from trio.testing import MockClock

from adsum.gossip.effects import SyncMessage, SyncPart
from adsum.net.errors import Lost, NetError, TurnedAway
from adsum.net.framing import hello
from adsum.net.gate import connect
from adsum.net.introduction import Peer
from adsum.net.streams import StreamLimits, StreamServer, open_sync, ping
from adsum.net.syncs import Sync
from adsum.observe.faults import Faults
from tests.net.support import gate as make_gate
from tests.net.support import serving

ROSTER = SyncMessage(7, tuple(SyncPart(bytes(500), b"verdict", 3) for _ in range(500)))


async def answer_in_kind(sync: Sync, _: Peer) -> None:
    await sync.send(await sync.receive(idle_s=5))
    await sync.receive(idle_s=5)


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
        await until(lambda: server.counters.displaced == 17)
        assert (server.counters.opening, server.counters.turned_away) == (3, 0)


async def test_many_half_open_streams_are_one_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    server = StreamServer(make_gate(), limits=StreamLimits(openings_max=1))
    async with serving(server) as address, contextlib.AsyncExitStack() as held:
        for _ in range(20):
            await held.enter_async_context(await connect(address))
        await until(lambda: server.counters.displaced == 19)
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


async def test_strangers_leave_places_for_exchanges_to_members() -> None:
    limits = StreamLimits(syncs_max=2, syncs_of_strangers_max=1)
    server = StreamServer(
        make_gate(), answer_sync=answer_in_kind, limits=limits, is_member=by_name(b"member")
    )
    stranger, member = make_gate(name=b"stranger"), make_gate(name=b"member")
    async with serving(server) as address, open_sync(stranger, address):
        with pytest.raises(TurnedAway, match="as many as it can"):
            async with open_sync(stranger, address):
                pass
        async with open_sync(member, address):
            pass


@pytest.mark.parametrize(("name", "for_s"), [(b"stranger", 10.0), (b"member", 60.0)])
def test_an_exchange_with_a_stranger_takes_seconds_at_most(name: bytes, for_s: float) -> None:
    async def wait(_sync: Sync, _: Peer) -> None:
        await trio.sleep_forever()

    async def main() -> None:
        server = StreamServer(make_gate(), answer_sync=wait, is_member=by_name(b"member"))
        async with serving(server) as address, open_sync(make_gate(name=name), address) as (sync, _):
            began_s = trio.current_time()
            with pytest.raises(Lost):
                await sync.receive(idle_s=100)
            assert trio.current_time() - began_s == pytest.approx(for_s)

    trio.run(main, clock=MockClock(autojump_threshold=0.02))


async def test_what_one_stream_makes_us_fail_at_ends_that_stream_and_no_other() -> None:
    async def stumble(_sync: Sync, _: Peer) -> None:
        async with trio.open_nursery():
            raise KeyError("hostile")

    faults = Faults()
    server = StreamServer(make_gate(), answer_sync=stumble, faults=faults)
    async with serving(server) as address:
        async with open_sync(make_gate(), address) as (sync, _):
            with pytest.raises(Lost):
                await sync.receive(idle_s=5)
        await ping(make_gate(), address, timeout_s=5)
    assert (faults.counts["stream"], server.counters.open) == (1, 0)


async def test_a_failed_assertion_about_our_own_state_is_not_taken_for_a_fault_of_one_stream() -> None:
    async def stumble(_sync: Sync, _: Peer) -> None:
        async with trio.open_nursery():
            raise AssertionError("the roster is consistent")

    async def story() -> None:
        server = StreamServer(make_gate(), answer_sync=stumble)
        async with serving(server) as address, open_sync(make_gate(), address):
            await trio.sleep(5)

    with pytest.raises(ExceptionGroup) as caught:
        await story()
    assert caught.group_contains(AssertionError, match="the roster is consistent")
