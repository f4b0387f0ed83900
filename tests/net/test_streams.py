from __future__ import annotations

import logging
from collections.abc import Callable

import cbor2
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from adsum.address import Address
from adsum.gossip.effects import SyncMessage, SyncPart
from adsum.net import framing, gate, introduction
from adsum.net.channel import FRAME_TIMEOUT_S
from adsum.net.errors import BadPeer, Lost, NetError, PeerRefused, PeerUnreachable, TimedOut, TurnedAway
from adsum.net.framing import FrameWriter, hello
from adsum.net.gate import Gate, Security, connect
from adsum.net.introduction import Introduction, Peer, PeerIdentity, Purpose
from adsum.net.keyring import GossipKey
from adsum.net.listening import bind_tcp
from adsum.net.streams import StreamLimits, StreamServer, open_sync, ping
from adsum.net.syncs import Sync
from tests.net.support import KEY_A, KEY_B, KEY_C, Wire, reply, ring, serving
from tests.net.support import gate as make_gate

ROSTER = SyncMessage(7, tuple(SyncPart(bytes(500), b"verdict", 3) for _ in range(500)))


async def answer_in_kind(sync: Sync, asked: SyncMessage, _: Peer) -> None:
    await sync.send(asked)
    assert (await sync.receive(idle_s=5)).digest == 99


async def failure(work: Callable[[], object]) -> NetError:
    with pytest.raises(NetError) as caught:
        await work()  # type: ignore[misc]
    return caught.value


@pytest.mark.parametrize("keys", [(), (KEY_A,)], ids=["plain", "sealed"])
async def test_a_ping_tells_who_answered(keys: tuple[str, ...]) -> None:
    server = StreamServer(make_gate(ring(*keys), name=b"server", cluster_id="c1", epoch=2))
    async with serving(server) as address:
        identity = await ping(make_gate(ring(*keys)), address, timeout_s=5)
    assert identity == PeerIdentity(b"server----------", "c1", 2)
    assert server.counters.pings_answered == 1
    assert server.counters.open == 0


@pytest.mark.parametrize("keys", [(), (KEY_A,)], ids=["plain", "sealed"])
async def test_rosters_are_exchanged_in_three_turns(keys: tuple[str, ...]) -> None:
    server = StreamServer(make_gate(ring(*keys)), answer_sync=answer_in_kind)
    client = make_gate(ring(*keys), name=b"client")
    async with serving(server) as address, open_sync(client, address) as (sync, peer):
        assert peer.is_authenticated == bool(keys)
        await sync.send(ROSTER)
        assert await sync.receive(idle_s=5) == ROSTER
        await sync.send(SyncMessage(99))
        with pytest.raises(Lost):
            await sync.receive(idle_s=5)
    assert (server.counters.syncs_served, server.counters.syncs_failed) == (1, 0)


async def test_refused_is_told_apart_from_every_other_failure() -> None:
    listener = bind_tcp("127.0.0.1", 0)
    address = Address(*listener.socket.getsockname())
    await listener.aclose()
    mine = make_gate()
    assert type(await failure(lambda: ping(mine, address, timeout_s=5))) is PeerRefused
    unreachable = await failure(lambda: ping(mine, Address("255.255.255.255", 1), timeout_s=5))
    assert type(unreachable) is PeerUnreachable
    assert "255.255.255.255" not in str(unreachable)  # whoever reports it names the address
    assert type(await failure(lambda: ping(mine, Address("example.com", 1), timeout_s=5))) is PeerUnreachable
    assert mine.counters.dials_failed == {"PeerRefused": 1, "PeerUnreachable": 2}


async def test_a_paused_process_accepts_and_says_nothing_which_is_no_refusal() -> None:
    """The kernel completes the connection for it, as it does for one stopped by SIGSTOP."""
    listener = bind_tcp("127.0.0.1", 0)
    address = Address(*listener.socket.getsockname())
    error = await failure(lambda: ping(make_gate(), address, timeout_s=0.05))
    assert type(error) is TimedOut
    assert "accepted" in str(error)
    await listener.aclose()


