from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio

from adsum.address import Address
from adsum.gossip.effects import SyncMessage, SyncPart
from adsum.net import call_frames, framing, introduction
from adsum.net.call_server import CallLimits, CallServer
from adsum.net.channel import Channel
from adsum.net.errors import Lost, NetError, NoRoomForPeer
from adsum.net.framing import FrameReader, FrameWriter, PlainFrames, hello
from adsum.net.gate import Gate, connect
from adsum.net.introduction import Introduction, Peer, PeerIdentity, Purpose
from adsum.net.streams import StreamServer, open_sync
from adsum.net.syncs import Sync
from adsum.net.unread import UnreadBytes
from tests.net.support import gate, ring, serving

MEBIBYTE = 1024 * 1024


def test_one_host_holds_its_part_and_all_hosts_the_whole() -> None:
    unread = UnreadBytes(bytes_max=100, per_host_bytes_max=60)
    one, again, other = (unread.share(host) for host in ("10.0.0.1", "10.0.0.1", "10.0.0.2"))
    one.hold(50)
    with pytest.raises(NoRoomForPeer, match="one host"):
        again.hold(11)
    again.hold(10)
    with pytest.raises(NoRoomForPeer, match="by all"):
        other.hold(41)
    assert unread.counters.held_bytes == 60
    assert unread.counters.refused == {"host": 1, "all": 1}


def test_a_stream_that_ends_gives_back_all_that_it_held() -> None:
    unread = UnreadBytes(bytes_max=100, per_host_bytes_max=60)
    share = unread.share("10.0.0.1")
    share.hold(40)
    share.free(10)
    share.close()
    assert unread.counters.held_bytes == 0
    unread.share("10.0.0.1").hold(60)


class Waiting:
    def __init__(self) -> None:
        self.asked = 0

    async def answer(self, _caller: Peer, method: str, _body: bytes) -> bytes:
        self.asked += 1
        if method == "wait":
            await trio.sleep_forever()
        return b"yes"

    def hear(self, _caller: Peer, _topic: str, _body: bytes) -> None:
        raise AssertionError("nothing is told here")


def with_budget(unread: UnreadBytes) -> Gate:
    given = gate(ring())
    given.unread = unread
    return given


@asynccontextmanager
async def call_server(unread: UnreadBytes, answerer: Waiting | None = None) -> AsyncIterator[Address]:
    server = CallServer(answerer or Waiting(), CallLimits(question_bytes_max=MEBIBYTE))
    async with serving(StreamServer(with_budget(unread), calls=server)) as address:
        yield address


async def half_a_question(stream: trio.SocketStream, size: int) -> None:
    """In plaintext and by hand: the head announces twice as much as comes."""
    writer = FrameWriter(PlainFrames(), payload_bytes_max=1_000)
    introduced = introduction.encode(Introduction(PeerIdentity(bytes(16)), Purpose.CALLS))
    await stream.send_all(hello("dc1", bytes(16)).encoded + writer.pack(introduced))
    answered = await stream.receive_some(1_000)
    while len(answered) <= framing.HELLO_BYTES:
        answered += await stream.receive_some(1_000)
    await stream.send_all((2 * size).to_bytes(4) + bytes(size))


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(10):
        while not condition():
            await trio.lowlevel.checkpoint()


