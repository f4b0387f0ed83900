"""Snapshot files: made beside the log, named by it, carried in pieces to who needs one.

    | length of meta, crc | meta | the state machine's bytes |

The meta (index, term, membership, cluster time, apply level, epoch) travels inside, so one file is all
that a server needs. A snapshot counts only once a SNAPSHOT record with its SHA-256 is in the log, and that
is written last: file, sync, rename, folder sync, record. Whatever an accident leaves of an unfinished one
is removed at start.

A transfer is resumed by offset. Pieces carry a CRC, so a bad one is asked for again at once; the SHA-256
over the whole decides in the end. A receiver that was restarted goes on from what it had synced.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import cbor2

from adsum.raft.changer import decode_configuration, encode_configuration
from adsum.raft.types import SnapshotMeta, SnapshotRef, Term
from adsum.storage.files import DiskFull, File, Folder, ReadFailed

SNAPSHOT_SUFFIX = ".snapshot"
_MAKING_SUFFIX = ".making"
_RECEIVING_SUFFIX = ".receiving"
PIECE_BYTES = 256 << 10  # 40 a second fill 100 Mbit/s, and none holds a connection for long
META_BYTES_MAX = 1 << 20
# A file that is made, or arrives, is synced each time it has grown by so much. Else all of it would be
# written back at its end, and the log's own syncs would wait behind that; as they would behind a sync of each
# piece, much oftener.
SYNCED_BYTES = 8 << 20
_META = struct.Struct("<II")  # length, crc
_NAME = re.compile("([0-9a-f]{16})-([0-9a-f]{16})-[0-9a-f]{16}" + re.escape(SNAPSHOT_SUFFIX))


class SnapshotDamaged(Exception):
    """The file is not the one that was made. A server without a snapshot has lost its state: it says so,
    and gets another from the leader."""


class Piece(NamedTuple):
    offset: int
    content: bytes
    crc: int

    @property
    def is_whole(self) -> bool:
        return zlib.crc32(self.content) == self.crc


def snapshot_name(ref: SnapshotRef) -> str:
    """With the hash: two servers may write one state in different bytes, and a file that arrives late must
    not take the place of the one that the log here names."""
    return f"{_place(ref.index, ref.term)}-{ref.sha256[:8].hex()}{SNAPSHOT_SUFFIX}"


def _place(index: int, term: int) -> str:
    """In the order of the log."""
    return f"{index:016x}-{term:016x}"


class Snapshots:
    def __init__(
        self, folder: Folder, *, piece_bytes: int = PIECE_BYTES, synced_bytes: int = SYNCED_BYTES
    ) -> None:
        """A file that arrives is synced after so many bytes, which are whole pieces."""
        self._folder = folder
        self._piece_bytes = piece_bytes
        self._synced_bytes = synced_bytes

    def make(self, meta: SnapshotMeta) -> SnapshotMaking:
        return SnapshotMaking(self._folder, meta)

    def receive(self, ref: SnapshotRef) -> SnapshotReceiving:
        return SnapshotReceiving(self._folder, ref, self._piece_bytes, self._synced_bytes)

    def open(self, ref: SnapshotRef) -> SnapshotReading:
        """Damage is found by `verify`, which reads everything, and is done at every start."""
        return SnapshotReading(self._folder, ref, self._piece_bytes)

    def verify(self, ref: SnapshotRef) -> SnapshotMeta:
        """Reads all of it; `SnapshotDamaged` if it is missing or not the one meant."""
        name = snapshot_name(ref)
        if name not in self._folder.names():
            raise SnapshotDamaged(f"{name} is missing")
        with_file = self.open(ref)
        try:
            digest = hashlib.sha256()
            for content in with_file.contents():
                digest.update(content)
            if with_file.length != ref.size_bytes or digest.digest() != ref.sha256:
                raise SnapshotDamaged(f"{name} does not match its hash in the log")
            return with_file.meta()
        except ReadFailed as error:
            raise SnapshotDamaged(str(error)) from error
        finally:
            with_file.close()

    def in_place(self) -> Iterator[SnapshotRef]:
        """What can be read, whatever the log knows of it. `verify` refuses what is not whole: its name has a
        part of the hash that it had."""
        for found in filter(None, map(_NAME.fullmatch, self._folder.names())):
            file = self._folder.open(found[0])
            try:
                digest, length = hashlib.sha256(), file.length()
                for offset in range(0, length, self._piece_bytes):
                    digest.update(file.read(offset, self._piece_bytes))
            except ReadFailed:
                continue
            finally:
                file.close()
            yield SnapshotRef(int(found[1], 16), Term(int(found[2], 16)), length, digest.digest())

    def remove_before(self, ref: SnapshotRef) -> None:
        """All but the last before it, which may still be on its way to somebody. A later one may have
        arrived, and wait for the batch that installs it."""
        names = [name for name in self._folder.names() if name.endswith(SNAPSHOT_SUFFIX)]
        older = [name for name in names if name < _place(ref.index, ref.term)]
        for name in older[:-1]:
            self._folder.remove(name)

    def clean_up(self, ref: SnapshotRef | None) -> None:
        """At start: what no record names was never finished, or never installed."""
        kept = snapshot_name(ref) if ref else ""
        suffixes = (SNAPSHOT_SUFFIX, _MAKING_SUFFIX)
        for name in [name for name in self._folder.names() if name.endswith(suffixes) and name != kept]:
            self._folder.remove(name)


class SnapshotMaking:
    """Written in pieces of any size; nobody sees it before `finish`."""

    def __init__(self, folder: Folder, meta: SnapshotMeta) -> None:
        self._folder = folder
        self._meta = meta
        self._making = _place(meta.index, meta.term) + _MAKING_SUFFIX
        self._file: File | None = folder.create(self._making)
        self._digest = hashlib.sha256()
        self._length = 0
        self._unsynced_bytes = 0
        encoded = encode_meta(meta)
        self.write(_META.pack(len(encoded), zlib.crc32(encoded)) + encoded)

    def write(self, content: bytes) -> None:
        assert self._file is not None, "a finished snapshot does not grow"
        try:
            self._file.write(self._length, content)
            self._unsynced_bytes += len(content)
            if self._unsynced_bytes >= SYNCED_BYTES:
                self._unsynced_bytes = 0
                self._file.sync()
        except BaseException:
            self.abandon()
            raise
        self._digest.update(content)
        self._length += len(content)

    def finish(self) -> SnapshotRef:
        assert self._file is not None, "a snapshot is finished once"
        try:
            self._file.sync()
        except DiskFull:
            self.abandon()
            raise
        self._file.close()
        self._file = None
        ref = SnapshotRef(self._meta.index, self._meta.term, self._length, self._digest.digest())
        self._folder.rename(self._making, snapshot_name(ref))
        self._folder.sync()
        return ref

    def abandon(self) -> None:
        """A full disk gets its room back."""
        if self._file is not None:
            self._file.close()
            self._file = None
            self._folder.remove(self._making)


class SnapshotReading:
    """The file as it travels: `pieces` from any offset, `body` for the state machine."""

    def __init__(self, folder: Folder, ref: SnapshotRef, piece_bytes: int = PIECE_BYTES) -> None:
        self._piece_bytes = piece_bytes
        self._file = folder.open(snapshot_name(ref))
        self.length = self._file.length()

    def piece(self, offset: int) -> Piece:
        content = self._file.read(offset, self._piece_bytes)
        return Piece(offset, content, zlib.crc32(content))

    def contents(self, offset: int = 0) -> Iterator[bytes]:
        while content := self._file.read(offset, self._piece_bytes):
            yield content
            offset += len(content)

    def meta(self) -> SnapshotMeta:
        length, crc = _META.unpack(self._file.read(0, _META.size))
        encoded = self._file.read(_META.size, min(length, META_BYTES_MAX))
        if zlib.crc32(encoded) != crc:
            raise SnapshotDamaged("the snapshot's meta does not match its checksum")
        return decode_meta(encoded)

    def body(self) -> Iterator[bytes]:
        length, _ = _META.unpack(self._file.read(0, _META.size))
        return self.contents(_META.size + length)

    def close(self) -> None:
        self._file.close()


class SnapshotReceiving:
    """Takes pieces in order, and says which offset it wants next: after a cut, a bad piece, or a restart."""

    def __init__(self, folder: Folder, ref: SnapshotRef, piece_bytes: int, synced_bytes: int) -> None:
        self._folder = folder
        self._ref = ref
        self._piece_bytes = piece_bytes
        self._synced_bytes = synced_bytes
        self._name = snapshot_name(ref)
        self._partial = self._name + _RECEIVING_SUFFIX
        for name in folder.names():
            if name.endswith(_RECEIVING_SUFFIX) and name != self._partial:
                folder.remove(name)
        if self._partial in folder.names():
            self._file = folder.open(self._partial)
        else:  # the name is made durable at once: synced pieces in a file that is gone would resume nothing
            self._file = folder.create(self._partial)
            folder.sync()
        # What was synced only. As there is more, what is before was: nothing is written behind it earlier.
        self.offset = max(0, self._file.length() - 1) // synced_bytes * synced_bytes

    def take(self, piece: Piece) -> bool:
        """False, and nothing changed, if it is not the piece at `offset`, or was damaged on the way."""
        fits = piece.offset + len(piece.content) <= self._ref.size_bytes
        if piece.offset != self.offset or not fits or not piece.is_whole:
            return False
        self._file.write(self.offset, piece.content)
        end = self.offset + len(piece.content)
        if end // self._synced_bytes > self.offset // self._synced_bytes:
            self._file.sync()
        self.offset = end
        return True

    @property
    def is_complete(self) -> bool:
        return self.offset >= self._ref.size_bytes

    def finish(self) -> SnapshotMeta:
        """In place and durable, for a batch that installs it. `SnapshotDamaged`: it begins again from 0."""
        assert self.is_complete, "a snapshot is installed whole"
        self._file.sync()
        digest = hashlib.sha256()
        for offset in range(0, self._ref.size_bytes, self._piece_bytes):
            digest.update(self._file.read(offset, self._piece_bytes))
        if digest.digest() != self._ref.sha256:
            self.abandon()
            raise SnapshotDamaged(f"{self._name} arrived, and does not match its hash")
        self._folder.rename(self._partial, self._name)
        self._folder.sync()
        self._file.close()
        reading = SnapshotReading(self._folder, self._ref)
        try:
            return reading.meta()
        finally:
            reading.close()

    def close(self) -> None:
        """What has come stays, for the next attempt."""
        self._file.close()

    def abandon(self) -> None:
        self._file.close()
        self._folder.remove(self._partial)


def encode_meta(meta: SnapshotMeta) -> bytes:
    membership = encode_configuration(meta.configuration)
    numbers = [meta.time_ms, meta.apply_level, meta.epoch, meta.offset]
    encoded = cbor2.dumps([meta.index, meta.term, membership, *numbers])
    assert len(encoded) <= META_BYTES_MAX, "a membership is a few servers"
    return encoded


def decode_meta(encoded: bytes) -> SnapshotMeta:
    index, term, membership, *numbers = cbor2.loads(encoded)
    time_ms, apply_level, epoch, offset = numbers
    configuration = decode_configuration(membership)
    return SnapshotMeta(index, Term(term), configuration, time_ms, apply_level, epoch, offset)
