"""Datagrams by the batch: all that wait come with one system call, and all replies leave with one.

Replies of one length to one asker leave as a train: a single datagram to the network's code, which is cut
into what was meant just before the asker's socket (UDP_SEGMENT). Programs that forward the questions of a
whole host or cluster ask many at once from one socket, and nearly all that an answer costs is its way
through that code.

Made when there is load and not before, for an idle agent should hold no buffers. What must be done for each
packet is done by loops in C: slices of a memory map, and lists of numbers laid over every other word of a
table. Structures are touched where a batch is made, for each train, and where somebody asks who an asker is.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Final

from adsum.dns_server.datagrams import Origin

WORD: Final = "L"  # on Linux as wide as a pointer and as a size_t, for `array` and `memoryview` alike
WORD_BYTES = ctypes.sizeof(ctypes.c_void_p)
UDP_SEGMENT = 103  # Linux 4.18; the socket module does not name it
TRAIN_MAX = 64  # datagrams: what every kernel that knows trains takes
TRAIN_BYTES_MAX = 65_507  # as much as one datagram

Train = list[int]  # places of replies that leave as one


class Asker4(ctypes.Structure):  # sockaddr_in
    _fields_ = (
        ("family", ctypes.c_ushort),
        ("port", ctypes.c_ubyte * 2),
        ("host", ctypes.c_ubyte * 4),
        ("padding", ctypes.c_ubyte * 8),
    )


class Asker6(ctypes.Structure):  # sockaddr_in6
    _fields_ = (
        ("family", ctypes.c_ushort),
        ("port", ctypes.c_ubyte * 2),
        ("flow", ctypes.c_ubyte * 4),
        ("host", ctypes.c_ubyte * 16),
        ("scope", ctypes.c_uint32),
    )


class KernelStretch(ctypes.Structure):  # iovec
    _fields_ = (("start", ctypes.c_void_p), ("bytes", ctypes.c_size_t))


class KernelHeader(ctypes.Structure):  # msghdr, as the kernel has it
    _fields_ = (
        ("asker", ctypes.c_void_p),
        ("asker_bytes", ctypes.c_uint),
        ("stretches", ctypes.c_void_p),
        ("stretches_count", ctypes.c_size_t),
        ("ancillary", ctypes.c_void_p),
        ("ancillary_bytes", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class KernelNote(ctypes.Structure):  # cmsghdr, and how long each datagram of a train is
    _fields_ = (
        ("bytes", ctypes.c_size_t),
        ("level", ctypes.c_int),
        ("kind", ctypes.c_int),
        ("segment_bytes", ctypes.c_ushort),
    )


NOTE_BYTES = KernelNote.segment_bytes.offset + KernelNote.segment_bytes.size  # without the padding


class KernelMessage(ctypes.Structure):  # mmsghdr
    _fields_ = (("header", KernelHeader), ("length", ctypes.c_uint))


class DatagramBatch:
    """Room for a number of questions, each with a place, and the way back from each place."""

    def __init__(self, sock_fd: int, family: socket.AddressFamily, places: int, bytes_max: int) -> None:
        """Raises OSError or AttributeError where the system has no such calls, or keeps them from us."""
        libc = ctypes.CDLL(None, use_errno=True)
        self._recvmmsg, self._sendmmsg = libc.recvmmsg, libc.sendmmsg
        self._fd = sock_fd
        self._family = family
        # A page of a private map is had when it is written to: long questions have room, and few take it.
        self._room = mmap.mmap(-1, places * bytes_max, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._starts = range(0, places * bytes_max, bytes_max)
        self._askers = ((Asker6 if family == socket.AF_INET6 else Asker4) * places)()
        self._questions, self._replies = MessageTable(self._askers), MessageTable(self._askers)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._room))
        self._questions.lay([start + each for each in self._starts], [bytes_max] * places)
        # With no messages: a sandbox that forbids the calls is better met here than with answers in hand.
        if self._recvmmsg(self._fd, self._questions.messages, 0, socket.MSG_DONTWAIT, None) < 0:
            raise _error()
        if self._sendmmsg(self._fd, self._replies.messages, 0, socket.MSG_DONTWAIT) < 0:
            raise _error()
        value, size = ctypes.c_int(), ctypes.c_uint(ctypes.sizeof(ctypes.c_int))
        level = socket.IPPROTO_UDP
        found = libc.getsockopt(self._fd, level, UDP_SEGMENT, ctypes.byref(value), ctypes.byref(size))
        self._cars_max = TRAIN_MAX if found == 0 else 1

    def receive(self) -> list[bytes]:
        """What waits, in order of places, each cut to the room it has. Raises as `socket.recv` does."""
        table, room = self._questions, self._room
        count = self._recvmmsg(self._fd, table.messages, len(self._starts), socket.MSG_DONTWAIT, None)
        if count < 0:
            raise _error()
        lengths = table.lengths[:count].tolist()
        return [room[start : start + length] for start, length in zip(self._starts, lengths, strict=False)]

    def origin(self, place: int) -> Origin:
        """Who asked, as the socket module writes it; until the replies are sent."""
        asker = self._askers[place]
        host, port = socket.inet_ntop(self._family, bytes(asker.host)), int.from_bytes(asker.port)
        if self._family == socket.AF_INET6:
            return host, port, int.from_bytes(asker.flow), asker.scope
        return host, port

    def send(self, replies: Sequence[bytes]) -> int:
        """To each place its reply, and none where that is empty. Returns how many the kernel did not take."""
        trains = list(self._trains(replies))
        return self._send(trains, replies) if trains else 0

    def _trains(self, replies: Sequence[bytes]) -> Iterator[Train]:
        size = ctypes.sizeof(self._askers) // len(self._askers)
        askers = bytes(memoryview(self._askers).cast("B")[: size * len(replies)])
        trains: dict[tuple[bytes, int], Train] = {}
        for place, reply in enumerate(replies):
            if reply:
                asker = askers[place * size : (place + 1) * size]
                trains.setdefault((asker, len(reply)), []).append(place)
        for (_, length), places in trains.items():
            cars = max(1, min(self._cars_max, TRAIN_BYTES_MAX // length))
            yield from (places[first : first + cars] for first in range(0, len(places), cars))

    def _send(self, trains: list[Train], replies: Sequence[bytes]) -> int:
        # One string of all, read where it lies: there are no slots that a long reply could be too long for.
        together = b"".join([replies[place] for place in chain.from_iterable(trains)])
        lengths = [len(replies[train[0]]) for train in trains]
        start = ctypes.cast(ctypes.c_char_p(together), ctypes.c_void_p).value or 0
        sizes = [length * len(train) for length, train in zip(lengths, trains, strict=True)]
        self._replies.lay(accumulate([start, *sizes[:-1]]), sizes)
        self._replies.couple([train[0] for train in trains], sizes, lengths)
        return self._send_laid(trains, replies)

    def _send_laid(self, trains: list[Train], replies: Sequence[bytes]) -> int:
        done = refused = 0
        while done < len(trains):
            rest = ctypes.byref(self._replies.messages, done * ctypes.sizeof(KernelMessage))
            sent = self._sendmmsg(self._fd, rest, len(trains) - done, socket.MSG_DONTWAIT)
            if sent < 0 and len(trains[done]) > 1:  # it may be the train that it minds
                return refused + self._send([*([car] for car in trains[done]), *trains[done + 1 :]], replies)
            refused += sent < 0  # the first of the rest, and no more is said of those behind it
            done += max(sent, 1)
        return refused


class MessageTable:
    """A message for each asker, to or from them, with one stretch of bytes."""

    def __init__(self, askers: ctypes.Array[Asker4] | ctypes.Array[Asker6]) -> None:
        self.messages = (KernelMessage * len(askers))()
        stretches = (KernelStretch * len(askers))()
        for message, stretch, asker in zip(self.messages, stretches, askers, strict=True):
            header = message.header
            header.asker, header.asker_bytes = ctypes.addressof(asker), ctypes.sizeof(asker)
            header.stretches, header.stretches_count = ctypes.addressof(stretch), 1
        self._notes = (KernelNote * len(askers))()
        for note in self._notes:
            note.bytes, note.level, note.kind = NOTE_BYTES, socket.IPPROTO_UDP, UDP_SEGMENT
        self._askers = [ctypes.addressof(asker) for asker in askers]
        self._words = memoryview(stretches).cast("B").cast(WORD)  # which also keeps the stretches
        numbers = memoryview(self.messages).cast("B").cast("I")
        first, step = KernelMessage.length.offset, ctypes.sizeof(KernelMessage)
        self.lengths = numbers[first // numbers.itemsize :: step // numbers.itemsize]
        self._askers_of = self._column(KernelHeader.asker.offset)
        self._notes_of = self._column(KernelHeader.ancillary.offset)
        self._note_bytes_of = self._column(KernelHeader.ancillary_bytes.offset)

    def _column(self, offset: int) -> memoryview:
        words = memoryview(self.messages).cast("B").cast(WORD)
        return words[offset // WORD_BYTES :: ctypes.sizeof(KernelMessage) // WORD_BYTES]

    def lay(self, starts: Iterable[int], sizes: Sequence[int]) -> None:
        """Where the bytes of the first messages are, and how many."""
        words = self._words[: 2 * len(sizes)]
        words[0::2] = array(WORD, starts)
        words[1::2] = array(WORD, sizes)

    def couple(self, places: Sequence[int], sizes: Sequence[int], lengths: Sequence[int]) -> None:
        """To whom the first messages go, and how long the datagrams are that they are to be cut into."""
        notes = self._notes
        notes_of = array(WORD, bytes(WORD_BYTES * len(places)))
        note_bytes_of = array(WORD, notes_of)
        for number, (size, length) in enumerate(zip(sizes, lengths, strict=True)):
            if size > length:
                notes[number].segment_bytes = length
                notes_of[number] = ctypes.addressof(notes[number])
                note_bytes_of[number] = ctypes.sizeof(KernelNote)
        self._askers_of[: len(places)] = array(WORD, [self._askers[place] for place in places])
        self._notes_of[: len(places)] = notes_of
        self._note_bytes_of[: len(places)] = note_bytes_of


def open_batch(
    sock_fd: int, family: socket.AddressFamily, places: int, bytes_max: int
) -> DatagramBatch | None:
    """None where the system has no such calls, or keeps them from us."""
    try:
        return DatagramBatch(sock_fd, family, places, bytes_max) if sys.platform == "linux" else None
    except (AttributeError, OSError):
        return None


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
