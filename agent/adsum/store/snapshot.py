"""The store's state in a file: frames of some 100 KB, each a length, a kind, a codec and MessagePack.

What stands in order is written in order, so reading sorts and inserts nothing. Of the history only the
records *before* each change are written: what came after one is what came before the next one of that key, or
what stands in the table.

A version that meets a kind it does not know cannot read the file, and says so; a new kind needs a new apply
level.
"""

from __future__ import annotations

import enum
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import add
from struct import Struct as Layout
from typing import Any, NamedTuple

from msgspec import DecodeError
from msgspec.msgpack import Decoder, Encoder

from adsum.kv import KeyRecord
from adsum.session import EndedSession, Session
from adsum.store.external import ExternalRow, ExternalStanding, ExternalTable, bytes_of
from adsum.store.history import Change, HistoryBounds
from adsum.store.keyspace import Keyspace
from adsum.store.results import ResultTable
from adsum.store.sessions import SessionTable
from adsum.store.table import FrozenTable
from adsum.store.tombstone import Tombstone

FRAME = Layout("<IBB")  # length of the body, kind, codec
PIECE_BYTES = 100_000
FRAME_BYTES_MAX = 64 << 20  # one record may be large; a block of 256 of the largest values is set in pieces
ROWS_IN_FRAME = 1_000
PLAIN, ZLIB = 0, 1
SAVED_BY_ZLIB_MIN = 0.1  # else it is written as it is
PLAIN_IN_A_ROW = 15
ZLIB_BYTES_MIN = 1_024  # smaller ones are few


class FrameKind(enum.IntEnum):
    HEAD = 1
    SPACE = 2  # whose tables and history follow
    RECORDS = 3
    TOMBSTONES = 4
    TREES = 5
    HISTORY = 6
    RESULTS = 7
    END = 8
    DELAYS = 9  # of the keyspace
    SESSIONS = 10
    ENDED_SESSIONS = 11
    SESSION_REVISIONS = 12
    EXTERNAL = 13
    EXTERNAL_STANDING = 14


class UnreadableState(Exception):
    """This is not a whole state that this version can read."""


class FrozenSpace(NamedTuple):
    name: str
    revision: int
    fence_floor: int
    floor: int
    table: FrozenTable[KeyRecord]
    tombstones: FrozenTable[Tombstone]
    trees: list[tuple[int, bytes]]
    changes: list[Sequence[Change]]  # in order
    delays: list[tuple[bytes, int]]


class FrozenState(NamedTuple):
    applied: int
    cluster_ms: int
    offset: int
    spaces: list[FrozenSpace]
    results_floor: int
    rows: list[tuple[str, int, int, int, dict[int, bytes]]]
    sessions: list[Session]
    ended: list[EndedSession]
    session_revisions: tuple[int, int]
    external: list[ExternalRow]
    external_standing: ExternalStanding


class StoreState(NamedTuple):
    applied: int
    cluster_ms: int
    offset: int  # of revisions, at `applied`
    keyspaces: list[Keyspace]
    results: ResultTable
    sessions: SessionTable
    external: ExternalTable

    def frozen(self) -> FrozenState:
        """As it is now, for another thread to write while it goes on here."""
        rows = [
            (client, row.generation, row.low_water, row.newest, dict(row.answers))
            for client, row in self.results.rows.items()
        ]
        spaces = [
            FrozenSpace(
                *(space.name, space.revision, space.fence_floor, space.history.floor, space.table.freeze()),
                *(space.tombstones.freeze(), space.trees.all(), space.history.frozen()),
                space.delays.all(),
            )
            for space in self.keyspaces
        ]
        return FrozenState(
            *(self.applied, self.cluster_ms, self.offset, spaces, self.results.floor, rows),
            *self.sessions.frozen(),
            session_revisions=(self.sessions.revision, self.sessions.floor),
            external=list(self.external.rows.values()),
            external_standing=self.external.counted(),
        )


