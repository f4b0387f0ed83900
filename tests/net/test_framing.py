from __future__ import annotations

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.net.errors import BadPeer
from adsum.net.framing import (
    Directions,
    Forged,
    FrameReader,
    FrameWriter,
    Garbage,
    Hello,
    MalformedFrame,
    Oversized,
    array,
    check_magic,
    directions,
    hello,
    parse_hello,
)
from adsum.net.keyring import GossipKey
from tests.net.support import KEY_A

MAX = 1_000
CLIENT = hello("dc1", b"c" * 16)
SERVER = hello("dc1", b"s" * 16)
PLAIN, SEALED = None, GossipKey.from_text(KEY_A)
KEYS = st.sampled_from([PLAIN, SEALED])
PAYLOADS = st.lists(st.binary(max_size=MAX), min_size=1, max_size=8)


def sides(key: GossipKey | None) -> Directions:
    return directions(key, "dc1", CLIENT, SERVER)


def packed(key: GossipKey | None, payloads: list[bytes]) -> list[bytes]:
    writer = FrameWriter(sides(key).from_client, payload_bytes_max=MAX)
    return [writer.pack(payload) for payload in payloads]


def read(key: GossipKey | None, *pieces: bytes) -> list[bytes]:
    reader = FrameReader(sides(key).from_client, payload_bytes_max=MAX)
    payloads = []
    for piece in pieces:
        reader.feed(piece)
        while (payload := reader.next()) is not None:
            payloads.append(payload)
    return payloads


@given(key=KEYS, payloads=PAYLOADS, size=st.integers(1, 3_000))
def test_frames_come_out_as_they_went_in_whatever_the_pieces(
    key: GossipKey | None, payloads: list[bytes], size: int
) -> None:
    data = b"".join(packed(key, payloads))
    assert read(key, *(data[at : at + size] for at in range(0, len(data), size))) == payloads


@given(key=KEYS, payloads=PAYLOADS, position=st.integers(0, 1 << 20))
def test_no_flipped_bit_is_accepted(key: GossipKey | None, payloads: list[bytes], position: int) -> None:
    data = bytearray(b"".join(packed(key, payloads)))
    position %= len(data) * 8
    data[position // 8] ^= 1 << position % 8
    try:
        got = read(key, bytes(data))
    except BadPeer:
        return
    # The flip made the frame longer than what came: it and all after it are still waited for.
    assert got == payloads[: len(got)]
    assert len(got) < len(payloads)


@given(key=KEYS, payloads=PAYLOADS, data=st.data())
def test_no_cut_frame_is_accepted(key: GossipKey | None, payloads: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(packed(key, payloads))
    got = read(key, whole[: data.draw(st.integers(0, len(whole) - 1))])
    assert got == payloads[: len(got)]
    assert len(got) < len(payloads)


@pytest.mark.parametrize("order", [(1, 0), (0, 0), (1,)], ids=["moved", "repeated", "left out"])
@pytest.mark.parametrize("key", [PLAIN, SEALED], ids=["plain", "sealed"])
def test_frames_that_are_not_in_their_place_do_not_open(
    key: GossipKey | None, order: tuple[int, ...]
) -> None:
    frames = packed(key, [b"one", b"two"])
    with pytest.raises(Forged):
        read(key, *(frames[number] for number in order))


def test_a_frame_sent_back_to_its_sender_does_not_open() -> None:
    reader = FrameReader(sides(SEALED).from_server, payload_bytes_max=MAX)
    reader.feed(packed(SEALED, [b"mine"])[0])
    with pytest.raises(Forged):
        reader.next()


@pytest.mark.parametrize(
    ("label", "client", "server"),
    [
        ("dc2", CLIENT, SERVER),
        ("dc1", CLIENT, hello("dc1", b"t" * 16)),
        ("dc1", hello("dc1", b"d" * 16), SERVER),
    ],
    ids=["another label", "another server nonce", "another client nonce"],
)
def test_a_recording_does_not_open_in_another_stream(label: str, client: Hello, server: Hello) -> None:
    frame = packed(SEALED, [b"recorded"])[0]
    other = directions(SEALED, label, client, server).from_client
    reader = FrameReader(other, payload_bytes_max=MAX)
    reader.feed(frame)
    with pytest.raises(Forged):
        reader.next()


@pytest.mark.parametrize("key", [PLAIN, SEALED], ids=["plain", "sealed"])
@pytest.mark.parametrize("length", [0, 3, MAX + 17, 2**32 - 1])
def test_a_length_out_of_bounds_is_refused_before_anything_is_kept(
    key: GossipKey | None, length: int
) -> None:
    with pytest.raises(Oversized):
        read(key, length.to_bytes(4))


def test_a_frame_of_exactly_the_limit_is_let_in() -> None:
    assert read(SEALED, *packed(SEALED, [bytes(MAX)])) == [bytes(MAX)]


@given(st.binary(min_size=1, max_size=40))
def test_only_our_greeting_is_waited_for(noise: bytes) -> None:
    if not (noise.startswith(b"adsm") or b"adsm".startswith(noise)):
        with pytest.raises(Garbage):
            check_magic(noise)


def test_a_hello_says_what_it_was_given() -> None:
    given_hello = hello("dc1", b"n" * 16, hint=b"hh")
    assert parse_hello(given_hello.encoded) == given_hello
    assert (given_hello.hint, given_hello.nonce) == (b"hh", b"n" * 16)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff",
        cbor2.dumps("text"),
        cbor2.dumps({"a": 1}),
        cbor2.dumps([[[[[1]]]]]),
        b"\x9f\x01\xff",
        b"\x9a\xff\xff\xff\xff",
        b"\x5b\x00\xff\xff\xff\xff\xff\xff\xff",
        cbor2.dumps([cbor2.CBORTag(2, b"\x01")]),
    ],
    ids=["none", "break", "text", "map", "deep", "indefinite", "long array", "long bytes", "tag"],
)
def test_payloads_that_are_no_plain_array_are_malformed(payload: bytes) -> None:
    with pytest.raises(MalformedFrame):
        array(payload)


def test_a_stream_that_is_over_holds_nothing_however_long_it_is_referred_to() -> None:
    reader = FrameReader(sides(SEALED).from_server, payload_bytes_max=MAX)
    reader.feed((MAX).to_bytes(4) + bytes(MAX // 2))
    assert reader.waiting_bytes == 4 + MAX // 2
    reader.clear()
    assert reader.waiting_bytes == 0
