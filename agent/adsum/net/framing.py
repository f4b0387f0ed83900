"""Frames on a stream: a hello from each side in clear, then frames, sealed when there is a key.

    hello   "adsm" · format version (1) · answer (1) · hint of the key (2) · check of label (4) · nonce (16)
    frame   length of what follows (4) · payload · tag

Both hellos, with the label, go into the derivation of two keys, one for each direction. So a recording does
not open in another stream, and a frame sent back to its sender does not open either. The nonce of a frame is
its number, which does not travel: a frame that was left out, doubled or moved does not open. Without a key a
CRC, begun with the frame's number, stands where the tag would: it finds damage and protects from nobody.

An end of the stream between two frames proves nothing; whoever needs to know that all has come says so in a
frame.

Payloads are CBOR arrays, decoded as strictly as gossip's. This module does no I/O.
"""

from __future__ import annotations

import enum
import struct
import zlib
from typing import Protocol, TypeVar

from adsum.cbor import BadEncoding, strict_loads
from adsum.named import NamedTuple
from adsum.net.ciphers import NONCE_BYTES, TAG_BYTES, ciphers, derive
from adsum.net.errors import BadPeer, TurnedAway
from adsum.net.keyring import HINT_BYTES, GossipKey

MAGIC = b"adsm"
FORMAT_VERSION = 2  # with that of datagrams: agents that cannot gossip need not talk either
NO_HINT = bytes(HINT_BYTES)
HELLO_NONCE_BYTES = 16
LENGTH_BYTES = 4
CRC_BYTES = 4
_HELLO = struct.Struct(f">4sBB{HINT_BYTES}s4s{HELLO_NONCE_BYTES}s")
HELLO_BYTES = _HELLO.size
Read = TypeVar("Read", covariant=True)


class Garbage(BadPeer):
    """Not a stream of ours at all."""


class Forged(BadPeer):
    """A frame that is damaged, repeated, moved, or sealed with another key."""


class Oversized(BadPeer):
    """A frame longer than is allowed here."""


class MalformedFrame(BadPeer):
    """A frame that opens and makes no sense."""


class HandshakeAnswer(enum.IntEnum):
    """A client says YES; a server YES, or why not."""

    YES = 0
    UNKNOWN_KEY = 1
    KEY_NEEDED = 2
    OTHER_LABEL = 3
    OTHER_VERSION = 4


REASONS: dict[int, str] = {
    HandshakeAnswer.UNKNOWN_KEY: "it does not have our encryption key; whoever of the two missed a change of "
    "keys must start without the file keyring in its data folder, and with encrypt set to the key in use",
    HandshakeAnswer.KEY_NEEDED: "it accepts only encrypted traffic, and we sent plaintext",
    HandshakeAnswer.OTHER_LABEL: "it belongs to another datacenter",
    HandshakeAnswer.OTHER_VERSION: "it speaks another version of the stream format",
}


class Hello(NamedTuple):
    version: int
    answer: int
    hint: bytes  # zeros for plaintext
    label_check: bytes
    nonce: bytes
    encoded: bytes


def hello(
    label: str, nonce: bytes, *, hint: bytes = NO_HINT, answer: HandshakeAnswer = HandshakeAnswer.YES
) -> Hello:
    return parse_hello(_HELLO.pack(MAGIC, FORMAT_VERSION, answer, hint, label_check(label), nonce))


def parse_hello(encoded: bytes) -> Hello:
    """Of any version: later ones keep these fields, so that a refusal can be told."""
    check_magic(encoded)
    _magic, version, answer, hint, check, nonce = _HELLO.unpack(encoded)
    return Hello(version, answer, hint, check, nonce, encoded)


def turned_away(given: Hello) -> TurnedAway:
    return TurnedAway(REASONS.get(given.answer, "it gave no reason we know"))


def check_magic(received: bytes) -> None:
    """As soon as the first byte is there: whoever speaks something else is not waited for."""
    if received[: len(MAGIC)] != MAGIC[: len(received)]:
        raise Garbage("it does not speak our protocol")


def label_check(label: str) -> bytes:
    return zlib.crc32(label.encode()).to_bytes(4)


