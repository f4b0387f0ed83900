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
from typing import NamedTuple

import cbor2

from adsum.catalog.replication.deltas import RANGE_BYTES_MAX
from adsum.catalog.replication.items import COUNTER_MAX, NUMBER_MAX, SHORT
from adsum.catalog.replication.root import WORDS_BYTES
from adsum.cbor import BadEncoding, canonical_array, counter, octets
from adsum.now import MILLISECOND

COMPARE, FETCH, ITEMS = "catalog.compare", "catalog.fetch", "catalog.items"
CONFIRM = "catalog.confirm"  # a comparison for somebody who waits
FRAME_BYTES = 64 * 1024
STANDINGS_MAX = 2_200  # in one message: a frame's worth
WANTED_MAX = 256  # in one fetch: more would be named again and again while frames of 64 KB bring some of them
RANGES_MAX = 4_096
ITEMS_MAX = 64
BODY_BYTES_MAX = (
    512 * 1024
)  # a frame of what is wanted, one of what is given, and one item of the greatest size
TURN_MAX = 1 << 16
BUSY = cbor2.dumps([1])
REFUSED = cbor2.dumps([2])

_STANDING = struct.Struct(">8sQIIIB")
AGE_NS = 500 * MILLISECOND
AGE_MAX = 255


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
    return cbor2.dumps([turn, words])


def read_compare(body: bytes) -> tuple[int, bytes]:
    match _loads(body):
        case [turn, words, *_]:
            known = octets(words, at_least=WORDS_BYTES, at_most=WORDS_BYTES)
            return counter(turn, TURN_MAX), known
    raise BadEncoding("not a comparison")


def compared(standings: Iterable[OwnerStanding], *, is_more: bool) -> bytes:
    return cbor2.dumps([0, is_more, _packed(standings)])


def read_compared(body: bytes) -> tuple[list[OwnerStanding], bool]:
    match _loads(body):
        case [0, bool(is_more), standings, *_]:
            return _unpacked(standings), is_more
        case [1, *_]:
            raise Busy
    raise BadEncoding("not an answer to a comparison")


def fetch(wanted: Iterable[OwnerStanding], given: list[bytes]) -> bytes:
    return cbor2.dumps([_packed(wanted), given])


def read_fetch(body: bytes) -> tuple[list[OwnerStanding], list[bytes]]:
    match _loads(body):
        case [wanted, list(given), *_]:
            return _unpacked(wanted), _ranges(given)
    raise BadEncoding("not a fetch")


def items(owner: bytes, generation: int, numbers: list[int]) -> bytes:
    return cbor2.dumps([owner, generation, numbers])


def read_items(body: bytes) -> tuple[bytes, int, list[int]]:
    match _loads(body):
        case [owner, generation, list(numbers), *_] if len(numbers) <= ITEMS_MAX:
            short = octets(owner, at_least=SHORT, at_most=SHORT)
            wanted = [counter(number, NUMBER_MAX) for number in numbers]
            return short, counter(generation, COUNTER_MAX), wanted
    raise BadEncoding("no items asked for")


def fetched(ranges: list[bytes]) -> bytes:
    return cbor2.dumps([0, ranges])


def read_fetched(body: bytes) -> list[bytes]:
    match _loads(body):
        case [0, list(ranges), *_]:
            return _ranges(ranges)
        case [1, *_]:
            raise Busy
    raise BadEncoding("not an answer to a fetch")


def _loads(body: bytes) -> list[object]:
    if len(body) > BODY_BYTES_MAX:
        raise BadEncoding("too long")
    return canonical_array(body)


def _packed(standings: Iterable[OwnerStanding]) -> bytes:
    return b"".join([_STANDING.pack(*standing) for standing in standings])


def _unpacked(packed: object) -> list[OwnerStanding]:
    whole = octets(packed, at_most=STANDINGS_MAX * _STANDING.size)
    if len(whole) % _STANDING.size:
        raise BadEncoding("half a standing")
    return [OwnerStanding(*fields) for fields in _STANDING.iter_unpack(whole)]


def _ranges(ranges: list[object]) -> list[bytes]:
    if len(ranges) > RANGES_MAX:
        raise BadEncoding("too many ranges")
    return [octets(each, at_most=RANGE_BYTES_MAX) for each in ranges]
