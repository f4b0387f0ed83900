"""The bytes themselves: these literals are what logs out there are made of."""

from __future__ import annotations

import struct
import zlib

import pytest

from adsum.dedup import DedupKey
from adsum.raft.types import Entry, EntryKind, HardState, MemberId, SnapshotRef, Term
from adsum.storage.segment import (
    SEGMENT_HEADER_BYTES,
    BatchPlace,
    DamagedSegment,
    LogIdentity,
    Record,
    SegmentHeader,
    Snapshot,
    Truncate,
    decode_batch,
    decode_records,
    decode_segment_header,
    encode_batch,
    encode_segment_header,
    find_batch_headers,
    padded,
)

SALT = b"shown by nothing"
PLACE = BatchPlace(segment=2, batch=9, offset=0, chain=0x01020304, salt=SALT)
REF = SnapshotRef(5, Term(2), 1000, bytes(range(32)))
RECORDS: list[Record] = [
    Snapshot(REF, replaces_log=True),
    Truncate(6),
    Entry(6, Term(3), EntryKind.COMMAND, 77, 1, None, b"data"),
    Entry(7, Term(3), EntryKind.CONFIGURATION, 78, 2, DedupKey("agënt", 1, 2, 3), b""),
    HardState(Term(3), MemberId("node", "log"), 6),
    HardState(Term(4), None, 6),
]


def test_an_entry_is_these_bytes() -> None:
    content, _ = encode_batch(PLACE, [RECORDS[2]], term=3)
    body = bytes.fromhex(
        "2b000000 01 00 00 01000000 0300000000000000 0600000000000000 4d00000000000000 64617461"
    )
    seed = zlib.crc32(bytes.fromhex("0200000000000000"), zlib.crc32(SALT))
    assert content[44:87] == struct.pack("<I", zlib.crc32(body, seed)) + body


def test_a_batch_begins_with_these_bytes_and_fills_whole_sectors() -> None:
    content, chain = encode_batch(PLACE, [RECORDS[2]], term=3)
    head = bytes.fromhex("0200000000000000 0900000000000000 0300000000000000 00000000 69000000 00000000")
    seed = zlib.crc32(bytes.fromhex("0200000000000000"), zlib.crc32(SALT))
    assert content[:44] == b"ADSB" + struct.pack("<I", zlib.crc32(head, seed)) + head
    assert chain == zlib.crc32(content[44:48], 0x01020304)
    assert content[91:105] == bytes.fromhex("12000000 05 01000000") + struct.pack("<I", chain) + b"\xe5"
    assert len(content) == 512
    assert content[105:] == bytes(407)


def test_every_kind_of_record_comes_back_as_it_was() -> None:
    content, chain = encode_batch(PLACE, RECORDS, term=4)
    header, records, end = decode_batch(content, PLACE)
    assert (records, end, header.term) == (RECORDS, chain, 4)
    assert decode_records(content, 2, SALT) == RECORDS


def test_rd14_an_entry_that_could_not_be_read_back_is_not_written() -> None:
    nameless = Entry(6, Term(3), EntryKind.COMMAND, 77, 1, DedupKey("", 1, 2, 3), b"data")
    with pytest.raises(AssertionError, match="without a client"):
        encode_batch(PLACE, [nameless], term=3)


def test_a_batch_of_another_segment_place_or_number_does_not_validate() -> None:
    """As bytes that an earlier life of the file left, or that went astray."""
    content, _ = encode_batch(PLACE, RECORDS, term=4)
    for other in (
        BatchPlace(3, 9, 0, 0x01020304, SALT),
        BatchPlace(2, 8, 0, 0x01020304, SALT),
        BatchPlace(2, 10, 0, 0x01020304, SALT),
    ):
        with pytest.raises(DamagedSegment, match="lies where"):
            decode_batch(content, other)
    with pytest.raises(DamagedSegment, match="lies where"):
        decode_batch(bytes(512) + content, BatchPlace(2, 9, 512, 0x01020304, SALT))


def test_a_whole_batch_of_another_history_breaks_the_chain() -> None:
    content, _ = encode_batch(PLACE, RECORDS, term=4)
    with pytest.raises(DamagedSegment, match="does not continue"):
        decode_batch(content, BatchPlace(2, 9, 0, 0x01020305, SALT))


def test_records_validate_only_under_their_segments_seed() -> None:
    first, _ = encode_batch(PLACE, RECORDS, term=4)
    second, _ = encode_batch(BatchPlace(3, 9, 0, 0x01020304, SALT), RECORDS, term=4)
    mixed = second[:44] + first[44:]
    with pytest.raises(DamagedSegment, match="record 0"):
        decode_batch(mixed, BatchPlace(3, 9, 0, 0x01020304, SALT))


def test_sectors_of_zeros_by_nature_are_counted_and_the_last_is_never_one() -> None:
    for size in range(440, 2600):
        entry = Entry(1, Term(1), EntryKind.COMMAND, 1, 1, None, bytes(size))
        content, _ = encode_batch(PLACE, [entry], term=1)
        header = next(header for _, header in find_batch_headers(content, 0, SALT))
        sectors = [content[start : start + 512] for start in range(0, len(content), 512)]
        assert header.zero_sectors == sectors.count(bytes(512))
        assert sectors[-1] != bytes(512)
        assert padded(header.length) == len(content)


def test_a_segment_header_comes_back_as_it_was_and_only_under_its_own_name() -> None:
    identity = LogIdentity("node", "log", "cluster", 3)
    header = SegmentHeader(
        identity, 7, 100, 0xFFFFFFFF, 55, 8192, HardState(Term(9), MemberId("a", "b"), 50), REF, SALT
    )
    content = encode_segment_header(header)
    assert len(content) == SEGMENT_HEADER_BYTES
    assert content[:8] == b"ADSUMLOG"
    assert decode_segment_header(content, 7) == header
    with pytest.raises(DamagedSegment, match="does not match its checksum"):
        decode_segment_header(content, 8)
    with pytest.raises(DamagedSegment, match="ends within"):
        decode_segment_header(content[:100], 7)
