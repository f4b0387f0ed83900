"""Datagrams: a clear header, and a body that the rim seals when there is a key.

    header  format version (1 byte) · sender's short id (8) · its generation (8) · flags (1)
    body    one CBOR array of positional fields, in this order: see `Packet`

What a datagram carries besides its message (claims, counters of life, opaque bytes of the catalog) is
spliced in as ready bytes; nothing is encoded per datagram but a few small numbers. Later versions may
append fields; a header of another format version is counted and dropped.

Sealing is the rim's: keys, nonces and the keyring live there, and the label is authenticated there, so a
datagram of another cluster never gets here. Without a key it takes the form of `PlainSeal`.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Sequence
from typing import Literal

from adsum.cbor import BadEncoding, strict_loads
from adsum.gossip.claims import COUNTER_MAX, SHORT
from adsum.named import NamedTuple

FORMAT_VERSION = 2
VERSION_MIN = VERSION_MAX = 1  # of the protocol spoken inside; each member says its range

_HEADER = struct.Struct(">B8sQB")
HEADER_BYTES = _HEADER.size
BEAT = struct.Struct(">8sHI")
CLAIMS_MAX = 255
CARRIED_MAX = 255
ROOT_BYTES_MAX = 16
COORDINATE_BYTES_MAX = 64
MARK_BYTES = 4
MARKS_BYTES_MAX = 64 * MARK_BYTES
U32 = 1 << 32


Damage = Literal["malformed truncated", "malformed version", "malformed cbor", "malformed fields"]


class MalformedPacket(ValueError):
    """The sender's fault; counted by its reason and dropped."""

    def __init__(self, reason: Damage) -> None:
        super().__init__(reason)
        self.reason: Damage = reason


class PacketKind(enum.IntEnum):
    PING = 0
    ACK = 1
    PING_REQUEST = 2
    NACK = 3
    GOSSIP = 4
    REFUSAL = 5


class PacketFlag(enum.IntFlag):
    REFUSED = 1  # a helper's nack: the target's host refused a connection
    UNKNOWN = 2  # a helper's nack: it knows no such member
    CONFLICT = 4  # a refusal: your id or name is another's
    NOT_ON = 8  # this news need not be pushed on: its sender tells it to all, or was asked for it


class Header(NamedTuple):
    sender: bytes
    generation: int


class Packet(NamedTuple):
    kind: int
    sequence: int = 0  # the sender's own, returned in the ack
    about: bytes = b""  # the short id of who is meant; empty where it says nothing
    amount: int = 0  # a budget in ms for helpers; in pings and acks a digest of the sender's roster
    flags: int = 0
    beat: int = 0  # the sender's counter of life
    root: bytes = b""  # of the sender's catalog; opaque here
    coordinate: bytes = b""
    claims: Sequence[bytes] = ()
    beats: bytes = b""
    carried: Sequence[bytes] = ()
    ages: bytes = b""  # of the claims, see `ages`; this and what follows is left out where it says nothing
    have: bytes = b""  # marks of what the sender has told of late
    want: bytes = b""  # marks of what it lacks


FIELDS_MAX = len(Packet._fields)
FIELDS_MIN = FIELDS_MAX - 3  # without ages and marks


class PlainSeal:
    """Body and a checksum: finds damage and foreign labels, and protects from nobody."""

    def __init__(self, label: str) -> None:
        self._seed = zlib.crc32(label.encode())

    def seal(self, header: bytes, body: bytes) -> bytes:
        return body + self._sum(header, body)

    def open(self, header: bytes, sealed: bytes) -> bytes | None:
        body, given = sealed[:-4], sealed[-4:]
        return body if given == self._sum(header, body) else None

    def _sum(self, header: bytes, body: bytes) -> bytes:
        return zlib.crc32(body, zlib.crc32(header, self._seed)).to_bytes(4, "big")


def header(sender: bytes, generation: int) -> bytes:
    return _HEADER.pack(FORMAT_VERSION, sender, generation, 0)


def parse_header(message: bytes) -> Header:
    if len(message) < HEADER_BYTES:
        raise MalformedPacket("malformed truncated")
    version, sender, generation, _flags = _HEADER.unpack_from(message)
    if version != FORMAT_VERSION:
        raise MalformedPacket("malformed version")
    if generation >= COUNTER_MAX:
        raise MalformedPacket("malformed fields")
    return Header(sender, generation)