_encode = Encoder().encode
_Head = tuple[int, int, int, int]
_Space = tuple[str, int, int, int]
_Undo = tuple[int, bytes, KeyRecord | None, str, int]
_Row = tuple[str, int, int, int, dict[int, bytes]]
_decode: dict[FrameKind, Callable[[bytes], Any]] = {
    FrameKind.HEAD: Decoder(_Head).decode,
    FrameKind.SPACE: Decoder(_Space).decode,
    FrameKind.RECORDS: Decoder(tuple[list[bytes], list[KeyRecord]]).decode,
    FrameKind.TOMBSTONES: Decoder(tuple[list[bytes], list[Tombstone]]).decode,
    FrameKind.TREES: Decoder(list[tuple[int, bytes]]).decode,
    FrameKind.HISTORY: Decoder(list[_Undo]).decode,
    FrameKind.RESULTS: Decoder(list[_Row]).decode,
    FrameKind.END: Decoder(int).decode,
    FrameKind.DELAYS: Decoder(list[tuple[bytes, int]]).decode,
    FrameKind.SESSIONS: Decoder(list[Session]).decode,
    FrameKind.ENDED_SESSIONS: Decoder(list[EndedSession]).decode,
    FrameKind.SESSION_REVISIONS: Decoder(tuple[int, int]).decode,
    FrameKind.EXTERNAL: Decoder(list[ExternalRow]).decode,
    FrameKind.EXTERNAL_STANDING: Decoder(ExternalStanding).decode,
}


# Writing.


def pieces_of(state: FrozenState) -> Iterator[bytes]:
    framed = _Framing().frame
    yield framed(FrameKind.HEAD, (state.applied, state.cluster_ms, state.offset, state.results_floor))
    for space in state.spaces:
        yield framed(FrameKind.SPACE, (space.name, space.revision, space.fence_floor, space.floor))
        for kind, table in ((FrameKind.RECORDS, space.table), (FrameKind.TOMBSTONES, space.tombstones)):
            for block in table.blocks_as_they_go():
                sizes = [entry.bytes_total for entry in block.entries]
                for start, stop in _parts(list(map(add, sizes, map(len, block.keys)))):
                    yield framed(kind, (block.keys[start:stop], block.entries[start:stop]))
        for start, stop in _parts([len(prefix) for _revision, prefix in space.trees]):
            yield framed(FrameKind.TREES, space.trees[start:stop])
        changes = _as_they_go(space.changes)
        while undo := [
            (revision, key, before, via, ms)
            for revision, key, before, _after, via, ms in islice(changes, ROWS_IN_FRAME)
        ]:
            sizes = [len(row[1]) + (row[2].bytes_total if row[2] is not None else 0) for row in undo]
            for start, stop in _parts(sizes):
                yield framed(FrameKind.HISTORY, undo[start:stop])
        for start, stop in _parts([len(key) for key, _until_ms in space.delays]):
            yield framed(FrameKind.DELAYS, space.delays[start:stop])
    for start, stop in _parts([sum(map(len, row[4].values())) for row in state.rows]):
        yield framed(FrameKind.RESULTS, state.rows[start:stop])
    for start, stop in _parts([session.bytes_total for session in state.sessions]):
        yield framed(FrameKind.SESSIONS, state.sessions[start:stop])
    for start, stop in _parts([ended.session.bytes_total for ended in state.ended]):
        yield framed(FrameKind.ENDED_SESSIONS, state.ended[start:stop])
    if any(state.session_revisions):
        yield framed(FrameKind.SESSION_REVISIONS, state.session_revisions)
    for start, stop in _parts([bytes_of(row.item) for row in state.external]):
        yield framed(FrameKind.EXTERNAL, state.external[start:stop])
    if state.external_standing.generation:
        yield framed(FrameKind.EXTERNAL_STANDING, state.external_standing)
    yield framed(FrameKind.END, state.applied)


def _as_they_go(handfuls: list[Sequence[Change]]) -> Iterator[Change]:
    """In order, and each handful is let go of: of what the history has put out meanwhile this is the last
    reference, and to free all of it at once would hold the interpreter for 50 ms."""
    handfuls.reverse()
    while handfuls:
        yield from handfuls.pop()


def _parts(sizes: list[int]) -> Iterator[tuple[int, int]]:
    """From where to where, so that none is large unless one thing is."""
    start, bytes_ = 0, 0
    for place, size in enumerate(sizes):
        if place > start and (bytes_ + size > PIECE_BYTES or place - start == ROWS_IN_FRAME):
            yield start, place
            start, bytes_ = place, 0
        bytes_ += size
    if start < len(sizes):
        yield start, len(sizes)


