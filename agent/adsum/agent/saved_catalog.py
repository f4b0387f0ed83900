"""The copy of the catalog that outlives the process: what an agent answers with until it has heard better.

Every minute in which something changed, and every hour, what is known of every other owner, and whether it is
hidden, becomes one file. Encoding is done some ranges at a time, and only for owners that changed, so that it
never holds the loop: one alone, the store, may have 200,000 items. What changes meanwhile is in the next
file, which is replaced unsynced, for losing it costs a cold start and no more.

After a start the nodes in it are shown as they last were, and the agent says that it is stale; until then the
file stays as it is, for this life knows nothing better. Each goes over
to membership when gossip meets it; after the first comparison with another agent those that gossip never
met are gone, and after three days, the time a failed member is kept, they are in any case.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import cbor2

from adsum.address import Address
from adsum.agent.saved_files import COPY
from adsum.catalog.replication.bodies import FRAME_BYTES
from adsum.catalog.replication.deltas import Delta, span
from adsum.catalog.replication.deltas import decode as decode_delta
from adsum.catalog.replication.items import Item
from adsum.catalog.replication.state import ITEM_OVERHEAD_BYTES, OwnerState, TooBig, applied
from adsum.catalog.saved import DamagedFile, opened, sealed_pieces
from adsum.cbor import BadEncoding
from adsum.effects import FileChange, WriteFile
from adsum.gossip.claims import HOST, META, NAME, NODE_ID, PORT, VERSION, Profile
from adsum.named import NamedTuple
from adsum.now import HOUR, MILLISECOND, MINUTE, Now
from adsum.rows import RowCodec, flag, listed, octets

FORMAT = 3
SAVE_NS = MINUTE
SLICE_NS = 50 * MILLISECOND
# What is encoded at once, whichever is reached first. Each owner has a range at least, and with 20 services
# 4 KB. An item takes 1.5 microseconds, and of the smallest that there are, 40 bytes, this is 5,000.
RANGES_A_SLICE = 100
BYTES_A_SLICE = 4 * FRAME_BYTES
KEPT_NS = 72 * HOUR
RENEWED_NS = HOUR  # where nothing changes: a copy's age counts from its date
OCTETS, ARRAY = 2, 4  # as CBOR numbers its types


class OtherFormat(DamagedFile):
    """Of another version of Adsum: as good as none."""


class SavedOwner(NamedTuple):
    profile: Profile
    spans: tuple[bytes, ...]  # everything known of it, as exchanges would hand it over
    is_shown: bool = True  # and not called dead


class KnownOwner(NamedTuple):
    profile: Profile
    state: OwnerState
    is_shown: bool


class KnownStore(NamedTuple):
    """What the servers publish, as this agent has it."""

    state: OwnerState
    gone_ns: int | None  # since when no server is there


class SavedCopy(NamedTuple):
    wall_ms: int
    owners: tuple[SavedOwner, ...]
    unreadable: int = 0  # owners that were left out
    store: tuple[bytes, ...] = ()  # what the servers published, which is no member
    store_gone_ms: int | None = None  # when the last of them went; None: some were there

    @property
    def store_wall_ms(self) -> int:
        """When the store was last known to be in force."""
        return self.wall_ms if self.store_gone_ms is None else self.store_gone_ms


def encode(copy: SavedCopy) -> bytes:
    """As `sealed` would, but piece by piece: 60 MB as one value take 180 ms, and so 70."""
    rows = [
        _OWNER.row((who.node_id, who.name, *who.address, who.meta, spans, is_shown, who.version))
        for who, spans, is_shown in copy.owners
    ]
    parts = [
        [cbor2.dumps(FORMAT)],
        [cbor2.dumps(copy.wall_ms)],
        [_head(ARRAY, len(rows)), *map(cbor2.dumps, rows)],
    ]
    if copy.store:
        ranges = [piece for each in copy.store for piece in (_head(OCTETS, len(each)), each)]
        parts.append([_head(ARRAY, len(copy.store)), *ranges])
        if copy.store_gone_ms is not None:
            parts.append([cbor2.dumps(copy.store_gone_ms)])
    return sealed_pieces([_head(ARRAY, len(parts)), *(piece for part in parts for piece in part)])


def _head(kind: int, length: int) -> bytes:
    """What CBOR begins with for so many members or bytes."""
    whole = cbor2.dumps(length)
    return bytes((kind << 5 | whole[0],)) + whole[1:]


def decode(content: bytes) -> SavedCopy:
    """Raises `DamagedFile`, `OtherFormat` among them. What makes no sense costs its owner and no other."""
    match opened(content):
        case [int(form), int(wall_ms), list(rows), *more] if form == FORMAT:
            owners = [_owner(row) for row in rows]
            known = tuple(owner for owner in owners if owner is not None)
            return SavedCopy(wall_ms, known, len(owners) - len(known), *_store(more))
        case [form, *_] if type(form) is int and form != FORMAT:
            raise OtherFormat(f"it is of format {form}, and this version writes {FORMAT}")
    raise DamagedFile("it holds no catalog")


def _store(more: list[object]) -> tuple[tuple[bytes, ...], int | None]:
    match more:
        case [list(spans), *said]:
            gone_ms = said[0] if said and type(said[0]) is int else None
            return tuple(each for each in spans if type(each) is bytes), gone_ms
    return (), None


def _owner(row: object) -> SavedOwner | None:
    try:
        return _OWNER.decode(row) if isinstance(row, list) else None
    except BadEncoding:
        return None


def _saved(node_id: bytes, name: str, host: str, port: int, meta: bytes, *said: Any) -> SavedOwner:
    spans, is_shown, version = said
    return SavedOwner(Profile(node_id, name, Address(host, port), meta, version=version), spans, is_shown)


_OWNER = RowCodec(
    _saved, NODE_ID, NAME, HOST, PORT, META, listed("spans", octets("")), flag("is_shown"), VERSION
)


def file(copy: SavedCopy) -> FileChange:
    return WriteFile(COPY, encode(copy))


class Copying:
    """What the next file needs, gathered in slices."""

    def __init__(self, now: Now) -> None:
        self._spans: dict[bytes, tuple[OwnerState, tuple[bytes, ...]]] = {}  # by owner
        self._cutting: _Cutting | None = None
        self._passed: dict[bytes, None] = {}  # owners that were encoded for the next file
        self._begin_ns = now.monotonic_ns + SAVE_NS
        self._written: tuple[object, ...] | None = None
        self._written_ns = now.monotonic_ns
        self._slice_ns: int | None = None

    def deadline(self) -> int:
        return self._begin_ns if self._slice_ns is None else self._slice_ns

    def postpone(self, now: Now) -> None:
        """Nothing is worth a file yet."""
        if now.monotonic_ns >= self.deadline():
            self._slice_ns, self._begin_ns = None, now.monotonic_ns + SAVE_NS

    def tick(
        self, now: Now, known: Iterable[KnownOwner], root: bytes, store: KnownStore | None = None
    ) -> tuple[FileChange, ...]:
        """The file, once it is due, complete, and not what was written last."""
        if now.monotonic_ns < self.deadline():
            return ()
        listed = list(known)
        version = (root, len(listed), *(each.profile.short for each in listed if not each.is_shown))
        if version == self._written and now.monotonic_ns - self._written_ns < RENEWED_NS:
            self._slice_ns, self._begin_ns = None, now.monotonic_ns + SAVE_NS
            return ()
        states = _states(listed, store)
        if not self._gather(states):
            self._slice_ns = now.monotonic_ns + SLICE_NS
            return ()
        self._slice_ns, self._begin_ns = None, now.monotonic_ns + SAVE_NS
        self._written_ns = now.monotonic_ns
        self._written = version if all(map(self._is_current, states)) else None
        return (self._file(now, listed, store),)

    def last(
        self, now: Now, known: Iterable[KnownOwner], store: KnownStore | None = None
    ) -> tuple[FileChange, ...]:
        """At an orderly end, however long it takes."""
        listed = list(known)
        states = _states(listed, store)
        for state in states:
            if not self._is_current(state):
                self._spans[state.owner] = (state, tuple(spans_of(state)))
        return (self._file(now, listed, store),) if states else ()

    def _is_current(self, state: OwnerState) -> bool:
        kept = self._spans.get(state.owner)
        return kept is not None and kept[0] is state

    def _gather(self, states: list[OwnerState]) -> bool:
        """Whether all are. An owner is encoded once for a file, as it was when its turn came: one that
        changes while it is encoded would hold up the file for ever."""
        if self._slice_ns is None:
            self._passed.clear()
        waiting = (each for each in states if each.owner not in self._passed and not self._is_current(each))
        ranges_left, bytes_left = RANGES_A_SLICE, BYTES_A_SLICE
        while ranges_left > 0 and bytes_left > 0:
            if self._cutting is None:
                state = next(waiting, None)
                if state is None:
                    return True
                self._passed[state.owner] = None
                self._cutting = _Cutting(state)
            cutting = self._cutting
            encoded = next(cutting.rest, None)
            if encoded is None:
                self._spans[cutting.state.owner] = (cutting.state, tuple(cutting.spans))
                self._cutting = None
            else:
                cutting.spans.append(encoded)
                ranges_left, bytes_left = ranges_left - 1, bytes_left - len(encoded)
        return False

    def _file(self, now: Now, listed: list[KnownOwner], store: KnownStore | None) -> FileChange:
        self._spans = {state.owner: self._spans[state.owner] for state in _states(listed, store)}
        spans = {owner: spans for owner, (_state, spans) in self._spans.items()}
        owners = tuple(SavedOwner(each.profile, spans[each.state.owner], each.is_shown) for each in listed)
        copy = SavedCopy(now.wall_ms, owners)
        if store is not None:
            copy = with_store(now, copy, spans[store.state.owner], store.gone_ns)
        return file(copy)


class _Cutting:
    """An owner that is being encoded."""

    def __init__(self, state: OwnerState) -> None:
        self.state = state
        self.rest = spans_of(state)
        self.spans: list[bytes] = []


def _states(listed: list[KnownOwner], store: KnownStore | None) -> list[OwnerState]:
    return [*(each.state for each in listed), *([store.state] if store is not None else [])]


def with_store(now: Now, copy: SavedCopy, spans: tuple[bytes, ...], gone_ns: int | None) -> SavedCopy:
    """Its time does not begin anew with each run: without servers, nobody knows more of it than the last
    run did."""
    gone_ms = None if gone_ns is None else now.wall_ms - (now.monotonic_ns - gone_ns) // MILLISECOND
    return copy._replace(store=spans, store_gone_ms=gone_ms)


def recalled(saved: SavedOwner) -> OwnerState | None:
    """None when nothing of it can be read."""
    told = told_of(saved.spans)
    if told is None:
        return None
    state = OwnerState(told.owner, told.generation)
    try:
        return applied(state, told)
    except TooBig:
        return state


def told_of(spans: Iterable[bytes]) -> Delta | None:
    """What is saved of an owner, as far as it can be read, as one range of any length: applied one after
    another, each range would copy all that the ones before it brought."""
    deltas: list[Delta] = []
    try:
        for encoded in spans:
            delta = decode_delta(encoded)
            if deltas and (delta.owner, delta.generation) != (deltas[0].owner, deltas[0].generation):
                break
            deltas.append(delta)
    except BadEncoding:
        pass
    if not deltas:
        return None
    items = {item.number: item for delta in deltas for item in delta.items}
    newest = max(deltas, key=lambda delta: delta.version)
    through = gc_version = 0
    for delta in deltas:
        if delta.through is not None and delta.since <= through:
            gc_version = max(gc_version, delta.gc_version) if through == 0 else gc_version
            through = max(through, delta.through)
    head = newest.owner, newest.generation, newest.version, newest.digest, tuple(items.values())
    return Delta(*head, since=0, through=through, gc_version=gc_version)


def spans_of(state: OwnerState) -> Iterator[bytes]:
    """Everything known of it, in ranges of a frame at most, or of one item. Only the last one vouches for
    anything, so they need no order: to sort 200,000 items would hold the loop for 40 ms."""
    items: list[Item] = []
    gc_version, room_bytes = state.gc_version, FRAME_BYTES
    for item in state.items.values():
        if item.value is None:  # not told, and for whoever reads this as good as collected
            gc_version = max(gc_version, item.version)
            continue
        size_bytes = ITEM_OVERHEAD_BYTES + len(item.value)
        if items and size_bytes > room_bytes:
            yield _range(state, items)
            items, room_bytes = [], FRAME_BYTES
        items.append(item)
        room_bytes -= size_bytes
    yield _range(state, items, through=state.low_water, gc_version=gc_version)


def _range(state: OwnerState, items: list[Item], *, through: int = 0, gc_version: int = 0) -> bytes:
    head = state.owner, state.generation, state.version, state.claimed, items
    return span(*head, since=0, through=through, gc_version=gc_version)
