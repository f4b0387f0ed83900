"""News of one owner as bytes: what gossip carries, and what an exchange hands over. Encoded once where it
is made, relayed unchanged by everybody to whom it was news.

    [0, owner, generation, version, digest, [[number, behind, value], …]]
    [1, owner, generation, version, digest, [[number, behind, value], …], since, through, gc version]

The first is a push. `version` and `digest` are the owner's after it, which is how a holder knows that it has
everything; an item's own version is `behind` that, so that it takes a byte. No value: removed. `true` for a
value: a notice, the item is too big to be pushed and its body wants to be fetched from whoever said so.

The second is a range: all that the teller knows of the owner with versions after `since`; it vouches for
completeness up to `through` only. `since` 0 is the whole owner, without tombstones.

A flip of a passing check is some 43 bytes. Fields that a later version appends are kept and ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import cbor2

from adsum.catalog.replication.items import (
    COUNTER_MAX,
    NUMBER_MAX,
    SHORT,
    VALUE_BYTES_MAX,
    VERSION_MAX,
    Item,
)
from adsum.cbor import BadEncoding, canonical_array, counter, octets

PUSH_BYTES_MAX = 1_024  # what gossip carries; one that was asked for may be longer
RANGE_BYTES_MAX = 256 * 1024  # a frame of 64 KB, or one item of the greatest size
PUSH: Final = 0
RANGE: Final = 1


class Delta:
    """Decoded once and compared by identity; see `interner`."""

    __slots__ = (
        "digest",
        "encoded",
        "gc_version",
        "generation",
        "items",
        "key",
        "notices",
        "owner",
        "since",
        "through",
        "version",
    )

    def __init__(
        self,
        owner: bytes,
        generation: int,
        version: int,
        digest: int,
        items: tuple[Item, ...],
        *,
        notices: tuple[tuple[int, int], ...] = (),
        since: int = 0,
        through: int | None = None,
        gc_version: int = 0,
        encoded: bytes = b"",
    ) -> None:
        self.owner = owner
        self.generation = generation
        self.version = version
        self.digest = digest
        self.items = items
        self.notices = notices  # number and version of what has to be fetched
        self.since = since
        self.through = through  # None: a push
        self.gc_version = gc_version
        self.encoded = encoded
        numbers = (*(item.number for item in items), *(number for number, _ in notices))
        self.key = (owner, numbers)  # a newer push of the same items replaces one not yet told


def push(
    owner: bytes,
    generation: int,
    version: int,
    digest: int,
    items: Iterable[Item],
    notices: Iterable[Item] = (),
) -> bytes:
    rows = [*_rows(version, items), *([item.number, version - item.version, True] for item in notices)]
    return cbor2.dumps([PUSH, owner, generation, version, digest.to_bytes(8, "big"), rows])


def span(
    owner: bytes,
    generation: int,
    version: int,
    digest: int,
    items: Iterable[Item],
    *,
    since: int,
    through: int,
    gc_version: int,
) -> bytes:
    rows = _rows(version, items)
    head = [RANGE, owner, generation, version, digest.to_bytes(8, "big"), rows]
    return cbor2.dumps([*head, since, through, gc_version])


def _rows(version: int, items: Iterable[Item]) -> list[list[object]]:
    return [
        [item.number, version - item.version, item.value]
        if item.value is not None
        else [item.number, version - item.version]
        for item in items
    ]


def decode(encoded: bytes) -> Delta:
    if len(encoded) > RANGE_BYTES_MAX:
        raise BadEncoding("too long")
    match canonical_array(encoded):
        case [0, owner, generation, version, digest, list(rows), *_]:
            return _push(encoded, owner, generation, version, digest, rows)
        case [1, owner, generation, version, digest, list(rows), since, through, gc_version, *_]:
            return _span(encoded, owner, generation, version, digest, rows, since, through, gc_version)
    raise BadEncoding("unknown shape")


def _push(
    encoded: bytes, owner: object, generation: object, version: object, digest: object, rows: list[object]
) -> Delta:
    latest = counter(version, VERSION_MAX, at_least=1)
    items, notices = _items(rows, latest)
    return Delta(
        *_head(owner, generation),
        latest,
        _digest(digest),
        items,
        notices=notices,
        encoded=encoded,
    )


def _span(
    encoded: bytes,
    owner: object,
    generation: object,
    version: object,
    digest: object,
    rows: list[object],
    since: object,
    through: object,
    gc_version: object,
) -> Delta:
    latest = counter(version, VERSION_MAX, at_least=1)
    items, notices = _items(rows, latest)
    first, last = counter(since, latest + 1), counter(through, latest + 1)
    if notices or last < first:
        raise BadEncoding("a range that is none")
    return Delta(
        *_head(owner, generation),
        latest,
        _digest(digest),
        items,
        since=first,
        through=last,
        gc_version=counter(gc_version, latest + 1),
        encoded=encoded,
    )


def _head(owner: object, generation: object) -> tuple[bytes, int]:
    return octets(owner, at_least=SHORT, at_most=SHORT), counter(generation, COUNTER_MAX)


def _digest(digest: object) -> int:
    return int.from_bytes(octets(digest, at_least=8, at_most=8), "big")


def _items(rows: list[object], latest: int) -> tuple[tuple[Item, ...], tuple[tuple[int, int], ...]]:
    items: list[Item] = []
    notices: list[tuple[int, int]] = []
    for row in rows:
        match row:
            case [number, behind]:
                items.append(Item(*_place(number, behind, latest), None))
            case [number, behind, bytes(value)] if len(value) <= VALUE_BYTES_MAX:
                items.append(Item(*_place(number, behind, latest), value))
            case [number, behind, True]:
                notices.append(_place(number, behind, latest))
            case _:
                raise BadEncoding("an item of unknown shape")
    numbers = [*(item.number for item in items), *(number for number, _ in notices)]
    if len(dict.fromkeys(numbers)) < len(rows):
        raise BadEncoding("one item twice")
    return tuple(items), tuple(notices)


def _place(number: object, behind: object, latest: int) -> tuple[int, int]:
    return counter(number, NUMBER_MAX), latest - counter(behind, latest)