def encode(packet: Packet) -> bytes:
    kind, sequence, about, amount, flags, beat, root, coordinate, claims, beats, carried, ages, have, want = (
        packet
    )
    has_marks = bool(have or want)
    parts = [
        _ARRAY_WITH_MARKS if has_marks else _ARRAY_WITH_AGES if ages else _ARRAY,
        *(_SMALL[kind], number(sequence), bytes_head(len(about)), about, number(amount), number(flags)),
        *(number(beat), bytes_head(len(root)), root, bytes_head(len(coordinate)), coordinate),
    ]
    _splice(parts, claims)
    parts += (bytes_head(len(beats)), beats)
    _splice(parts, carried)
    if ages or has_marks:
        parts += (bytes_head(len(ages)), ages)
    if has_marks:
        parts += (bytes_head(len(have)), have, bytes_head(len(want)), want)
    return b"".join(parts)


def _splice(parts: list[bytes], payloads: Sequence[bytes]) -> None:
    parts.append(_long_head(0x80, len(payloads)) if payloads else _EMPTY)
    for payload in payloads:
        parts += (bytes_head(len(payload)), payload)


def decode(body: bytes) -> Packet:
    try:
        fields = strict_loads(body)
    except BadEncoding as error:
        raise MalformedPacket("malformed cbor") from error
    if not isinstance(fields, list) or len(fields) < FIELDS_MIN:
        raise MalformedPacket("malformed fields")
    packet = Packet(*fields[:FIELDS_MAX])
    if not _is_sane(packet):
        raise MalformedPacket("malformed fields")
    return packet


def _is_sane(packet: Packet) -> bool:
    kind, sequence, about, amount, flags, beat, root, coordinate, claims, beats, carried, ages, have, want = (
        packet
    )
    return (
        type(kind) is type(sequence) is type(amount) is type(flags) is type(beat) is int
        and type(about) is type(root) is type(coordinate) is type(beats) is type(ages) is bytes
        and type(have) is type(want) is bytes
        and type(claims) is type(carried) is list
        and 0 <= kind < 256
        and 0 <= sequence < U32
        and 0 <= amount < COUNTER_MAX
        and 0 <= flags < 256
        and 0 <= beat < U32
        and len(about) in (0, SHORT)
        and len(root) <= ROOT_BYTES_MAX
        and len(beats) % BEAT.size == 0
        and (not coordinate or len(coordinate) <= COORDINATE_BYTES_MAX)
        and (not ages or len(ages) <= CLAIMS_MAX)
        and (not have or _are_marks(have))
        and (not want or _are_marks(want))
        and (not claims or (len(claims) <= CLAIMS_MAX and set(map(type, claims)) == _ONLY_BYTES))
        and (not carried or (len(carried) <= CARRIED_MAX and set(map(type, carried)) == _ONLY_BYTES))
    )


def _are_marks(packed: bytes) -> bool:
    return len(packed) <= MARKS_BYTES_MAX and len(packed) % MARK_BYTES == 0


# CBOR heads, written by hand because splicing them is what makes a datagram cheap.


def number(value: int) -> bytes:
    if value < 24:
        return _SMALL[value]
    return _long_head(0, value)


def bytes_head(length: int) -> bytes:
    if length < 256:
        return _BYTES_HEADS[length]
    return _long_head(0x40, length)


def _long_head(major: int, value: int) -> bytes:
    if value < 24:
        return bytes((major | value,))
    if value < 1 << 8:
        return bytes((major | 24, value))
    if value < 1 << 16:
        return bytes((major | 25,)) + value.to_bytes(2, "big")
    if value < 1 << 32:
        return bytes((major | 26,)) + value.to_bytes(4, "big")
    return bytes((major | 27,)) + value.to_bytes(8, "big")


_ONLY_BYTES = {bytes}
_SMALL = [_long_head(0, value) for value in range(24)]
_BYTES_HEADS = [_long_head(0x40, length) for length in range(256)]
_EMPTY, _ARRAY, _ARRAY_WITH_AGES, _ARRAY_WITH_MARKS = (
    _long_head(0x80, length) for length in (0, FIELDS_MIN, FIELDS_MIN + 1, FIELDS_MAX)
)
