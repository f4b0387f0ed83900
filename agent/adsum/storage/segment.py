"""The Raft log's format: segments of batches of records. Bytes in, values out; no file is touched here.

A segment is a file of fixed length, filled with zeros before it gets its name:

    | header, 4 KiB | batch | batch | … | zeros up to the end |

    batch   = | batch header | record | record | … | BATCH_END | zeros to the next sector |
    record  = | crc | length | kind | … |      ENTRY, HARD_STATE, TRUNCATE, SNAPSHOT, BATCH_END

One batch is one write and one sync, and the next one is not written before that sync returned. From this
and from the zeros below follows all that recovery knows:

- Every CRC of a batch starts from a seed made of the log's salt and the segment's sequence. So what an
  earlier use of the file left validates nowhere, and neither does what a client writes: entries carry
  values that anybody may choose, and only who knows the salt could make one look like a batch. It is
  minted with the log, stands in its segments' headers, and nothing shows it. Each batch chains the CRCs of
  its records onto the batch before, so nothing can be taken out.
- A batch begins on a sector, and its header names the segment, its number, its place and its length: it is
  found, and recognised as out of place, wherever it lies.
- The header counts the sectors of the batch that are zeros by nature. A write cut short by a power loss
  leaves whole sectors as they were, which is zeros: *more* zero sectors than counted. A flipped bit never
  makes one. So even the very last batch tells whether it was never finished, or was acknowledged and is
  damaged since.

Entries are the hot path: one `pack` and one CRC each (zlib's is 160 ns for 300 bytes, no slower than
crc32c).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field
from itertools import chain as chained
from typing import NamedTuple

import cbor2

from adsum.dedup import DedupKey
from adsum.raft.types import (
    NO_OFFSET,
    Entry,
    EntryKind,
    HardState,
    MemberId,
    RevisionOffset,
    SnapshotRef,
    Term,
)
from adsum.storage.files import SECTOR_BYTES

FORMAT_VERSION = 3
SEGMENT_HEADER_BYTES = 4096
ZERO_SECTOR = bytes(SECTOR_BYTES)
SALT_BYTES = 16

_SEGMENT_MAGIC = b"ADSUMLOG"
_BATCH_MAGIC = b"ADSB"

_SEGMENT = struct.Struct("<8sII")  # magic, crc, length of the cbor that follows
# magic, crc | segment, batch, term, offset, bytes (padding not counted), zero sectors
_BATCH = struct.Struct("<4sIQQQIII")
_BATCH_BODY = struct.Struct("<QQQIII")
_RECORD = struct.Struct("<IIB")  # crc | length of the whole record, kind
# length, kind, entry kind, bytes of the dedup client, apply level, term, index, cluster time
_ENTRY = struct.Struct("<IBBBIQQQ")
_DEDUP = struct.Struct("<QQQI")  # generation, sequence, low water, attempt; after the client's name
_HARD_STATE = struct.Struct("<IBBBQQ")  # length, kind, bytes of the vote's node, of its log, term, commit
_TRUNCATE = struct.Struct("<IBQ")  # length, kind, from
# length, kind, whether it replaces the log, index, term, bytes, sha-256
_SNAPSHOT = struct.Struct("<IB?QQQ32s")
# length, kind, records before it, chain, and a byte that keeps the last sector from being all zeros
_BATCH_END = struct.Struct("<IBIIB")
_CRC = struct.Struct("<I")

_ENTRY_KIND, _HARD_STATE_KIND, _TRUNCATE_KIND, _SNAPSHOT_KIND, _BATCH_END_KIND = 1, 2, 3, 4, 5
_LAST_BYTE = 0xE5
_ENTRY_BYTES = 4 + _ENTRY.size


class DamagedSegment(Exception):
    """These bytes are not what was written; the sentence says how that shows. Normal after a power loss."""


@dataclass(frozen=True, slots=True)
class LogIdentity:
    """Whose log this is. The cluster is empty until one is joined; the epoch is raised by quorum recovery."""

    node: str
    log: str
    cluster: str = ""
    epoch: int = 0

    @property
    def member(self) -> MemberId:
        return MemberId(self.node, self.log)


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """What the log came to before this segment, so that all earlier ones may go."""

    identity: LogIdentity
    sequence: int
    first_batch: int
    chain: int
    last_index: int
    length_bytes: int
    hard_state: HardState
    snapshot: SnapshotRef | None
    salt: bytes = field(repr=False)  # the same in all segments of a log
    offset: RevisionOffset = NO_OFFSET


class Truncate(NamedTuple):
    from_index: int


class Snapshot(NamedTuple):
    """It stands for everything up to its index; if it replaces the log, no earlier entry remains at all."""

    ref: SnapshotRef
    replaces_log: bool


Record = Entry | HardState | Truncate | Snapshot


class BatchHeader(NamedTuple):
    segment: int
    batch: int
    term: int  # promised, once this batch is durable
    offset: int
    length: int
    zero_sectors: int


@dataclass(frozen=True, slots=True)
class BatchPlace:
    """Where a batch goes, and what it is chained to."""

    segment: int
    batch: int
    offset: int
    chain: int
    salt: bytes = field(repr=False)


def seed_of(segment: int, salt: bytes) -> int:
    return zlib.crc32(segment.to_bytes(8, "little"), zlib.crc32(salt))


def padded(length: int) -> int:
    return -(-length // SECTOR_BYTES) * SECTOR_BYTES


# Segment headers.


def encode_segment_header(header: SegmentHeader) -> bytes:
    identity, hard_state = header.identity, header.hard_state
    body = cbor2.dumps(
        [
            FORMAT_VERSION,
            [identity.node, identity.log, identity.cluster, identity.epoch],
            [header.sequence, header.first_batch, header.chain, header.last_index, header.length_bytes],
            [hard_state.term, hard_state.vote, hard_state.commit],
            astuple(header.snapshot) if header.snapshot else None,
            header.salt,
            list(header.offset),
        ]
    )
    assert _SEGMENT.size + len(body) <= SEGMENT_HEADER_BYTES, "ids are bounded, so a header fits its page"
    content = _SEGMENT.pack(_SEGMENT_MAGIC, zlib.crc32(body, _header_seed(header.sequence)), len(body)) + body
    return content.ljust(SEGMENT_HEADER_BYTES, b"\0")


def decode_segment_header(content: bytes, sequence: int) -> SegmentHeader:
    if len(content) < SEGMENT_HEADER_BYTES:
        raise DamagedSegment("the segment ends within its header")
    magic, crc, length = _SEGMENT.unpack_from(content)
    body = content[_SEGMENT.size : _SEGMENT.size + length]
    if magic != _SEGMENT_MAGIC or zlib.crc32(body, _header_seed(sequence)) != crc:
        raise DamagedSegment("the segment's header does not match its checksum")
    version, *fields = cbor2.loads(body)
    assert version == FORMAT_VERSION, f"a segment of format {version}; this program reads {FORMAT_VERSION}"
    identity, position, (term, vote, commit), snapshot, salt, offset = fields
    hard_state = HardState(term, MemberId(*vote) if vote else None, commit)
    ref = SnapshotRef(*snapshot) if snapshot else None
    sequence, first_batch, chain, last_index, length_bytes = position
    return SegmentHeader(
        LogIdentity(*identity),
        sequence,
        first_batch,
        chain,
        last_index,
        length_bytes,
        hard_state,
        ref,
        salt,
        RevisionOffset(*offset),
    )


def _header_seed(sequence: int) -> int:
    """Without the salt, which is in it; a segment's header is nowhere but at the start of its file."""
    return zlib.crc32(sequence.to_bytes(8, "little"))


