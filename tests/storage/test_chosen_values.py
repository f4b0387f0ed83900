"""What a client writes changes no verdict: values that look like batches, and the power gone meanwhile."""

from __future__ import annotations

import struct
import zlib
from random import Random

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.raft.batch import LogChange
from adsum.storage.files import SECTOR_BYTES
from adsum.storage.recovery import LogVerdict
from adsum.storage.segment import SEGMENT_HEADER_BYTES, find_batch_headers
from adsum.storage.segment_files import segment_name
from tests.storage.raft_logs import NODE, entries, entry, new_disk, opened, salt, state

SEGMENT_BYTES = 1 << 16
HIGHEST = (1 << 64) - 1


def forged(batch: int, term: int, *, guessed_salt: bytes | None = None, offset: int = 4096) -> bytes:
    """A batch header as somebody writes it who knows this program and what a log's numbers come to."""
    body = struct.pack("<QQQIII", 1, batch, term, offset, 600, 0)
    seed = zlib.crc32((1).to_bytes(8, "little"), zlib.crc32(guessed_salt) if guessed_salt else 0)
    return b"ADSB" + struct.pack("<I", zlib.crc32(body, seed)) + body + b"\xee"


def log_with_a_torn_batch(value: bytes, missing: int) -> tuple[LogVerdict, int, str]:
    """`missing`: which sector of the batch with this value never came to the disk."""
    disk = new_disk()
    log = opened(disk, segment_bytes=SEGMENT_BYTES).log
    log.append([LogChange(entries=entries(1, 1), hard_state=state(1, commit=1))])
    log.append([LogChange(entries=[entry(2, data=value)])])
    file = disk.open(segment_name(1))
    first = SEGMENT_HEADER_BYTES // SECTOR_BYTES + 1
    file.write((first + missing) * SECTOR_BYTES, bytes(SECTOR_BYTES))
    file.sync()
    found = opened(disk, segment_bytes=SEGMENT_BYTES, minted="log-2")
    assert found.restored.entries == tuple(entries(1, 1))
    return found.verdict, found.restored.hard_state.term, found.log.identity.log


# One header every 45 bytes lies at each of the 512 places that it can have in a sector, sooner or later.
REPEATED = 45 * SECTOR_BYTES
NUMBERS = [(2, 1), (3, 1), (3, 7_000_000), (1 << 40, 9), (HIGHEST, 9), (HIGHEST, HIGHEST)]