async def test_a_peer_that_hangs_up_is_lost_and_not_refused() -> None:
    async def hang_up(stream: trio.SocketStream) -> None:
        await trio.aclose_forcefully(stream)

    listener = bind_tcp("127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, hang_up, [listener])
        address = Address(*listener.socket.getsockname())
        assert type(await failure(lambda: ping(make_gate(), address, timeout_s=5))) is Lost
        nursery.cancel_scope.cancel()


REFUSALS = [
    (make_gate(ring(KEY_A)), make_gate(ring(KEY_B)), "does not have our encryption key"),
    (make_gate(ring(KEY_A)), make_gate(ring()), "does not have our encryption key"),
    (make_gate(ring()), make_gate(ring(KEY_A)), "accepts only encrypted traffic"),
    (make_gate(label="dc1"), make_gate(label="dc2"), "another datacenter"),
    (make_gate(cluster_id="one"), make_gate(cluster_id="two"), "another cluster"),
    (make_gate(cluster_id="one", epoch=1), make_gate(cluster_id="one", epoch=2), "recovered at another time"),
]


@pytest.mark.parametrize(("client", "server", "reason"), REFUSALS, ids=[case[2] for case in REFUSALS])
async def test_those_who_do_not_belong_together_are_told_why(client: Gate, server: Gate, reason: str) -> None:
    async with serving(StreamServer(server)) as address:
        with pytest.raises(TurnedAway, match=reason):
            await ping(client, address, timeout_s=5)


@pytest.mark.parametrize(("mine", "theirs"), [("", "one"), ("one", ""), ("one", "one"), ("", "")])
async def test_a_cluster_id_that_is_not_known_yet_hinders_nobody(mine: str, theirs: str) -> None:
    async with serving(StreamServer(make_gate(cluster_id=theirs))) as address:
        assert (await ping(make_gate(cluster_id=mine), address, timeout_s=5)).cluster_id == theirs


async def test_streams_follow_consul_s_steps_to_encryption() -> None:
    plain = make_gate()
    first = make_gate(security=Security(ring(KEY_A), "dc1", verify_outgoing=False, verify_incoming=False))
    second = make_gate(security=Security(ring(KEY_A), "dc1", verify_outgoing=True, verify_incoming=False))
    third = make_gate(ring(KEY_A))
    for one, other in ((plain, first), (first, second), (second, third)):
        for client, server in ((one, other), (other, one)):
            async with serving(StreamServer(server)) as address:
                await ping(client, address, timeout_s=5)


async def test_a_removed_key_ends_the_streams_it_seals() -> None:
    keyring = ring(KEY_B, KEY_A)
    server = StreamServer(make_gate(keyring), answer_sync=answer_in_kind)
    async with serving(server) as address, open_sync(make_gate(ring(KEY_A)), address) as (sync, _):
        keyring.remove(KEY_A)
        await sync.send(SyncMessage(1))
        with pytest.raises(Lost):
            await sync.receive(idle_s=5)


async def test_what_is_not_offered_is_refused() -> None:
    async with serving(StreamServer(make_gate())) as address:
        for purpose in (Purpose.SYNC, Purpose.CALLS):
            with pytest.raises(TurnedAway, match="does not offer"):
                await make_gate().dial(address, purpose, payload_bytes_max=1_000)


async def test_one_host_cannot_hold_all_streams_and_leaving_makes_room() -> None:
    limits = StreamLimits(streams_per_host_max=2)
    server = StreamServer(make_gate(), answer_sync=answer_in_kind, limits=limits)
    async with serving(server) as address:
        async with open_sync(make_gate(), address), open_sync(make_gate(), address):
            with pytest.raises(TurnedAway, match="as many as it can"):
                await ping(make_gate(), address, timeout_s=5)
            assert (server.counters.turned_away, server.counters.open) == (1, 2)
        await until(lambda: server.counters.open == 0)
        await ping(make_gate(), address, timeout_s=5)


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(5):
        while not condition():
            await trio.lowlevel.checkpoint()


GARBAGE = [b"GET / HTTP/1.1\r\n\r\n", b"\x00", b"\x16\x03\x01", b"adsn", bytes(100)]


@pytest.mark.parametrize("garbage", GARBAGE)
async def test_garbage_is_closed_at_once_without_an_answer_and_logged_once_a_minute(
    garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    server_gate = make_gate(ring(KEY_A))
    async with serving(StreamServer(server_gate)) as address:
        for _ in range(20):
            stream = await connect(address)
            await stream.send_all(garbage)
            with trio.fail_after(5):
                assert await reply(stream) == b""
            await stream.aclose()
    assert server_gate.counters.welcomes_failed == {"Garbage": 20}
    assert [record.levelno for record in caplog.records if record.name == "net"] == [logging.WARNING]


async def test_a_future_format_is_answered_with_ours() -> None:
    async with serving(StreamServer(make_gate())) as address:
        stream = await connect(address)
        future = bytearray(hello("dc1", bytes(16)).encoded)
        future[4] = framing.FORMAT_VERSION + 1
        await stream.send_all(future)
        answer = framing.parse_hello(await reply(stream))
        assert (answer.version, answer.answer) == (2, framing.HandshakeAnswer.OTHER_VERSION)
        await stream.aclose()


NODE = bytes(16)
BAD_INTRODUCTIONS = {
    "none": b"",
    "no array": cbor2.dumps("hello"),
    "short id": cbor2.dumps([0, 1, 1, b"short", "", 0, 1]),
    "versions upside down": cbor2.dumps([0, 2, 1, NODE, "", 0, 1]),
    "endless cluster id": cbor2.dumps([0, 1, 1, NODE, "x" * 65, 0, 1]),
    "negative epoch": cbor2.dumps([0, 1, 1, NODE, "", -1, 1]),
    "too long": cbor2.dumps([0, 1, 1, NODE, "", 0, 1, bytes(introduction.VERSION_MAX * 2_000)]),
}


@pytest.mark.parametrize("payload", BAD_INTRODUCTIONS.values(), ids=BAD_INTRODUCTIONS.keys())
async def test_an_introduction_that_makes_no_sense_ends_the_stream(payload: bytes) -> None:
    server_gate = make_gate()
    async with serving(StreamServer(server_gate)) as address, await connect(address) as stream:
        client = Wire(stream, None)
        await client.greet()
        await client.say(payload)
        assert await client.heard() is None
    assert sum(server_gate.counters.welcomes_failed.values()) == 1


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ([0, 2, 9, NODE, "", 0, 1], introduction.WelcomeRefusal.OTHER_VERSION),
        ([0, 1, 9, NODE, "", 0, 77], introduction.WelcomeRefusal.NOT_SERVED),
    ],
    ids=["future version", "future purpose"],
)
async def test_later_versions_are_refused_with_a_reason(fields: list[object], refusal: object) -> None:
    async with serving(StreamServer(make_gate())) as address, await connect(address) as stream:
        client = Wire(stream, None)
        await client.greet()
        await client.say(cbor2.dumps(fields))
        heard = await client.heard()
        assert heard is not None
        assert introduction.decode(heard) is refusal