# Writing a batch.


def data_bytes(records: Sequence[Record]) -> int:
    """What a batch of these has at least: what clients wrote, which is nearly all of a large one."""
    return sum([len(each.data) for each in records if type(each) is Entry])


def encode_batch(place: BatchPlace, records: Sequence[Record], *, term: int) -> tuple[bytes, int]:
    """The bytes, padded to whole sectors, and the chain's new end."""
    seed, crc32, pack_crc = seed_of(place.segment, place.salt), zlib.crc32, _CRC.pack
    bodies = [_encode_entry(each) if type(each) is Entry else _encode_other(each) for each in records]
    crcs = [pack_crc(crc32(body, seed)) for body in bodies]
    chain = crc32(b"".join(crcs), place.chain)
    size = 4 + _BATCH_END.size
    bodies.append(_BATCH_END.pack(size, _BATCH_END_KIND, len(crcs), chain, _LAST_BYTE))
    crcs.append(pack_crc(crc32(bodies[-1], seed)))
    content = b"".join(chained.from_iterable(zip(crcs, bodies, strict=True)))
    return _with_header(place, content, seed, term=term), chain


def _with_header(place: BatchPlace, content: bytes, seed: int, *, term: int) -> bytes:
    length = _BATCH.size + len(content)
    padding = bytes(padded(length) - length)
    zero_sectors = count_zero_sectors(bytes(_BATCH.size) + content) if ZERO_SECTOR in content else 0
    body = _BATCH_BODY.pack(place.segment, place.batch, term, place.offset, length, zero_sectors)
    head = _BATCH_MAGIC + _CRC.pack(zlib.crc32(body, seed)) + body
    return b"".join((head, content, padding))


