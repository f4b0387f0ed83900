"""What two holders say to each other in an exchange. Calls: a question, an answer.

    catalog.compare  [turn, words]                     →  [0, is more, standings]
    catalog.confirm  the same
    catalog.fetch    [standings, [range, …]]           →  [0, [range, …]]
    catalog.items    [owner, generation, [number, …]]  →  [0, [push, …]]
    any of them                                        →  [1]: no time;  [2]: not understood

A standing is where one of us is with one owner, packed in 29 bytes. In a `fetch` the standings are those of
the owners that are wanted, and the ranges are what the other side lacks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from adsum.catalog.replication.deltas import RANGE_BYTES_MAX
from adsum.catalog.replication.items import COUNTER_MAX, NUMBER_MAX, SHORT
from adsum.catalog.replication.root import WORDS_BYTES
from adsum.cbor import BadEncoding, canonical_array
from adsum.named import NamedTuple
from adsum.now import MILLISECOND
from adsum.rows import RowCodec, RowField, counter, exactly, flag, listed, octets, values

COMPARE, FETCH, ITEMS = "catalog.compare", "catalog.fetch", "catalog.items"
CONFIRM = "catalog.confirm"  # a comparison for somebody who waits, or doubts
FRAME_BYTES = 64 * 1024
STANDINGS_MAX = 2_200  # in one message: a frame's worth
WANTED_MAX = 256  # in one fetch: more would be named again and again while frames of 64 KB bring some of them
RANGES_MAX = 4_096
ITEMS_MAX = 64
BODY_BYTES_MAX = (
    512 * 1024
)  # a frame of what is wanted, one of what is given, and an item of the greatest size
TURN_MAX = 1 << 16
DONE, NO_TIME, NOT_UNDERSTOOD = range(3)  # what answers begin with
_STANDING = struct.Struct(">8sQIIIB")
AGE_NS = 500 * MILLISECOND
AGE_MAX = 255


Ranges = tuple[bytes, ...]


class OwnerStanding(NamedTuple):
    owner: bytes
    generation: int
    low_water: int
    gc_version: int
    mark: int  # the low half of its share in the root
    age: int  # since it last changed there, in halves of a second


class Busy(Exception):
    """The other side has no time now; nothing happened."""


def compare(turn: int, words: bytes) -> bytes:
    return _COMPARE.bytes_of(min(turn, TURN_MAX - 1), words)


def read_compare(body: bytes) -> tuple[int, bytes]:
    return _COMPARE.decode(_opened(body))


def compared(standings: Iterable[OwnerStanding], *, is_more: bool) -> bytes:
    return _COMPARED.bytes_of(is_more, standings)


def read_compared(body: bytes) -> tuple[list[OwnerStanding], bool]:
    is_more, standings = _COMPARED.decode(_answer(body))
    return standings, is_more


def fetch(wanted: Iterable[OwnerStanding], given: list[bytes]) -> bytes:
    return _FETCH.bytes_of(wanted, given)


def read_fetch(body: bytes) -> tuple[list[OwnerStanding], Ranges]:
    return _FETCH.decode(_opened(body))


def items(owner: bytes, generation: int, numbers: list[int]) -> bytes:
    return _ITEMS.bytes_of(owner, generation, numbers)


def read_items(body: bytes) -> tuple[bytes, int, tuple[int, ...]]:
    return _ITEMS.decode(_opened(body))


def fetched(ranges: list[bytes]) -> bytes:
    return _FETCHED.bytes_of(ranges)


def read_fetched(body: bytes) -> Ranges:
    (ranges,) = _FETCHED.decode(_answer(body))
    return ranges


def _opened(body: bytes) -> list[object]:
    if len(body) > BODY_BYTES_MAX:
        raise BadEncoding("too long")
    return canonical_array(body)


def _answer(body: bytes) -> list[object]:
    fields = _opened(body)
    if fields[:1] == [NO_TIME]:
        raise Busy
    return fields


def _packed(standings: Iterable[OwnerStanding]) -> bytes:
    return b"".join([_STANDING.pack(*standing) for standing in standings])


def _unpacked(packed: bytes) -> list[OwnerStanding]:
    if len(packed) > STANDINGS_MAX * _STANDING.size or len(packed) % _STANDING.size:
        raise BadEncoding("too many standings, or half a one")
    return [OwnerStanding(*fields) for fields in _STANDING.iter_unpack(packed)]


_STANDINGS = RowField("standings", bytes, _unpacked, _packed)
_RANGES = listed("ranges", octets("", RANGE_BYTES_MAX), RANGES_MAX)
_COMPARE: RowCodec[tuple[int, bytes]] = RowCodec(
    values, counter("turn", TURN_MAX), exactly("words", WORDS_BYTES)
)
_COMPARED: RowCodec[tuple[bool, list[OwnerStanding]]] = RowCodec(
    values, flag("is_more"), _STANDINGS, kind=DONE
)
_FETCH: RowCodec[tuple[list[OwnerStanding], Ranges]] = RowCodec(values, _STANDINGS, _RANGES)
_FETCHED: RowCodec[tuple[Ranges]] = RowCodec(values, _RANGES, kind=DONE)
_NUMBERS = listed("numbers", counter("", NUMBER_MAX), ITEMS_MAX)
_ITEMS: RowCodec[tuple[bytes, int, tuple[int, ...]]] = RowCodec(
    values, exactly("owner", SHORT), counter("generation", COUNTER_MAX), _NUMBERS
)
BUSY = RowCodec(values, kind=NO_TIME).bytes_of()
REFUSED = RowCodec(values, kind=NOT_UNDERSTOOD).bytes_of()