@pytest.mark.parametrize(("batch", "term"), NUMBERS)
def test_a_value_full_of_batch_headers_is_torn_like_any_other(batch: int, term: int) -> None:
    for shift in range(0, 45, 7):
        value = (b"v" * shift + forged(batch, term) * SECTOR_BYTES)[:REPEATED]
        sectors = REPEATED // SECTOR_BYTES
        for missing in (0, 1, sectors // 2, sectors - 1):
            assert log_with_a_torn_batch(value, missing) == (LogVerdict.TORN, 1, "log-1")


# Before a value lie the headers of its batch and of its entry.
TO_THE_NEXT_SECTOR = SECTOR_BYTES - 44 - 39


@given(
    shift=st.one_of(st.just(TO_THE_NEXT_SECTOR), st.integers(0, SECTOR_BYTES - 1)),
    batch=st.one_of(st.integers(0, 12), st.integers(0, HIGHEST)),
    term=st.one_of(st.integers(0, 4), st.integers(0, HIGHEST)),
    offset=st.sampled_from([4096, 4608, 5120, 5632]),
    guessed_salt=st.one_of(st.none(), st.binary(min_size=16, max_size=16)),
    missing=st.integers(0, 6),
)
def test_no_value_changes_what_a_power_cut_is_taken_for(
    shift: int, batch: int, term: int, offset: int, guessed_salt: bytes | None, missing: int
) -> None:
    head = forged(batch, term, guessed_salt=guessed_salt, offset=offset)
    value = b"v" * shift + (head + b"v" * (SECTOR_BYTES - len(head))) * 7
    assert log_with_a_torn_batch(value, missing) == (LogVerdict.TORN, 1, "log-1")


def segment_header(fields: list[object]) -> bytes:
    """Of the next segment, as somebody writes it who knows this program; its checksum holds no secret."""
    body = cbor2.dumps(fields)
    crc = zlib.crc32(body, zlib.crc32((2).to_bytes(8, "little")))
    return b"ADSUMLOG" + struct.pack("<II", crc, len(body)) + body


@pytest.mark.parametrize(
    "fields",
    [
        [3, [NODE, "log-1", "", 0], [2, 9, 0, 9, 65536], [1, None, 1], None, b"a guessed salt..", [0, 0]],
        [3, "no header at all"],
        [99],
    ],
    ids=["guessed", "malformed", "of a later format"],
)
def test_a_value_full_of_segment_headers_is_torn_like_any_other(fields: list[object]) -> None:
    head = segment_header(fields)
    value = b"v" * TO_THE_NEXT_SECTOR + head.ljust(SECTOR_BYTES, b"v") * 7
    for missing in range(8):
        assert log_with_a_torn_batch(value, missing) == (LogVerdict.TORN, 1, "log-1")


def test_even_who_knows_the_salt_gives_a_log_no_number_that_it_cannot_have() -> None:
    """The salt protects; but a number once believed stays for good, so none is without bounds."""
    for batch, term in ((1 << 40, 9), (HIGHEST, 9), (3, HIGHEST)):
        head = forged(batch, term, guessed_salt=salt())
        value = head + b"v" * 3000
        content = bytes(SECTOR_BYTES) + value
        assert [header.batch for _, header in find_batch_headers(content, 0, salt())] == [batch]
        for shift in range(SECTOR_BYTES):
            verdict, found_term, _ = log_with_a_torn_batch(b"v" * shift + value, 6)
            assert (verdict, found_term) == (LogVerdict.TORN, 1)


def test_each_log_has_a_salt_of_its_own_and_keeps_it() -> None:
    disk = new_disk()
    log = opened(disk, segment_bytes=SEGMENT_BYTES).log
    log.append([LogChange(entries=entries(1, 1), hard_state=state(1))])
    log.join("cluster", 0)  # begins a segment
    log.append([LogChange(entries=entries(2, 2))])
    for sequence in (1, 2):
        content = disk.open(segment_name(sequence)).read(0, SEGMENT_BYTES)
        assert salt() in content[:SEGMENT_HEADER_BYTES]
        assert salt() not in content[SEGMENT_HEADER_BYTES:]
    disk.lose_power()
    assert opened(disk, segment_bytes=SEGMENT_BYTES).restored.entries == tuple(entries(1, 2))


def test_a_segment_of_another_log_is_no_part_of_this_one() -> None:
    disk, other = new_disk(), new_disk(1)
    for each, secret in (
        (disk, salt),
        (other, lambda: b"another secret.."),
    ):
        log = opened(each, segment_bytes=SEGMENT_BYTES, mint_salt=secret).log
        log.append([LogChange(entries=entries(1, 1), hard_state=state(1))])
        log.join("cluster", 0)
        log.append([LogChange(entries=entries(2, 2))])
    foreign = other.open(segment_name(2)).read(0, SEGMENT_BYTES)
    file = disk.open(segment_name(2))
    file.write(0, foreign)
    file.sync()
    found = opened(disk.copy(Random(0)), segment_bytes=SEGMENT_BYTES, minted="log-2")
    assert found.verdict is LogVerdict.CORRUPT
    assert "of another log" in found.findings[0]


def test_nothing_shows_the_salt() -> None:
    log = opened(new_disk(), segment_bytes=SEGMENT_BYTES).log
    shown = f"{log.identity!r} {log._standing!r} {log._position!r}"
    assert repr(salt()) not in shown
