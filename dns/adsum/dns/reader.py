"""Goes through a DNS message once, from its question on: names label by label, records by their lengths.

What it costs is bounded however the message is made. Pointers lead backwards only, so there is no circle, and
each label or pointer that is looked at takes from what was allowed for the whole message. A name that is
skipped is not followed, and the data of a record is not looked into.
"""

from __future__ import annotations

import struct

from adsum.dns.wire import HEADER_BYTES, LABEL_BYTES_MAX, NAME_BYTES_MAX, POINTER
from adsum.named import NamedTuple

POINTER_BYTES = 2
RECORD_HEAD = struct.Struct("!HHIH")  # type, class, TTL and the length of the data, behind the owner's name
TYPE_AND_CLASS = struct.Struct("!HH")


class UnreadableDns(Exception):
    """The bytes are no DNS message, or more of one than we are willing to read."""


class RawRecord(NamedTuple):
    rtype: int
    rclass: int
    ttl: int
    data_at: int
    data: bytes


class Reader:
    __slots__ = ("_at", "_labels_left", "_packet")

    def __init__(self, packet: bytes, labels_max: int) -> None:
        self._packet = packet
        self._at = HEADER_BYTES
        self._labels_left = labels_max

    def question(self) -> tuple[bytes, int, int]:
        """Name, type and class."""
        name = self.name()
        head_at, self._at = self._at, self._at + TYPE_AND_CLASS.size
        if self._at > len(self._packet):
            raise UnreadableDns("a question that is cut off")
        return name, *TYPE_AND_CLASS.unpack_from(self._packet, head_at)

    def name(self) -> bytes:
        """In wire form, unpacked."""
        name, self._at = self.name_at(self._at)
        return name

    def name_at(self, at: int) -> tuple[bytes, int]:
        """And where what follows it begins."""
        packet, name, start, end = self._packet, bytearray(), at, 0
        while length := self._label(at):
            if length > LABEL_BYTES_MAX:
                end = end or at + POINTER_BYTES
                at = start = self._pointer(at, start)
                continue
            name += packet[at : at + 1 + length]
            at += 1 + length
        name.append(0)
        if len(name) > NAME_BYTES_MAX:
            raise UnreadableDns("a name that is too long")
        return bytes(name), end or at + 1

    def skip_name(self) -> None:
        at = self._at
        while 0 < (length := self._label(at)) <= LABEL_BYTES_MAX:
            at += 1 + length
        self._at = at + (POINTER_BYTES if length else 1)

    def record(self) -> RawRecord:
        """What stands behind the owner's name."""
        data_at = self._at + RECORD_HEAD.size
        if data_at > len(self._packet):
            raise UnreadableDns("a record that is cut off")
        rtype, rclass, ttl, length = RECORD_HEAD.unpack_from(self._packet, self._at)
        self._at = data_at + length
        if self._at > len(self._packet):
            raise UnreadableDns("a record that is cut off")
        return RawRecord(rtype, rclass, ttl, data_at, self._packet[data_at : self._at])

    def _label(self, at: int) -> int:
        """The byte a label or pointer begins with."""
        self._labels_left -= 1
        if self._labels_left < 0:
            raise UnreadableDns("more labels than anyone sends")
        if at >= len(self._packet):
            raise UnreadableDns("a name that is cut off")
        return self._packet[at]

    def _pointer(self, at: int, start: int) -> int:
        """Where it points to, which must be before the piece of the name that it ends."""
        target = int.from_bytes(self._packet[at : at + POINTER_BYTES]) - POINTER
        if not 0 <= target < start:  # below 0 are labels of kinds that were never used
            raise UnreadableDns("a name that points to nothing before it")
        return target