class PlainFrames:
    """One direction of one stream, as `SealedFrames`. `open` raises Forged."""

    __slots__ = ("_number",)
    overhead_bytes = CRC_BYTES

    def __init__(self) -> None:
        self._number = 0

    def seal(self, head: bytes, payload: bytes) -> bytes:
        return payload + self._next_sum(head, payload)

    def open(self, head: bytes, sealed: bytes) -> bytes:
        payload, given = sealed[:-CRC_BYTES], sealed[-CRC_BYTES:]
        if given != self._next_sum(head, payload):
            raise Forged("a damaged frame")
        return payload

    def _next_sum(self, head: bytes, payload: bytes) -> bytes:
        number, self._number = self._number, self._number + 1
        return zlib.crc32(payload, zlib.crc32(head, number & 0xFFFFFFFF)).to_bytes(CRC_BYTES)


class SealedFrames:
    """One direction of one stream. A stream ends long before 2^64 frames do."""

    __slots__ = ("_bad_tag", "_cipher", "_number")
    overhead_bytes = TAG_BYTES

    def __init__(self, key: bytes) -> None:
        self._bad_tag = ciphers().bad_tag
        self._cipher = ciphers().aes_gcm(key)
        self._number = 0

    def seal(self, head: bytes, payload: bytes) -> bytes:
        return self._cipher.encrypt(self._next_nonce(), payload, head)

    def open(self, head: bytes, sealed: bytes) -> bytes:
        try:
            return self._cipher.decrypt(self._next_nonce(), sealed, head)
        except self._bad_tag as error:
            raise Forged("a frame that was not sealed with our key, or not for this place") from error

    def _next_nonce(self) -> bytes:
        number, self._number = self._number, self._number + 1
        return number.to_bytes(NONCE_BYTES)


FrameSeal = PlainFrames | SealedFrames


class Directions(NamedTuple):
    from_client: FrameSeal
    from_server: FrameSeal


def directions(key: GossipKey | None, label: str, client: Hello, server: Hello) -> Directions:
    if key is None:
        return Directions(PlainFrames(), PlainFrames())
    salt, seals = client.encoded + server.encoded, []
    for side in (b"c", b"s"):
        info = b"adsum stream " + side + label.encode()
        seals.append(SealedFrames(derive(key.secret, salt=salt, info=info, length=len(key.secret))))
    return Directions(*seals)


class FrameWriter:
    __slots__ = ("_seal", "payload_bytes_max")

    def __init__(self, seal: FrameSeal, *, payload_bytes_max: int) -> None:
        self._seal = seal
        self.payload_bytes_max = payload_bytes_max

    def pack(self, payload: bytes) -> bytes:
        assert len(payload) <= self.payload_bytes_max, "whoever makes payloads keeps them within the limit"
        head = (len(payload) + self._seal.overhead_bytes).to_bytes(LENGTH_BYTES)
        return head + self._seal.seal(head, payload)


class FrameReader:
    """Fed with what arrives, in pieces of any size. After it has raised once the stream is over."""

    __slots__ = ("_received", "_seal", "payload_bytes_max")

    def __init__(self, seal: FrameSeal, *, payload_bytes_max: int) -> None:
        self._seal = seal
        self._received = bytearray()
        self.payload_bytes_max = payload_bytes_max

    @property
    def waiting_bytes(self) -> int:
        return len(self._received)

    def feed(self, data: bytes | bytearray) -> None:
        self._received += data

    def clear(self) -> None:
        """When the stream is over; whoever still refers to this, such as a traceback, holds no bytes then."""
        self._received.clear()

    def next(self) -> bytes | None:
        """The payload of the next whole frame; None when more must come first."""
        received = self._received
        if len(received) < LENGTH_BYTES:
            return None
        head = bytes(received[:LENGTH_BYTES])
        length = int.from_bytes(head)
        if not 0 <= length - self._seal.overhead_bytes <= self.payload_bytes_max:
            raise Oversized(f"a frame of {length} bytes")
        end = LENGTH_BYTES + length
        if len(received) < end:
            return None
        sealed = bytes(received[LENGTH_BYTES:end])
        del received[:end]
        return self._seal.open(head, sealed)


class ReadsRows(Protocol[Read]):
    def decode(self, row: list[object], /) -> Read: ...


def read(table: ReadsRows[Read], payload: bytes) -> Read:
    """What a payload says; raises `MalformedFrame`."""
    try:
        return table.decode(array(payload))
    except BadEncoding as error:
        raise MalformedFrame(str(error)) from error


def array(payload: bytes) -> list[object]:
    try:
        fields = strict_loads(payload)
    except BadEncoding as error:
        raise MalformedFrame("a frame that is not the CBOR we speak") from error
    if not isinstance(fields, list):
        raise MalformedFrame("a frame that is no array")
    return fields
