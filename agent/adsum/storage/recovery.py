"""Reading a log after an accident, and telling which kind it was.

A log ends in one of three ways:

    clean      zeros follow the last batch
    torn       the power went while a batch was being written: nobody was told of it, so it is taken away
    corrupt    something that was acknowledged is damaged or missing

To take the third for the second would be to forget silently, and a voter that forgets may elect a leader
without what was committed. So damage is torn only if all of this holds, and corruption otherwise:

1. No whole batch of the same or a higher number lies anywhere: in this segment, in a later one, in the
   spare file. A batch is written only after the one before was synced, so a later one proves that this one
   was whole once. So does the header of the next segment if it names a later one as its first: where it went
   astray, it is one sector, and seven of zeros that look as if nothing had been written there.
2. The batch lacks whole sectors: more of its sectors are zeros than its header counted, or the sector of
   the header itself is. A write cut short does that; rot, which turns bits over, does not.
3. Nothing lies behind the place where the batch would end.
4. What remains reaches as far as the last commit that is recorded, and back to the snapshot.

What counts as one sector is 512 bytes; disks that write 4,096 at once only make fewer tears. What is
corrupt keeps the part before the damage, which is a true log as it was then, only shorter.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from adsum.raft.types import NO_OFFSET, Entry, RevisionOffset, SnapshotRef
from adsum.storage.files import SECTOR_BYTES, Folder, ReadFailed
from adsum.storage.replay import ReplayedLog
from adsum.storage.segment import (
    SEGMENT_HEADER_BYTES,
    ZERO_SECTOR,
    BatchHeader,
    BatchPlace,
    DamagedSegment,
    LogIdentity,
    Record,
    SegmentHeader,
    Snapshot,
    Truncate,
    content_end,
    count_zero_sectors,
    decode_batch,
    decode_batch_header,
    decode_segment_header,
    find_batch_headers,
    find_segment_headers,
    padded,
)
from adsum.storage.segment_files import DAMAGED_SUFFIX, SPARE, segment_name, segment_sequences

# Stands for sectors that cannot be read: neither zeros nor valid, and so never taken for torn.
_UNREADABLE = b"\xee" * SECTOR_BYTES
TERM_MAX = 1 << 62  # servers take no higher number from each other either


class LogVerdict(enum.Enum):
    NEW = "new"  # there is no log yet
    CLEAN = "clean"
    TORN = "torn"
    CORRUPT = "corrupt"


@dataclass(slots=True)
class Recovery:
    """Everything a log needs to go on from where it ends."""

    verdict: LogVerdict = LogVerdict.NEW
    findings: list[str] = field(default_factory=list)  # for the operator, one sentence each
    identity: LogIdentity | None = None
    salt: bytes = field(default=b"", repr=False)  # of the first segment whose header is whole
    offset: RevisionOffset = NO_OFFSET
    standing: ReplayedLog = field(default_factory=ReplayedLog)
    entries: list[Entry] = field(default_factory=list)
    segments: list[SegmentHeader] = field(default_factory=list)
    next_batch: int = 1
    chain: int = 0
    end: int = SEGMENT_HEADER_BYTES  # in the last segment
    last_batch: tuple[int, bytes] | None = None  # of the last segment, where and what
    spare: bytes = b""  # of the file that holds zeros, if all is well
    sectors: int = 0  # in all files together, and so more than batches can follow
    # Seen anywhere, in damaged parts too: what a log begun anew must stay above, and may stand on.
    highest_sequence: int = 0  # with those set aside earlier, whose names are taken too
    highest_term: int = 0
    snapshots: list[SnapshotRef] = field(default_factory=list)

    def replay(self, records: list[Record], segment: int, offset: int, length: int) -> None:
        for record in records:
            match record:
                case Entry():
                    self.entries.append(record)
                case Truncate(from_index):
                    while self.entries and self.entries[-1].index >= from_index:
                        self.entries.pop()
                case Snapshot(ref, replaces_log):
                    self.snapshots.append(ref)
                    if replaces_log:
                        self.entries.clear()
        self.standing.take(records, segment, offset, length)

    def corrupt(self, sentence: str) -> None:
        self.verdict = LogVerdict.CORRUPT
        self.findings.append(sentence)

    def note_header(self, header: SegmentHeader) -> None:
        self.highest_term = max(self.highest_term, header.hard_state.term)
        if header.snapshot:
            self.snapshots.append(header.snapshot)

    def note(self, header: BatchHeader) -> None:
        self.highest_term = max(self.highest_term, header.term)

    def can_follow(self, header: BatchHeader) -> bool:
        """Numbers that no log gets to are nobody's, whatever their checksum says."""
        return header.batch < self.next_batch + self.sectors and header.term < TERM_MAX