def _encode_entry(entry: Entry) -> bytes:
    dedup, data = entry.dedup, entry.data
    numbers = (entry.apply_level, entry.term, entry.index, entry.time_ms)
    if dedup is None:
        length = _ENTRY_BYTES + len(data)
        return _ENTRY.pack(length, _ENTRY_KIND, entry.kind, 0, *numbers) + data
    client = dedup.client.encode()
    assert client, "a request without a client could not be read back"
    length = _ENTRY_BYTES + len(client) + _DEDUP.size + len(data)
    head = _ENTRY.pack(length, _ENTRY_KIND, entry.kind, len(client), *numbers)
    return b"".join((head, client, _DEDUP.pack(*dedup.numbers), data))


def _encode_other(record: Record) -> bytes:
    match record:
        case HardState(term, vote, commit):
            node, log = (vote.node.encode(), vote.log.encode()) if vote else (b"", b"")
            length = 4 + _HARD_STATE.size + len(node) + len(log)
            head = _HARD_STATE.pack(length, _HARD_STATE_KIND, len(node), len(log), term, commit)
            return head + node + log
        case Truncate(from_index):
            return _TRUNCATE.pack(4 + _TRUNCATE.size, _TRUNCATE_KIND, from_index)
        case Snapshot(ref, replaces_log):
            return _SNAPSHOT.pack(4 + _SNAPSHOT.size, _SNAPSHOT_KIND, replaces_log, *astuple(ref))
    raise AssertionError(f"{type(record).__name__} has no place in a log")


# Reading a batch.


def decode_batch_header(content: bytes, offset: int, salt: bytes) -> BatchHeader | None:
    """What lies at `offset`, if it is a batch header of this log: of any segment, meant for any place."""
    if content[offset : offset + 4] != _BATCH_MAGIC or len(content) - offset < _BATCH.size:
        return None
    _, crc, *fields = _BATCH.unpack_from(content, offset)
    header = BatchHeader(*fields)
    body = content[offset + 8 : offset + _BATCH.size]
    return header if zlib.crc32(body, seed_of(header.segment, salt)) == crc else None


def decode_batch(content: bytes, place: BatchPlace) -> tuple[BatchHeader, list[Record], int]:
    """The batch expected at this place, and the chain's new end; or `DamagedSegment`."""
    header = decode_batch_header(content, place.offset, place.salt)
    if header is None:
        raise DamagedSegment("no batch begins here")
    if (header.segment, header.batch, header.offset) != (place.segment, place.batch, place.offset):
        raise DamagedSegment(
            f"batch {header.batch} of segment {header.segment} lies where {place.batch} belongs"
        )
    body = content[place.offset : place.offset + header.length]
    records, crcs, end = _decode_records(body, seed_of(place.segment, place.salt))
    chain = zlib.crc32(b"".join(crcs), place.chain)
    if end != (len(records), chain):
        raise DamagedSegment("the batch does not continue the one before it")
    return header, records, chain