class _Framing:
    """What does not shrink is not tried again for a while: values are alike, and trying costs most of the
    time."""

    def __init__(self) -> None:
        self._plain_left = 0

    def frame(self, kind: FrameKind, content: object) -> bytes:
        body, codec = _encode(content), PLAIN
        if self._plain_left:
            self._plain_left -= 1
        elif len(body) >= ZLIB_BYTES_MIN:
            smaller = zlib.compress(body, 1)
            if len(smaller) < len(body) * (1 - SAVED_BY_ZLIB_MIN):
                body, codec = smaller, ZLIB
            elif len(body) > PIECE_BYTES // 2:
                self._plain_left = PLAIN_IN_A_ROW
        return FRAME.pack(len(body), kind, codec) + body


# Reading.


def state_from(
    pieces: Iterator[bytes], names: tuple[str, ...], bounds: HistoryBounds, results_bytes_max: int
) -> StoreState:
    keyspaces = {name: Keyspace(name, bounds) for name in names}
    space, undo, head, ended = next(iter(keyspaces.values())), list[_Undo](), None, None
    results, sessions, external = ResultTable(results_bytes_max), SessionTable(), ExternalTable()
    for kind, content in _frames(pieces):
        match kind:
            case FrameKind.HEAD:
                head = content
            case FrameKind.SPACE:
                _redo(space, undo)
                name, revision, fence_floor, floor = content
                if name not in keyspaces:
                    raise UnreadableState(f"it has a keyspace {name!r}, which this version does not know")
                space, undo = keyspaces[name], []
                space.revision, space.fence_floor = revision, fence_floor
                space.history.clear(floor)
            case FrameKind.RECORDS:
                space.table.load(*content)
                space.table_sum.load(*content)
                space.held.load(*content)
            case FrameKind.TOMBSTONES:
                space.tombstones.load(*content)
                space.tombstones_sum.load(*content)
            case FrameKind.TREES:
                for revision, prefix in content:
                    space.trees.add(prefix, revision)
            case FrameKind.HISTORY:
                undo += content
            case FrameKind.RESULTS:
                for row in content:
                    results.load(*row)
            case FrameKind.DELAYS:
                space.delays.load(content)
            case FrameKind.SESSIONS:
                sessions.load(content)
            case FrameKind.ENDED_SESSIONS:
                sessions.load_ended(content)
            case FrameKind.SESSION_REVISIONS:
                sessions.load_revisions(*content)
            case FrameKind.EXTERNAL:
                external.load(content)
            case FrameKind.EXTERNAL_STANDING:
                external.load_counted(content)
            case FrameKind.END:
                ended = content
    _redo(space, undo)
    if head is None or ended != head[0]:
        raise UnreadableState("it ends before its end")
    applied, cluster_ms, offset, results.floor = head
    return StoreState(applied, cluster_ms, offset, list(keyspaces.values()), results, sessions, external)


def _redo(space: Keyspace, undo: list[_Undo]) -> None:
    """What came after each change, from the newest to the oldest."""
    after: dict[bytes, KeyRecord | None] = {}
    changes: list[Change] = []
    for revision, key, before, via, wall_ms in reversed(undo):
        then = after[key] if key in after else space.table.get(key)
        changes.append((revision, key, before, then, via, wall_ms))
        after[key] = before
    for change in reversed(changes):
        space.history.add(change)


def _frames(pieces: Iterator[bytes]) -> Iterator[tuple[FrameKind, Any]]:
    """However the pieces were cut."""
    buffer, offset = bytearray(), 0
    for piece in pieces:
        del buffer[:offset]
        offset = 0
        buffer += piece
        while len(buffer) - offset >= FRAME.size:
            length, kind, codec = FRAME.unpack_from(buffer, offset)
            if length > FRAME_BYTES_MAX:
                raise UnreadableState(f"a frame of {length} bytes; none is longer than {FRAME_BYTES_MAX}")
            end = offset + FRAME.size + length
            if end > len(buffer):
                break
            yield _content(kind, codec, bytes(buffer[offset + FRAME.size : end]))
            offset = end
    if offset != len(buffer):
        raise UnreadableState("it ends within a frame")


def _content(kind: int, codec: int, body: bytes) -> tuple[FrameKind, Any]:
    try:
        if codec == ZLIB:
            body = zlib.decompress(body)
        elif codec != PLAIN:
            raise UnreadableState(f"a frame is written in codec {codec}, which this version does not know")
        frame = FrameKind(kind)
        return frame, _decode[frame](body)
    except (ValueError, zlib.error, DecodeError) as error:
        raise UnreadableState(f"a frame of kind {kind} cannot be read: {error}") from error