def recover(folder: Folder) -> Recovery:
    """Reads everything and changes nothing."""
    sequences, damaged = segment_sequences(folder), segment_sequences(folder, DAMAGED_SUFFIX)
    recovery = Recovery(highest_sequence=max(sequences + damaged, default=0))
    if not sequences:
        return recovery
    recovery.verdict = LogVerdict.CLEAN
    recovery.spare = read_patched(folder, SPARE) if SPARE in folder.names() else b""
    recovery.sectors = _sectors_of(folder, [SPARE, *map(segment_name, sequences)])
    for position, sequence in enumerate(sequences):
        if sequence != sequences[0] + position:
            recovery.corrupt(f"the segment before {segment_name(sequence)} is missing")
        elif recovery.verdict is LogVerdict.CLEAN:
            _read_segment(folder, sequence, recovery, is_last=sequence == sequences[-1])
        if recovery.verdict is LogVerdict.CORRUPT:
            _survey(read_patched(folder, segment_name(sequence)), sequence, recovery)
    if recovery.verdict is not LogVerdict.CORRUPT and not recovery.standing.is_whole:
        recovery.corrupt("the log ends before what is known to be committed, or begins after its snapshot")
    return recovery


def _sectors_of(folder: Folder, names: Sequence[str]) -> int:
    present = set(folder.names())
    return sum(_length(folder, name) for name in names if name in present) // SECTOR_BYTES


def _length(folder: Folder, name: str) -> int:
    file = folder.open(name)
    try:
        return file.length()
    finally:
        file.close()


def read_patched(folder: Folder, name: str) -> bytes:
    """All of a file; sectors that the disk cannot read are filled with what nothing takes for data."""
    file = folder.open(name)
    try:
        with suppress(ReadFailed):
            return file.read(0, file.length())
        sectors = []
        for offset in range(0, file.length(), SECTOR_BYTES):
            try:
                sectors.append(file.read(offset, SECTOR_BYTES))
            except ReadFailed:
                sectors.append(_UNREADABLE)
        return b"".join(sectors)
    finally:
        file.close()


def _read_segment(folder: Folder, sequence: int, recovery: Recovery, *, is_last: bool) -> None:
    content = read_patched(folder, segment_name(sequence))
    try:
        header = decode_segment_header(content, sequence)
        _check_header(header, content, recovery)
    except DamagedSegment as reason:
        recovery.corrupt(f"{segment_name(sequence)}: {reason}")
        return
    if not recovery.segments:
        recovery.salt = header.salt
        recovery.standing = ReplayedLog.after(header)
        recovery.next_batch, recovery.chain = header.first_batch, header.chain
    recovery.identity, recovery.offset = header.identity, max(recovery.offset, header.offset)
    recovery.segments.append(header)
    recovery.end, recovery.last_batch = SEGMENT_HEADER_BYTES, None
    recovery.note_header(header)
    damage = _read_batches(content, sequence, recovery)
    if is_last and (later := _later_batch(recovery.spare, 0, recovery)):
        recovery.corrupt(f"{SPARE}: batch {later} lies there, so it was written and went astray")
    elif is_last and (after := _begun_after(content, recovery)):
        recovery.corrupt(
            f"{segment_name(sequence)}, batch {recovery.next_batch} at {recovery.end}: {damage}; the segment"
            f" after it begins with batch {after}, so it was whole once"
        )
    elif content_end(content) > recovery.end:
        _judge(content, damage, recovery, is_last=is_last)