def decode_records(content: bytes, segment: int, salt: bytes) -> list[Record]:
    """Of a batch that was whole when it was written; `DamagedSegment` if it no longer is."""
    header = decode_batch_header(content, 0, salt)
    if header is None or header.segment != segment:
        raise DamagedSegment("no batch begins here")
    return _decode_records(content[: header.length], seed_of(segment, salt))[0]


def _decode_records(content: bytes, seed: int) -> tuple[list[Record], list[bytes], tuple[int, int]]:
    records, crcs = list[Record](), list[bytes]()
    offset, limit = _BATCH.size, len(content)
    while offset + _RECORD.size <= limit:
        crc, size, kind = _RECORD.unpack_from(content, offset)
        body = content[offset + 4 : offset + size]
        if not _RECORD.size <= size <= limit - offset or zlib.crc32(body, seed) != crc:
            raise DamagedSegment(f"record {len(records)} of the batch does not match its checksum")
        crcs.append(content[offset : offset + 4])
        offset += size
        if kind == _BATCH_END_KIND and offset == limit:
            _, _, count, chain, _ = _BATCH_END.unpack(body)
            return records, crcs[:-1], (count, chain)
        records.append(_decode_entry(body) if kind == _ENTRY_KIND else _decode_other(kind, body))
    raise DamagedSegment("the batch has no end")


def _decode_entry(body: bytes) -> Entry:
    _, _, kind, client_bytes, apply_level, term, index, time_ms = _ENTRY.unpack_from(body)
    start = _ENTRY.size
    dedup = None
    if client_bytes:
        client = body[start : start + client_bytes].decode()
        dedup = DedupKey(client, *_DEDUP.unpack_from(body, start + client_bytes))
        start += client_bytes + _DEDUP.size
    return Entry(index, Term(term), EntryKind(kind), time_ms, apply_level, dedup, body[start:])


def _decode_other(kind: int, body: bytes) -> Record:
    if kind == _HARD_STATE_KIND:
        _, _, node_bytes, log_bytes, term, commit = _HARD_STATE.unpack_from(body)
        node, log = body[_HARD_STATE.size :][:node_bytes], body[_HARD_STATE.size + node_bytes :]
        vote = MemberId(node.decode(), log.decode()) if node_bytes or log_bytes else None
        return HardState(Term(term), vote, commit)
    if kind == _TRUNCATE_KIND:
        return Truncate(_TRUNCATE.unpack(body)[2])
    if kind == _SNAPSHOT_KIND:
        _, _, replaces_log, index, term, size_bytes, sha256 = _SNAPSHOT.unpack(body)
        return Snapshot(SnapshotRef(index, Term(term), size_bytes, sha256), replaces_log)
    raise DamagedSegment(f"a record of kind {kind}, which this program does not know")


# Zeros.


def count_zero_sectors(content: bytes) -> int:
    starts = range(0, len(content), SECTOR_BYTES)
    return sum(content[start : start + SECTOR_BYTES] == ZERO_SECTOR for start in starts)


def content_end(content: bytes) -> int:
    """Where the last sector that is not zeros ends."""
    return padded(len(content.rstrip(b"\0")))


def find_batch_headers(content: bytes, start: int, salt: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """Every whole header of this log that begins on a sector, whatever segment or place it was meant for."""
    offset = content.find(_BATCH_MAGIC, start)
    while offset >= 0:
        if offset % SECTOR_BYTES == 0 and (header := decode_batch_header(content, offset, salt)):
            yield offset, header
        offset = content.find(_BATCH_MAGIC, offset + 1)


def find_segment_headers(content: bytes, start: int, sequence: int, salt: bytes) -> Iterator[SegmentHeader]:
    """Every whole header of this log's segment `sequence` that begins on a sector. Salt first: what a client
    wrote holds none, and is not decoded."""
    for offset in range(start, len(content), SECTOR_BYTES):
        if not content.startswith(_SEGMENT_MAGIC, offset):
            continue
        head = content[offset : offset + SEGMENT_HEADER_BYTES].ljust(SEGMENT_HEADER_BYTES, b"\0")
        _, _, length = _SEGMENT.unpack_from(head)
        if salt in head[: _SEGMENT.size + length]:
            with suppress(DamagedSegment):
                yield decode_segment_header(head, sequence)
