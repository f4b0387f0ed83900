"""The files behind the segments: one in use, the next one ready, the last one waiting to be used again.

A segment becomes one by a rename, when it is zeros from end to end and carries a synced header: no
accident leaves half a header under a segment's name. Filling it with zeros is slow, so it happens ahead of
need, in a thread beside the writer, piece by piece so that the writer's own syncs are not queued behind
it; and a full disk is met there, while the segment in use still has room. Once the writer waits for it, what
is left is one piece. Old segments are filled again rather than removed: their blocks are already allocated,
which is what makes a sync cheap, and cannot be refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from adsum.storage.files import DiskFull, File, Folder, ReadFailed
from adsum.storage.segment import SegmentHeader, encode_segment_header

SEGMENT_SUFFIX = ".segment"
DAMAGED_SUFFIX = ".damaged"
SPARE = "spare"
_SPARE_UNFINISHED = "spare.new"
_RETIRED = "retired"
BALLAST = "ballast"
# Of one write and sync. Measured beside a log that was written as fast as it goes: with 1 MiB its p99 was six
# times as long, with 64 KiB its throughput an eighth less.
_ZEROS_BYTES = 256 << 10


def segment_name(sequence: int) -> str:
    return f"{sequence:016x}{SEGMENT_SUFFIX}"


def segment_sequences(folder: Folder, suffix: str = SEGMENT_SUFFIX) -> list[int]:
    names = [name for name in folder.names() if name.endswith(suffix)]
    return sorted(int(name.removesuffix(suffix), 16) for name in names)


def _nobody_asks() -> None:
    """Whether the disk gets on."""


class SegmentFiles:
    def __init__(self, folder: Folder, segment_bytes: int) -> None:
        self._folder = folder
        self.segment_bytes = segment_bytes
        self.is_full = False  # the next segment could not be made
        self.progressed: Callable[[], None] = _nobody_asks  # called from whichever thread fills a segment
        self._has_spare = False
        self._is_awaited = False  # the writer stands still until there is a spare
        self._preparing = threading.Lock()  # whoever makes, takes or retires a spare
        self._clean_up()

    @property
    def needs_spare(self) -> bool:
        return not self._has_spare

    def prepare_next(self) -> None:
        """Makes the next segment, and the ballast if that was spent. May run beside everything else. A
        full disk is remembered in `is_full`, and no error: there is still room in the segment in use."""
        with self._preparing:
            try:
                self._make_spare()
                if BALLAST not in self._folder.names():
                    self._fill(self._folder.create(BALLAST + ".new"), BALLAST + ".new")
                    self._folder.rename(BALLAST + ".new", BALLAST)
                self.is_full = False
            except DiskFull:
                self.is_full = True

    def begin(self, header: SegmentHeader) -> File:
        """The spare becomes a segment. DiskFull if there is none and none can be made; then nothing
        changed."""
        self._is_awaited = True
        with self._preparing:
            try:
                self._make_spare()
            finally:
                self._is_awaited = False
            file = self._folder.open(SPARE)
            try:
                file.write(0, encode_segment_header(header))
                file.sync()
                self._folder.rename(SPARE, segment_name(header.sequence))
                self._folder.sync()
            except DiskFull:
                file.close()
                raise
            self._has_spare = False
        return file

    def retire(self, sequence: int) -> None:
        """Oldest first. Each is gone for good before the next is touched, so that no accident leaves a
        gap."""
        with self._preparing:
            names = self._folder.names()
            if _RETIRED in names:
                self._folder.remove(segment_name(sequence))
            else:
                self._folder.rename(segment_name(sequence), _RETIRED)
            self._folder.sync()

    def set_aside(self, *, keeps_earlier: bool) -> None:
        """All segments are kept for whoever wants to look: in place of those kept before, or beside them,
        while the repair for which those were kept has not come to its end."""
        if not keeps_earlier:
            for name in self._folder.names():
                if name.endswith(DAMAGED_SUFFIX):
                    self._folder.remove(name)
        for sequence in segment_sequences(self._folder):
            name = segment_name(sequence)
            self._folder.rename(name, name.removesuffix(SEGMENT_SUFFIX) + DAMAGED_SUFFIX)
        self._folder.sync()

    def spend_ballast(self) -> bool:
        """Gives a full disk back a segment's worth of room, once, so that a snapshot fits and segments can
        go."""
        with self._preparing:
            if BALLAST not in self._folder.names():
                return False
            self._folder.remove(BALLAST)
            self._folder.sync()
        return True

    # Inside.

    def _clean_up(self) -> None:
        """A spare is believed only if it is zeros: the process may have ended between header and rename."""
        names = self._folder.names()
        for name in (_SPARE_UNFINISHED, BALLAST + ".new"):
            if name in names:
                self._folder.remove(name)
        if SPARE in names:
            self._has_spare = self._is_zeros(SPARE)
            if not self._has_spare:
                self._folder.remove(SPARE)

    def _is_zeros(self, name: str) -> bool:
        file = self._folder.open(name)
        length = file.length()
        pieces = (file.read(offset, _ZEROS_BYTES) for offset in range(0, length, _ZEROS_BYTES))
        try:
            return length == self.segment_bytes and not any(piece.strip(b"\0") for piece in pieces)
        except ReadFailed:
            return False  # nothing is lost with it
        finally:
            file.close()

    def _make_spare(self) -> None:
        if self._has_spare:
            return
        self._fill(self._old_or_new_file(), _SPARE_UNFINISHED)
        self._folder.rename(_SPARE_UNFINISHED, SPARE)
        self._folder.sync()  # recovery looks for writes that went astray under this name only
        self._has_spare = True

    def _old_or_new_file(self) -> File:
        if _RETIRED not in self._folder.names():
            return self._folder.create(_SPARE_UNFINISHED)
        self._folder.rename(_RETIRED, _SPARE_UNFINISHED)
        file = self._folder.open(_SPARE_UNFINISHED)
        if file.length() == self.segment_bytes:
            return file
        file.close()  # the segment size was changed since
        return self._folder.create(_SPARE_UNFINISHED)

    def _fill(self, file: File, name: str) -> None:
        try:
            offset = 0
            while offset < self.segment_bytes:
                rest_bytes = self.segment_bytes - offset
                length = rest_bytes if self._is_awaited else min(_ZEROS_BYTES, rest_bytes)
                file.write(offset, bytes(length))
                file.sync()
                offset += length
                self.progressed()
        except DiskFull:
            self._folder.remove(name)
            raise
        finally:
            file.close()