async def test_half_frames_of_one_host_hold_its_part_of_the_budget_and_no_more() -> None:
    unread, streams = UnreadBytes(), []
    counters = unread.counters
    async with call_server(unread) as address:
        for attempt in range(1, 31):
            streams.append(await connect(address))
            with contextlib.suppress(trio.BrokenResourceError):  # cut off while it was sending
                await half_a_question(streams[-1], 524_284)
            await until(lambda: counters.held_bytes // 524_288 + counters.refused["host"] == attempt)  # noqa: B023
        assert counters.held_bytes == 20 * 524_288 == 10 * MEBIBYTE
        assert counters.refused == {"host": 10}
        for stream in streams:
            await trio.aclose_forcefully(stream)
        await until(lambda: counters.held_bytes == 0)


async def test_what_comes_together_with_the_introduction_is_held_too() -> None:
    unread = UnreadBytes()
    writer = FrameWriter(PlainFrames(), payload_bytes_max=1_000)
    introduced = introduction.encode(Introduction(PeerIdentity(bytes(16)), Purpose.CALLS))
    async with call_server(unread) as address:
        async with await connect(address) as stream:
            begun = hello("dc1", bytes(16)).encoded + writer.pack(introduced)
            await stream.send_all(begun + (1_000).to_bytes(4) + bytes(500))
            await until(lambda: unread.counters.held_bytes == 504)
        await until(lambda: unread.counters.held_bytes == 0)


class Recording(trio.abc.Stream):
    """Whatever is read is the end; how much was asked for is kept."""

    def __init__(self) -> None:
        self.asked: list[int | None] = []

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        self.asked.append(max_bytes)
        return b""

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        raise AssertionError("nothing is sent here")

    async def wait_send_all_might_not_block(self) -> None:
        raise AssertionError("nothing is sent here")

    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize(
    ("payload_bytes_max", "read_at_once"), [(0, 1_024), (4_096, 4_096), (9 * MEBIBYTE, 65_536)]
)
async def test_about_as_much_is_read_at_once_as_a_frame_may_have(
    payload_bytes_max: int, read_at_once: int
) -> None:
    stream = Recording()
    writer = FrameWriter(PlainFrames(), payload_bytes_max=payload_bytes_max)
    channel = Channel(stream, writer, FrameReader(PlainFrames(), payload_bytes_max=payload_bytes_max))
    with pytest.raises(Lost):
        await channel.receive(idle_s=5)
    assert stream.asked == [read_at_once]


async def test_a_stream_that_was_cut_off_holds_no_bytes_though_its_error_refers_to_it() -> None:
    seen: list[Channel] = []

    class Keeping(CallServer):
        async def serve(self, channel: Channel, peer: Peer) -> None:
            seen.append(channel)
            await super().serve(channel, peer)

    server = Keeping(Waiting(), CallLimits(question_bytes_max=MEBIBYTE))
    unread = UnreadBytes(bytes_max=10_000, per_host_bytes_max=10_000)
    async with (
        serving(StreamServer(with_budget(unread), calls=server)) as address,
        await connect(address) as stream,
    ):
        await half_a_question(stream, 50_000)
        await until(lambda: server.counters.lost == 1)
        await until(lambda: seen[0]._reader.waiting_bytes == 0)


async def test_what_was_held_of_a_frame_is_free_when_it_has_come_whole() -> None:
    unread = UnreadBytes()
    async with call_server(unread) as address:
        opened = await gate(name=b"asker").dial(address, Purpose.CALLS, payload_bytes_max=2 * MEBIBYTE)
        async with opened.channel as channel:
            await channel.send(call_frames.ask(1, "echo", 5, bytes(MEBIBYTE // 2)))
            assert call_frames.decode(await channel.receive(idle_s=5)) == call_frames.Answered(1, b"yes")
            assert unread.counters.held_bytes == 0


async def test_questions_in_hand_are_held_too_and_beyond_the_budget_a_call_is_declined_as_busy() -> None:
    unread, answerer = UnreadBytes(bytes_max=100_000, per_host_bytes_max=100_000), Waiting()
    async with call_server(unread, answerer) as address:
        opened = await gate(name=b"asker").dial(address, Purpose.CALLS, payload_bytes_max=MEBIBYTE)
        async with opened.channel as channel:
            for number, size in enumerate((40_000, 59_000)):
                await channel.send(call_frames.ask(number, "wait", 60, bytes(size)))
                await until(lambda: answerer.asked == number + 1)  # noqa: B023
            assert unread.counters.held_bytes == 99_000
            await channel.send(call_frames.ask(3, "echo", 60, bytes(2_000)))
            busy = call_frames.FailedFrame(3, "busy", "it has as many calls as it can take")
            assert call_frames.decode(await channel.receive(idle_s=5)) == busy
            await channel.send(call_frames.ask(4, "echo", 60, bytes(500)))
            assert call_frames.decode(await channel.receive(idle_s=5)) == call_frames.Answered(4, b"yes")
        await until(lambda: unread.counters.held_bytes == 0)


async def test_half_a_roster_is_held_until_it_is_whole() -> None:
    unread, came = UnreadBytes(), trio.Event()
    message = SyncMessage(7, tuple(SyncPart(bytes(500)) for _ in range(500)))

    async def answer(_sync: Sync, _asked: SyncMessage, _: Peer) -> None:
        assert unread.counters.held_bytes == 0
        came.set()

    server = StreamServer(with_budget(unread), answer_sync=answer)
    async with serving(server) as address, open_sync(gate(name=b"asker"), address) as (sync, _):
        await sync.send(message)
        with trio.fail_after(5):
            await came.wait()


async def test_a_roster_beyond_the_budget_is_not_taken() -> None:
    unread = UnreadBytes(bytes_max=200_000, per_host_bytes_max=200_000)
    message = SyncMessage(7, tuple(SyncPart(bytes(500)) for _ in range(500)))

    async def answer(_sync: Sync, _asked: SyncMessage, _: Peer) -> None:
        raise AssertionError("it was taken")

    server = StreamServer(with_budget(unread), answer_sync=answer)
    async with serving(server) as address, open_sync(gate(name=b"asker"), address) as (sync, _):
        with contextlib.suppress(NetError):  # cut off while it was sending
            await sync.send(message)
        await until(lambda: server.counters.syncs_failed == 1)
        await until(lambda: unread.counters.held_bytes == 0)
    assert unread.counters.refused == {"host": 1}
