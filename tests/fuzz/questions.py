"""DNS: messages built piece by piece, so that what is odd about them stands where a parser looks."""

from __future__ import annotations

import struct

from tests.fuzz.participants import AGENTS
from tests.fuzz.trees import Input
from tests.fuzz.values import Values

HEADER = struct.Struct(">6H")
TYPES = (1, 2, 5, 6, 12, 15, 16, 28, 33, 41, 47, 250, 251, 252, 255, 0, 65_535)
CLASSES = (1, 3, 254, 255, 0)
SUBNET, COOKIE, PADDING = 8, 10, 12
WORDS = (b"n0", b"n1", b"web-1", b"node", b"service", b"consul", b"adsum", b"addr", b"_tcp", b"_web-1", b"*")
SUFFIXES = (
    *((b"node", b"consul"), (b"service", b"consul"), (b"addr", b"consul"), (b"arpa",), (b"",), (b"test",)),
)
RECORDS = (0, 0, 0, 1, 3), (0, 0, 0, 2), (0, 1, 1, 1, 2, 8)  # answers, authorities, additional ones
REVERSE = (b"1", b"0", b"0", b"127", b"in-addr", b"arpa")
MESSAGE_BYTES_MAX = 65_535


class Questions:
    def __init__(self, values: Values) -> None:
        self.values = values
        self.random = values.random
        self._oddness = 0.0  # of the message that is being made

    def question(self) -> Input:
        if self.values.chance(0.85):
            content: dict[str, object] = {"transport": "udp", "messages": [self._message()]}
        else:
            messages = [self._message() for _ in range(self.random.randint(1, 4))]
            longer = self.random.choice((0, 0, 1, -1, 900))  # than it is, says the first
            content = {"transport": "tcp", "messages": messages, "longer": longer}
        return Input("dns", self.random.randrange(AGENTS), content)

    def costly(self) -> Input:
        content = {"transport": "udp", "messages": [self._costly_message()]}
        return Input("dns", self.random.randrange(AGENTS), content)

    def _message(self) -> bytes:
        """Each is odd to its own degree: what is odd everywhere never gets past the first look."""
        random = self.random
        self._oddness = random.choice((0.0, 0.05, 0.05, 0.3))
        questions = 1 if self._is_good() else random.choice((0, 2))
        records = [random.choice(RECORDS[place]) for place in range(3)]
        counts = [questions, *records]
        if not self._is_good():
            counts[random.randrange(4)] = random.choice((0, 1, 255, 65_535))
        flags = 0x0100 if self._is_good() else random.choice((0, 0x8180, 0x2800, random.randrange(65_536)))
        parts = [HEADER.pack(random.randrange(65_536), flags, *counts)]
        parts += [self._name() + struct.pack(">2H", self._type(), self._class()) for _ in range(questions)]
        parts += [self._record() for _ in range(sum(records[:2]))]
        parts += [self._opt() if number == 0 else self._record() for number in range(records[2])]
        message = b"".join(parts)[:MESSAGE_BYTES_MAX]
        return message if self._is_good() else message[: random.randrange(len(message))]

    def _costly_message(self) -> bytes:
        """A name as long as names may be, and as many records as are read, each with that name twice."""
        count, kind = self.random.choice((8, 8, 9, 128)), self.random.choice((6, 16, 33, 47, 5))
        name = b"".join(_text(b"a") for _ in range(self.random.choice((100, 126)))) + b"\0"
        data = {6: b"\xc0\x0c\xc0\x0c" + bytes(20), 16: b"\x01a" * 100, 33: bytes(6) + b"\xc0\x0c"}
        tail = data.get(kind, b"\xc0\x0c" + (b"\0\x20" + b"\xff" * 32 if kind == 47 else b""))
        record = b"\xc0\x0c" + struct.pack(">2HIH", kind, 1, 0, len(tail)) + tail
        where = self.random.choice(((count, 0, 0), (0, 0, count)))
        head = HEADER.pack(self.random.randrange(65_536), 0x0100, 1, *where)
        return head + name + struct.pack(">2H", 1, 1) + record * count

    def _is_good(self) -> bool:
        return not self.values.chance(self._oddness)

    def _type(self) -> int:
        return self.random.choice(TYPES)

    def _class(self) -> int:
        return 1 if self._is_good() else self.random.choice(CLASSES)

    def _name(self) -> bytes:
        if not self._is_good():
            return self._odd_name()
        labels = [self._word() for _ in range(self.random.randint(0, 2))]
        suffix = self.random.choice(SUFFIXES)
        return b"".join(map(self._label, (*labels, *(each for each in suffix if each)))) + b"\0"

    def _odd_name(self) -> bytes:
        random = self.random
        match random.randrange(4):
            case 0:
                place = random.choice((0, 2, 12, 13, 30, 0x3FFF))  # also into itself
                return struct.pack(">H", 0xC000 | place)
            case 1:
                labels = random.choice((1, 100, 126, 127, 128))
                return b"".join(self._label(b"a") for _ in range(labels)) + b"\0"
            case 2:
                return self._label(random.randbytes(random.choice((1, 62, 63)))) + b"\xc0\x0c"
        return b"".join(map(self._label, REVERSE)) + b"\0"

    def _word(self) -> bytes:
        if self.values.chance(0.7):
            return self.random.choice(WORDS)
        return self.values.text().encode()[:63] or b"a"

    def _label(self, text: bytes) -> bytes:
        if not self._is_good() and self.values.chance(0.1):
            return bytes((self.random.choice((0x40, 0x80, 0xBF)),)) + text
        return bytes((len(text),)) + text

    def _record(self) -> bytes:
        kind, data = self._type(), self.values.octets()[:600]
        match kind:
            case 1 | 28:
                data = self.random.randbytes(self.random.choice((4, 16, 0, 3)))
            case 2 | 5 | 12:
                data = self._name()
            case 15 | 33:
                data = bytes(2 if kind == 15 else 6) + self._name()
            case 16:
                data = b"".join(_text(b"x" * self.random.choice((0, 1, 255))) for _ in range(20))
            case 47:
                data = self._name() + b"\0\x20" + b"\xff" * 32
        length = len(data) if self._is_good() else self.random.choice((0, 1, 65_535))
        head = struct.pack(">2HIH", kind, self._class(), self.random.choice((0, 60, (1 << 32) - 1)), length)
        return self._name() + head + data

    def _opt(self) -> bytes:
        options = b"".join(self._option() for _ in range(self.random.choice((0, 1, 2, 300))))
        size = self.random.choice((0, 512, 1_232, 4_096, 65_535))
        extended = self.random.choice((0, 0, 0x8000, 0x00010000, 0xFF000000))
        return b"\0" + struct.pack(">2HIH", 41, size, extended, min(len(options), 65_535)) + options

    def _option(self) -> bytes:
        code = self.random.choice((SUBNET, COOKIE, PADDING, 3, 65_001))
        data = self.random.randbytes(self.random.choice((0, 4, 7, 8, 40)))
        if code == SUBNET:
            family = self.random.choice((0, 1, 2, 3))
            prefix = self.random.choice((0, 24, 32, 33, 56, 128, 255))
            data = struct.pack(">HBB", family, prefix, 0) + bytes(self.random.choice((0, 3, 4, 7, 16)))
        return struct.pack(">2H", code, len(data)) + data


def _text(text: bytes) -> bytes:
    return bytes((len(text),)) + text
