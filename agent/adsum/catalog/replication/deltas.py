"""News of one owner as bytes: what gossip carries, and what an exchange hands over. Encoded once where it
is made, relayed unchanged by everybody to whom it was news.

    [0, owner, generation, version, digest, [[number, behind, value], …], urgent]
    [1, owner, generation, version, digest, [[number, behind, value], …], since, through, gc version]

The first is a push. `version` and `digest` are the owner's after it, which is how a holder knows that it has
everything; an item's own version is `behind` that, so that it takes a byte. No value: removed. `true` for a
value: a notice, the item is too big to be pushed and its body wants to be fetched from whoever said so.
`urgent` is there when some check of it is not passing any more: who relays it knows nothing of checks, and
tells it before other news.

The second is a range: all that the teller knows of the owner with versions after `since`; it vouches for
completeness up to `through` only. `since` 0 is the whole owner, without tombstones.

A flip of a passing check is some 43 bytes. Fields that a later version appends are kept and ignored. The
items are read by hand: they come in thousands, in three shapes, and their versions count from the owner's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from adsum.catalog.replication.items import COUNTER_MAX, NUMBER_MAX, SHORT, VALUE_BYTES_MAX, VERSION_MAX, Item
from adsum.cbor import BadEncoding, canonical_array
from adsum.rows import RowCodec, RowField, RowKinds, counter, exactly

PUSH_BYTES_MAX = 1_024  # what gossip carries; one that was asked for may be longer
DIGEST_BYTES = 8
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
        "is_urgent",
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
        is_urgent: bool = False,
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
        self.is_urgent = is_urgent
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
    *,
    is_urgent: bool = False,
) -> bytes:
    rows = [*_rows(version, items), *([item.number, version - item.version, True] for item in notices)]
    return _PUSH.bytes_of(owner, generation, version, digest, rows, int(is_urgent))


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
    return _RANGE.bytes_of(owner, generation, version, digest, rows, since, through, gc_version)


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
    delta = _DELTAS.decode(canonical_array(encoded), encoded)
    if delta is None:
        raise BadEncoding("a delta of no kind")
    return delta


def _push(
    encoded: bytes, owner: bytes, generation: int, version: int, digest: int, rows: list[object], urgent: int
) -> Delta:
    items, notices = _items(rows, version)
    head = owner, generation, version, digest, items
    return Delta(*head, notices=notices, is_urgent=bool(urgent), encoded=encoded)


def _range(
    encoded: bytes, owner: bytes, generation: int, version: int, digest: int, rows: list[object], *told: int
) -> Delta:
    since, through, gc = told
    items, notices = _items(rows, version)
    if notices or not since <= through <= version or gc > version:
        raise BadEncoding("a range that is none")
    head = owner, generation, version, digest, items
    return Delta(*head, since=since, through=through, gc_version=gc, encoded=encoded)


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
    if type(number) is not int or not 0 <= number < NUMBER_MAX:
        raise BadEncoding("an item without a number")
    if type(behind) is not int or not 0 <= behind < latest:
        raise BadEncoding("an item of an impossible version")
    return number, latest - behind


def _digest(digest: bytes) -> int:
    if len(digest) != DIGEST_BYTES:
        raise BadEncoding("a digest of a wrong length")
    return int.from_bytes(digest, "big")


_HEAD = (
    exactly("owner", SHORT),
    counter("generation", COUNTER_MAX),
    counter("version", VERSION_MAX, at_least=1),
    RowField("digest", bytes, _digest, lambda digest: digest.to_bytes(DIGEST_BYTES, "big")),
    RowField("rows", list),
)
_PUSH = RowCodec(_push, *_HEAD, counter("urgent", 2, default=0), kind=PUSH)
_TOLD = (counter("since", VERSION_MAX), counter("through", VERSION_MAX), counter("gc_version", VERSION_MAX))
_RANGE = RowCodec(_range, *_HEAD, *_TOLD, kind=RANGE)
_DELTAS: RowKinds[Delta] = RowKinds(_PUSH, _RANGE)
