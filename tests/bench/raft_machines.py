"""The state machines that `bench-raft` puts on its members: one that keeps a value for each proposer, and one
with the million entries of a large store.

An entry is a proposer, its sequence, and anything. Both machines notice a sequence that skips one: it says
that something acknowledged was lost, for a proposer repeats what it is not sure of.
"""

from __future__ import annotations

import gc
import struct
import zlib
from collections.abc import Iterator, Sequence

import cbor2
import msgspec

from adsum.raft.types import Entry, EntryKind

PROPOSAL = struct.Struct("<HQ")  # proposer, sequence
TABLE_RECORDS = 1_000_000
VALUE_BYTES = 100
FILLER = 0xFFFF  # this proposer's entries fill a stretch of the table each
FILL_RECORDS = 1_000
BLOCK_RECORDS = 250
COPIES_FROZEN = 250  # or a collection would look through a million records, and hold the loop meanwhile
# A prime without a factor in common with the number of records: writes meet every block of the table.
STRIDE = 387_420_499
_LENGTH = struct.Struct("<I")


class Puts:
    """The last value of each proposer."""

    def __init__(self) -> None:
        self.values: dict[int, bytes] = {}
        self.sequences: dict[int, int] = {}
        self.applied = 0
        self.gaps = 0

    def apply(self, entry: Entry) -> bytes:
        if entry.kind is EntryKind.COMMAND:
            proposer, sequence = PROPOSAL.unpack_from(entry.data)
            last = self.sequences.get(proposer, sequence - 1)
            self.gaps += sequence > last + 1
            self.sequences[proposer] = max(sequence, last)
            self.applied += 1
            self._put(proposer, sequence, entry.data)
        return b""

    def snapshot(self) -> Iterator[bytes]:
        return iter([cbor2.dumps([self.values, self.sequences, self.applied, self.gaps])])

    def read(self, pieces: Iterator[bytes]) -> object:
        return cbor2.loads(b"".join(pieces))

    def restore(self, state: object) -> None:
        self.values, self.sequences, self.applied, self.gaps = state  # type: ignore[misc]

    def hash(self) -> bytes:
        return b"%08x" % zlib.crc32(repr(sorted(self.values.items())).encode())

    def whole_hash(self) -> bytes:
        """Of every byte, however long it takes."""
        return self.hash()

    def _put(self, proposer: int, _sequence: int, data: bytes) -> None:
        self.values[proposer] = data


class Record(msgspec.Struct, frozen=True, gc=False, array_like=True):
    key: bytes
    value: bytes
    created: int
    modified: int


_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(list[Record]).decode


class Table(Puts):
    """Keys of 40 characters and values of 100 bytes in blocks, which are copied on the first write after a
    snapshot was begun: 158 MB of them as a file, a block a frame."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks: list[list[Record]] = []
        self._written: set[int] = set()  # blocks that no snapshot holds any more

    def snapshot(self) -> Iterator[bytes]:
        self._written = set()
        head = cbor2.dumps([{}, dict(self.sequences), self.applied, self.gaps])
        return _frames(head, self._blocks[:])

    def read(self, pieces: Iterator[bytes]) -> object:
        frames = _cut(pieces)
        head = cbor2.loads(next(frames))
        return head, [_DECODE(frame) for frame in frames]

    def restore(self, state: object) -> None:
        assert isinstance(state, tuple)
        self._blocks = state[1]
        self._written = set(range(len(self._blocks)))
        super().restore(state[0])
        gc.freeze()

    def hash(self) -> bytes:
        return b"%08x" % zlib.crc32(repr([self.applied, sorted(self.sequences.items())]).encode())

    def whole_hash(self) -> bytes:
        digest = 0
        for block in self._blocks:
            digest = zlib.crc32(_ENCODE(block), digest)
        return b"%08x" % digest

    def _put(self, proposer: int, sequence: int, data: bytes) -> None:
        if proposer == FILLER:
            self._fill(sequence - 1)
            return
        place, number = divmod(sequence * STRIDE % TABLE_RECORDS, BLOCK_RECORDS)
        block = self._blocks[place]
        if place not in self._written:
            self._written.add(place)
            block = self._blocks[place] = block[:]
            if len(self._written) % COPIES_FROZEN == 0:
                gc.freeze()
        record = block[number]
        value = data[PROPOSAL.size : PROPOSAL.size + VALUE_BYTES]
        block[number] = Record(record.key, value, record.created, self.applied)

    def _fill(self, stretch: int) -> None:
        for first in range(stretch * FILL_RECORDS, (stretch + 1) * FILL_RECORDS, BLOCK_RECORDS):
            keys = (b"%040d" % number for number in range(first, first + BLOCK_RECORDS))
            self._written.add(len(self._blocks))
            self._blocks.append([Record(key, key * 2 + key[:20], 1, 1) for key in keys])
        if len(self._blocks) * BLOCK_RECORDS == TABLE_RECORDS:
            gc.freeze()


def _frames(head: bytes, blocks: Sequence[list[Record]]) -> Iterator[bytes]:
    """Blocks go as they are written: what was replaced since is freed one at a time."""
    yield _LENGTH.pack(len(head)) + head
    waiting = list(reversed(blocks))
    del blocks
    while waiting:
        content = _ENCODE(waiting.pop())
        yield _LENGTH.pack(len(content)) + content


def _cut(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Frames, wherever the pieces were cut."""
    rest = b""
    for piece in pieces:
        rest, offset = rest + piece, 0
        while len(rest) >= offset + _LENGTH.size:
            (length,) = _LENGTH.unpack_from(rest, offset)
            end = offset + _LENGTH.size + length
            if len(rest) < end:
                break
            yield rest[offset + _LENGTH.size : end]
            offset = end
        rest = rest[offset:]


MACHINE = "ADSUM_BENCH_MACHINE"  # in the environment: which one a member runs
MACHINES: dict[str, type[Puts]] = {"puts": Puts, "table": Table}
