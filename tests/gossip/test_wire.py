from __future__ import annotations

from contextlib import suppress

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.gossip import wire
from adsum.gossip.wire import MalformedPacket, Packet, PacketKind, PlainSeal

PLAIN = [0, 7, b"12345678", 0, 0, 3, b"", b"", [], b"", []]


def test_a_ping_is_these_bytes() -> None:
    body = wire.encode(wire.Packet(PacketKind.PING, sequence=300, about=b"12345678", beat=5))
    assert body.hex(" ") == "8b 00 19 01 2c 48 31 32 33 34 35 36 37 38 00 00 05 40 40 80 40 80"


@given(
    st.integers(0, wire.U32 - 1),
    st.lists(st.binary(max_size=300), max_size=30),
    st.binary(max_size=64),
    st.integers(0, 90),
    st.binary(min_size=1, max_size=255),
    st.integers(1, 64),
)
def test_a_packet_comes_back_as_it_was_made(
    sequence: int, claims: list[bytes], coordinate: bytes, beats: int, ages: bytes, marks: int
) -> None:
    body = wire.encode(
        wire.Packet(
            PacketKind.ACK,
            sequence=sequence,
            claims=claims,
            coordinate=coordinate,
            beats=bytes(14 * beats),
            carried=claims,
            ages=ages,
            have=bytes(4 * marks),
            want=b"mark",
        )
    )
    told = [coordinate, claims, bytes(14 * beats), claims, ages, bytes(4 * marks), b"mark"]
    expected = [1, sequence, b"", 0, 0, 0, b"", *told]
    assert cbor2.loads(body) == expected
    assert wire.decode(body) == Packet._make(expected)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_packet_or_malformed(body: bytes) -> None:
    with suppress(MalformedPacket):
        wire.decode(body)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *((0, -1), (0, 256), (0, "ping"), (0, True), (1, wire.U32), (1, 1.5), (2, b"123"), (2, "12345678")),
        *(
            (3, 1 << 53),
            (4, 256),
            (5, wire.U32),
            (6, bytes(17)),
            (7, bytes(65)),
            (8, b""),
            (8, [1]),
            (8, ["a"]),
        ),
        *((8, [b""] * 256), (9, bytes(13)), (9, []), (10, None), (10, [[]]), (11, bytes(256)), (11, [7])),
        *((12, b"odd"), (12, bytes(260)), (12, 1), (13, b"odd"), (13, bytes(260)), (13, "mark")),
    ],
)
def test_a_packet_with_one_wrong_field_is_malformed(place: int, value: object) -> None:
    fields = [*PLAIN, b"\x07", b"mark", b"mark"]
    assert wire.decode(cbor2.dumps(fields))
    fields[place] = value
    with pytest.raises(MalformedPacket):
        wire.decode(cbor2.dumps(fields))


@pytest.mark.parametrize("body", [b"", b"\x00", cbor2.dumps(PLAIN[:-1]), cbor2.dumps({}), b"\xd8\x23\x61a"])
def test_what_is_no_packet_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedPacket):
        wire.decode(body)


def test_fields_of_a_later_version_are_ignored() -> None:
    marked = [*PLAIN, b"\x07", b"mark", b""]
    assert wire.decode(cbor2.dumps([*marked, "new"])) == wire.decode(cbor2.dumps(marked))


def test_a_packet_that_tells_no_ages_is_shorter_by_their_field() -> None:
    assert wire.decode(cbor2.dumps(PLAIN)).ages == b""
    assert (
        len(wire.encode(wire.Packet(PacketKind.GOSSIP, ages=b"\x07")))
        == len(wire.encode(wire.Packet(PacketKind.GOSSIP))) + 2
    )


def test_an_agent_that_knows_no_marks_reads_what_comes_before_them() -> None:
    body = wire.encode(wire.Packet(PacketKind.GOSSIP, carried=[b"delta"], have=b"mark"))
    assert cbor2.loads(body) == [4, 0, b"", 0, 0, 0, b"", b"", [], b"", [b"delta"], b"", b"mark", b""]


def test_the_header_names_sender_and_generation_in_the_clear() -> None:
    header = wire.header(b"12345678", 0x0102)
    assert header.hex(" ") == "02 31 32 33 34 35 36 37 38 00 00 00 00 00 00 01 02 00"
    assert wire.parse_header(header) == (b"12345678", 0x0102)


def test_a_header_of_another_format_or_cut_short_is_malformed() -> None:
    header = wire.header(b"12345678", 1)
    with pytest.raises(MalformedPacket, match="version"):
        wire.parse_header(b"\x01" + header[1:])
    with pytest.raises(MalformedPacket, match="truncated"):
        wire.parse_header(header[:-1])


def test_without_a_key_damage_and_foreign_labels_are_found() -> None:
    header, body = wire.header(b"12345678", 1), b"body"
    sealed = PlainSeal("dc1").seal(header, body)
    assert PlainSeal("dc1").open(header, sealed) == body
    assert PlainSeal("dc2").open(header, sealed) is None
    assert PlainSeal("dc1").open(header, sealed[:-1] + b"?") is None
    assert PlainSeal("dc1").open(header[:-1] + b"?", sealed) is None