async def test_a_replayed_stream_gets_no_further_than_the_hello() -> None:
    recorded = bytearray()
    server_gate = make_gate(ring(KEY_A))
    async with serving(StreamServer(server_gate)) as address:
        async with await connect(address) as stream:
            client = Wire(stream, GossipKey.from_text(KEY_A))
            await client.greet()
            recorded += hello("dc1", b"n" * 16, hint=GossipKey.from_text(KEY_A).hint).encoded
            frame = client.writer.pack(introduction.encode(Introduction(PeerIdentity(NODE), Purpose.PING)))
            recorded += frame
            await stream.send_all(frame)
            assert await client.heard()
        async with await connect(address) as stream:
            await stream.send_all(recorded)
            assert len(await reply(stream)) == framing.HELLO_BYTES
            assert await reply(stream) == b""
    assert server_gate.counters.welcomes_failed == {"Forged": 1}


async def test_a_downgrade_in_the_middle_is_noticed() -> None:
    """Someone between us answers our sealed hello with one in plaintext."""

    async def strip(stream: trio.SocketStream) -> None:
        await reply(stream)
        await stream.send_all(hello("dc1", bytes(16)).encoded)
        await stream.receive_some(1)

    listener = bind_tcp("127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, strip, [listener])
        with pytest.raises(BadPeer, match="did not ask"):
            await ping(make_gate(ring(KEY_A)), Address(*listener.socket.getsockname()), timeout_s=5)
        nursery.cancel_scope.cancel()


async def test_a_server_of_another_cluster_that_lets_everyone_in_is_left() -> None:
    async def let_in(stream: trio.SocketStream) -> None:
        greeting = framing.parse_hello((await reply(stream))[: framing.HELLO_BYTES])
        mine = hello("dc1", bytes(16))
        writer = FrameWriter(
            framing.directions(None, "dc1", greeting, mine).from_server, payload_bytes_max=1_000
        )
        introduced = introduction.encode(Introduction(PeerIdentity(NODE, "two"), Purpose.PING))
        await stream.send_all(mine.encoded + writer.pack(introduced))
        await reply(stream)

    listener = bind_tcp("127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, let_in, [listener])
        address = Address(*listener.socket.getsockname())
        assert (await ping(make_gate(), address, timeout_s=5)).cluster_id == "two"
        with pytest.raises(TurnedAway, match="another cluster"):
            await ping(make_gate(cluster_id="one"), address, timeout_s=5)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("said", "cut_off_s"),
    [(b"ads", 1.0), (hello("dc1", bytes(16)).encoded, 4.0)],
    ids=["hello", "introduction"],
)
def test_slow_strangers_are_cut_off(said: bytes, cut_off_s: float) -> None:
    async def main() -> None:
        server_gate = make_gate()
        async with serving(StreamServer(server_gate)) as address:
            stream = await connect(address)
            await stream.send_all(said)
            began_s = trio.current_time()
            while await reply(stream):
                pass
            assert trio.current_time() - began_s == pytest.approx(cut_off_s)
            await stream.aclose()
        assert server_gate.counters.welcomes_failed == {"TimedOut": 1}

    trio.run(main, clock=MockClock(autojump_threshold=0.02))


async def trickle(stream: trio.SocketStream) -> None:
    while True:
        await stream.send_all(b"x")
        await trio.sleep(1)


def test_a_frame_that_trickles_is_cut_off_however_often_a_byte_comes() -> None:
    async def main() -> None:
        server = StreamServer(make_gate(), answer_sync=answer_in_kind)
        async with serving(server) as address, await connect(address) as stream:
            client = Wire(stream, None)
            await client.greet()
            await client.say(introduction.encode(Introduction(PeerIdentity(NODE), Purpose.SYNC)))
            assert await client.heard()
            await stream.send_all((1_000).to_bytes(4))
            sent_s = trio.current_time()
            with pytest.raises(trio.BrokenResourceError):
                await trickle(stream)
            assert trio.current_time() - sent_s < FRAME_TIMEOUT_S + 3
        assert server.counters.syncs_failed == 1

    trio.run(main, clock=MockClock(autojump_threshold=0.02))


def test_a_peer_that_does_not_read_is_cut_off() -> None:
    async def main() -> None:
        cut_off = trio.Event()

        async def pour(sync: Sync, _asked: SyncMessage, _: Peer) -> None:
            try:
                while True:
                    await sync.send(ROSTER)
            except TimedOut:
                cut_off.set()
                raise

        server = StreamServer(make_gate(), answer_sync=pour)
        async with serving(server) as address, open_sync(make_gate(), address) as (sync, _):
            await sync.send(SyncMessage(1))
            await cut_off.wait()
            await wait_all_tasks_blocked()
            assert (server.counters.syncs_failed, server.counters.open) == (1, 0)

    trio.run(main, clock=MockClock(autojump_threshold=0.02))


def test_the_gate_s_reasons_are_complete() -> None:
    assert (
        set(framing.REASONS)
        == set(gate._UNWELCOME)
        == set(framing.HandshakeAnswer) - {framing.HandshakeAnswer.YES}
    )
    assert set(introduction.REASONS) == set(introduction.WelcomeRefusal)


async def test_a_peer_that_removed_our_primary_key_is_reached_with_another_of_ours() -> None:
    client = make_gate(ring(KEY_A, KEY_B), name=b"client")
    async with serving(StreamServer(make_gate(ring(KEY_B), name=b"server"))) as address:
        identity = await ping(client, address, timeout_s=5)
        assert identity == PeerIdentity(b"server----------")
        with trio.fail_after(5):
            await client.primary_refused()
    assert (client.counters.dialled, client.counters.dials_failed) == (1, {})


async def test_a_peer_that_holds_our_primary_key_gives_no_hint_to_change_it() -> None:
    client = make_gate(ring(KEY_A, KEY_B), name=b"client")
    async with serving(StreamServer(make_gate(ring(KEY_B, KEY_A), name=b"server"))) as address:
        await ping(client, address, timeout_s=5)
    with trio.move_on_after(0):
        await client.primary_refused()
        raise AssertionError("it was let in with its primary")


async def test_a_peer_that_has_none_of_our_keys_is_told_with_what_to_do_and_gives_no_hint() -> None:
    client = make_gate(ring(KEY_A, KEY_B), name=b"client")
    async with serving(StreamServer(make_gate(ring(KEY_C), name=b"server"))) as address:
        error = await failure(lambda: ping(client, address, timeout_s=5))
    assert "without the file keyring" in str(error)
    assert "encrypt" in str(error)
    with trio.move_on_after(0):
        await client.primary_refused()
        raise AssertionError("nobody proved to hold a key of ours")