def _check_header(header: SegmentHeader, content: bytes, recovery: Recovery) -> None:
    if header.length_bytes != len(content):
        raise DamagedSegment(f"it is {len(content)} bytes long and was made with {header.length_bytes}")
    follows = (header.first_batch, header.chain) == (recovery.next_batch, recovery.chain)
    if recovery.segments and header.salt != recovery.salt:
        raise DamagedSegment("it is of another log")
    if recovery.segments and not follows:
        raise DamagedSegment(f"it begins with batch {header.first_batch}, and {recovery.next_batch} is next")


def _read_batches(content: bytes, sequence: int, recovery: Recovery) -> DamagedSegment:
    """As far as they are whole and follow on each other; returns what ended it."""
    while True:
        offset = recovery.end
        place = BatchPlace(sequence, recovery.next_batch, offset, recovery.chain, recovery.salt)
        try:
            header, records, chain = decode_batch(content, place)
        except DamagedSegment as found:
            return found
        end = offset + padded(header.length)
        recovery.replay(records, sequence, offset, header.length)
        recovery.note(header)
        recovery.last_batch = (offset, content[offset:end])
        recovery.end, recovery.next_batch, recovery.chain = end, header.batch + 1, chain


def _judge(content: bytes, damage: DamagedSegment, recovery: Recovery, *, is_last: bool) -> None:
    """Something lies behind the last whole batch: is it what an accident leaves, or what it has damaged?"""
    end, sequence = recovery.end, recovery.segments[-1].sequence
    where = f"{segment_name(sequence)}, batch {recovery.next_batch} at {end}: {damage}"
    if not is_last:
        recovery.corrupt(f"{where}; a later segment was begun since")
    elif later := _later_batch(content, end, recovery):
        recovery.corrupt(f"{where}; batch {later} was written, so it was whole once")
    elif not _lacks_sectors(content, recovery):
        recovery.corrupt(f"{where}; no sector of it is missing, so it was written and has changed since")
    else:
        recovery.verdict = LogVerdict.TORN
        recovery.findings.append(f"{where}; it was never finished and is taken away")


def _later_batch(content: bytes, start: int, recovery: Recovery) -> int | None:
    """The highest batch from `start` on that says that the next one was whole once: a later one, or itself
    elsewhere."""
    later: int | None = None
    for offset, header in find_batch_headers(content, start, recovery.salt):
        if not recovery.can_follow(header):
            continue
        recovery.note(header)
        is_in_place = content is not recovery.spare and offset == recovery.end == header.offset
        if header.batch >= recovery.next_batch and not is_in_place:
            later = max(later or 0, header.batch)
    return later


def _begun_after(content: bytes, recovery: Recovery) -> int | None:
    """The first batch of the next segment, if its header lies where none belongs and names one that says that
    the next batch was whole once. It may lie where zeros would be, and have taken the end away in silence."""
    sequence, salt = recovery.segments[-1].sequence + 1, recovery.salt
    for file, start in ((content, SECTOR_BYTES), (recovery.spare, 0)):
        for header in find_segment_headers(file, start, sequence, salt):
            if header.first_batch > recovery.next_batch:
                recovery.note_header(header)
                return header.first_batch
    return None


def _survey(content: bytes, sequence: int, recovery: Recovery) -> None:
    """What can still be learned from a segment that is no part of the log any more."""
    try:
        header = decode_segment_header(content, sequence)
    except DamagedSegment:
        pass
    else:
        recovery.salt, recovery.identity = recovery.salt or header.salt, header.identity
        recovery.offset = max(recovery.offset, header.offset)
        recovery.note_header(header)
    for _, batch in find_batch_headers(content, 0, recovery.salt):
        if recovery.can_follow(batch):
            recovery.note(batch)


def _lacks_sectors(content: bytes, recovery: Recovery) -> bool:
    """Rules 2 and 3."""
    end = recovery.end
    header = decode_batch_header(content, end, recovery.salt)
    if header is None:
        return content[end : end + SECTOR_BYTES] == ZERO_SECTOR
    expected = (recovery.segments[-1].sequence, recovery.next_batch, end)
    batch_end = end + padded(header.length)
    if (header.segment, header.batch, header.offset) != expected or content_end(content) > batch_end:
        return False
    return count_zero_sectors(content[end:batch_end]) > header.zero_sectors
