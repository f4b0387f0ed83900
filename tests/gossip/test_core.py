"""What comes from outside: understood, or counted and forgotten."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from adsum.address import Address
from adsum.gossip import claims, wire
from adsum.gossip.commands import Carry, Describe, FireEvent, SetRoot
from adsum.gossip.effects import CarriedHeard, EventHeard, GossipRefused, MemberChanged, RootHeard, Send
from adsum.gossip.wire import PacketKind
from adsum.now import SECOND
from tests.gossip.support import GENERATION, Stage, alive, dead, of, opened, profile, sent, short

ELSEWHERE = Address("192.0.2.1", 4_444)


@settings(max_examples=300)
@given(st.binary(max_size=400))
def test_no_datagram_is_an_exception(garbage: bytes) -> None:
    stage = Stage("a")
    stage.receive(ELSEWHERE, garbage)
    stage.receive(ELSEWHERE, wire.header(short("a"), GENERATION) + garbage)
    assert sum(stage.core.tally.dropped.values()) >= 1


@settings(max_examples=300)
@given(st.data())
def test_no_damaged_datagram_is_an_exception(data: st.DataObject) -> None:
    stage = Stage("a", "b")
    body = wire.encode(
        wire.Packet(
            PacketKind.PING, sequence=7, about=short("me"), claims=[dead("a", "b").encoded], beats=bytes(14)
        )
    )
    message = bytearray(wire.header(short("b"), GENERATION) + body)
    for _ in range(data.draw(st.integers(1, 4))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    stage.receive(profile("b").address, bytes(message[: data.draw(st.integers(0, len(message)))]))


def test_what_is_dropped_is_counted_by_its_reason() -> None:
    stage = Stage("a")
    good = wire.header(short("a"), GENERATION) + wire.encode(wire.Packet(PacketKind.GOSSIP))
    for message in (
        *(b"", good[:10], b"\x63" + good[1:], good[:-2], good[:18] + b"\x80"),
        wire.header(short("me"), GENERATION) + wire.encode(wire.Packet(PacketKind.GOSSIP)),
        good[:19] + b"\x17" + good[20:],
        wire.header(short("a"), GENERATION) + wire.encode(wire.Packet(PacketKind.GOSSIP, claims=[b"junk"])),
    ):
        assert stage.receive(profile("a").address, message) == []
    assert stage.core.tally.dropped == {
        "malformed truncated": 2,
        "malformed version": 1,
        "malformed cbor": 1,
        "malformed fields": 1,
        "my own": 1,
        "kind of a later version": 1,
        "bad claim": 1,
    }


def test_a_ping_is_acked_with_my_coordinate_and_counted() -> None:
    stage = Stage("a")
    (ack,) = sent(stage.packet("a", PacketKind.PING, sequence=9, about=short("me")), PacketKind.ACK, to="a")
    assert (ack.sequence, len(ack.coordinate)) == (9, 44)
    assert stage.core.tally.packets_in[PacketKind.PING] == 1
    assert stage.core.tally.bytes_out[PacketKind.ACK] > 60


def test_a_ping_for_who_had_my_address_before_is_not_answered() -> None:
    stage = Stage("a")
    assert stage.packet("a", PacketKind.PING, sequence=9, about=short("zz")) == []
    assert stage.core.tally.dropped == {"ping for another": 1}


def test_a_strangers_ping_is_answered_with_no_more_bytes_than_it_had() -> None:
    stage = Stage("a")
    stage.command(Carry("key", b"x" * 500))
    for source in (ELSEWHERE, profile("a").address):
        ping = wire.header(short("zz"), GENERATION) + wire.encode(
            wire.Packet(PacketKind.PING, sequence=9, about=short("me"))
        )
        (answer,) = of(stage.receive(source, ping), Send)
        assert answer.to == source
        assert len(answer.message) <= len(ping)


def test_with_a_key_unsealed_news_changes_nothing_and_unsealed_pings_get_a_bare_answer() -> None:
    stage = Stage("a", "b")
    news = [dead("a", "b").encoded, alive("x").encoded]
    assert stage.packet("b", PacketKind.GOSSIP, is_authentic=False, claims=news) == []
    effects = stage.packet(
        "b", PacketKind.PING, is_authentic=False, sequence=9, about=short("me"), claims=news
    )
    ((_header, answer),) = [opened(send) for send in of(effects, Send)]
    assert (answer.kind, answer.coordinate, answer.claims, answer.beats) == (PacketKind.ACK, b"", [], b"")
    assert of(stage.effects, MemberChanged) == []
    assert stage.core.tally.dropped == {"not authentic": 1}


def test_ten_thousand_members_announced_by_one_storm_cost_bounded_memory() -> None:
    stage = Stage("b")
    for number in range(10_000):
        stage.tell("b", alive(f"n{number}"), dead(f"m{number}", "b"))
    shared = stage.core._shared
    assert len(shared.roster) <= 1_100
    assert len(shared.roster.verdicts) <= 4_096
    assert len(shared.claims) <= claims.REMEMBERED_MAX
    assert shared.tally.dropped["introductions"] > 8_900


def test_datagrams_stay_within_their_size_whatever_waits_to_be_told() -> None:
    names = [f"n{number}" for number in range(200)]
    stage = Stage(*names)
    for number, name in enumerate(names):
        stage.tell(name, claims.alive(profile(name, meta=bytes(200)), GENERATION, 1))
        stage.command(Carry(number, bytes(100 + 4 * number)))
        stage.command(FireEvent("deploy", bytes(2 * number)))
    sizes = [len(send.message) for send in of(stage.run_for(20 * SECOND), Send)]
    assert max(sizes) <= stage.core._shared.settings.datagram_bytes_max
    assert max(sizes) > 1_200


def test_carried_bytes_reach_a_peer_as_they_were_given() -> None:
    stage, peer = Stage("a"), Stage("me", "a")
    stage.command(Carry("key", b"old"))
    stage.command(Carry("key", b"opaque"))
    send = of(stage.run_for(SECOND), Send)[0]
    heard = of(peer.receive(profile("a").address, b"\x02" + short("a") + send.message[9:]), CarriedHeard)
    assert heard == [CarriedHeard(short("a"), (b"opaque",))]


def test_a_root_that_differs_is_told_and_an_equal_one_is_not() -> None:
    stage = Stage("a")
    stage.command(SetRoot(b"12345678"))
    assert of(stage.packet("a", PacketKind.ACK, root=b"12345678"), RootHeard) == []
    assert of(stage.packet("a", PacketKind.ACK, root=b"87654321"), RootHeard) == [
        RootHeard(short("a"), b"87654321")
    ]
    (ack,) = sent(stage.packet("a", PacketKind.PING, about=short("me")), PacketKind.ACK)
    assert ack.root == b"12345678"


def test_an_event_is_heard_once_here_and_once_there() -> None:
    stage, peer = Stage("a"), Stage("b")
    (mine,) = of(stage.command(FireEvent("deploy", b"v2")), EventHeard)
    assert (mine.event.name, mine.event.payload) == ("deploy", b"v2")
    assert of(peer.tell("b", mine.event), EventHeard) == [mine]
    assert of(peer.tell("b", mine.event), EventHeard) == []


def test_what_is_too_big_is_refused_with_a_sentence_and_changes_nothing() -> None:
    stage = Stage("a")
    for command in (FireEvent("e", bytes(600)), Carry("k", bytes(1_025)), Describe(bytes(257))):
        (refused,) = stage.command(command)
        assert isinstance(refused, GossipRefused)
    assert not stage.core._shared.broadcasts


def test_describing_myself_is_a_new_incarnation_for_everybody() -> None:
    stage, peer = Stage("a"), Stage("b")
    stage.command(Describe(b"rack 4"))
    peer.tell("b", claims.alive(profile("a"), GENERATION, 0))
    assert stage.core._shared.me.alive.standing.incarnation == 1
    assert stage.core._shared.me.alive.profile.meta == b"rack 4"


def test_equal_seeds_give_equal_effects() -> None:
    def story(seed: int) -> list[object]:
        stage, random = Stage(*"abcdefgh", seed=seed), Random(1)
        for _ in range(50):
            stage.run_for(SECOND // 3)
            name = random.choice("abcdefgh")
            stage.tell(name, claims.alive(profile(name), GENERATION, random.randrange(9)))
        return list(stage.effects)

    assert story(1) == story(1)
    assert story(1) != story(2)


def test_counters_of_life_go_to_three_members_a_second_however_much_there_is_to_tell() -> None:
    stage = Stage("a", "b", "c")
    stage.stop_probing()
    told, with_counters = 0, 0
    for number in range(50):
        stage.packet("a", PacketKind.GOSSIP, beat=number)
        stage.command(Carry(number, b"news"))
        datagrams = sent(stage.run_for(SECOND // 10), PacketKind.GOSSIP)
        told += len(datagrams)
        with_counters += sum(packet.beats != b"" for packet in datagrams)
    assert told > 100
    assert with_counters == 5 * 3
