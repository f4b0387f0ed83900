"""DNS bytes for the question that nearly everybody asks, and for every answer we give.

The common form is one question, opcode QUERY, class IN, no compression in it, EDNS absent or without an
option that we answer (the cookie dig sends is none). It is read here in about a microsecond; `message` reads
the rest, several times slower, and hands on the same `Question`. `RecordWriter` answers both.

Names are kept in wire form (length-prefixed labels, root included). Lower-casing such bytes is safe: a label
is at most 63 long, which is below "A". An answer points back into its question for every name it shares
with it, so the asker's own spelling is echoed for nothing, and what follows the question is the same bytes
for every spelling: that is what makes answers cacheable.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache

from adsum.frozen import dataclass
from adsum.named import NamedTuple

# Types (RFC 1035, 2782, 3596, 6891) and classes.
A, NS, CNAME, SOA, PTR, MX, TXT, AAAA = 1, 2, 5, 6, 12, 15, 16, 28
SRV, OPT, IXFR, AXFR, ANY = 33, 41, 251, 252, 255
IN = 1

TYPE_NAMES = {A: "A", NS: "NS", CNAME: "CNAME", SOA: "SOA", PTR: "PTR", MX: "MX", TXT: "TXT", AAAA: "AAAA"}
TYPE_NAMES |= {SRV: "SRV", AXFR: "AXFR", ANY: "ANY"}

NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED, BADVERS = 0, 1, 2, 3, 4, 5, 16
RCODE_NAMES = {NOERROR: "NOERROR", FORMERR: "FORMERR", SERVFAIL: "SERVFAIL", NXDOMAIN: "NXDOMAIN"}
RCODE_NAMES |= {NOTIMP: "NOTIMP", REFUSED: "REFUSED", BADVERS: "BADVERS"}

QR, AA, TC, RD, RA, AD, CD = 0x8000, 0x0400, 0x0200, 0x0100, 0x0080, 0x0020, 0x0010
OPCODE_MASK, RCODE_MASK = 0x7800, 0x000F
UNCOMMON_FLAGS = 0xFFFF & ~(RD | AD | CD)

HEADER = struct.Struct("!6H")
HEADER_BYTES = 12
OPT_BYTES = 11  # of a bare OPT record
EDNS_OPTIONS_MAX = 32  # in one question; programs send up to five
CLIENT_SUBNET = b"\0\x08"  # the EDNS option code (RFC 7871); the one option that is echoed
NAME_BYTES_MAX = 255
LABEL_BYTES_MAX = 63
POINTER = 0xC000
POINTER_MAX = 0x3FFF
ROOT = b"\0"
NAMES_KEPT_MAX = 8192  # of registered names in wire form, which every rendering needs again
BARE_QUESTION_BYTES_MIN = HEADER_BYTES + 1 + 4


class Question(NamedTuple):
    """What was asked, and what of the asking its answer must repeat."""

    message_id: int
    flags: int
    name: bytes  # wire form, in the asker's spelling
    qtype: int
    qclass: int = IN
    edns_bytes: int | None = None  # the buffer the asker announced; None without EDNS
    edns_options: bytes = b""  # the options our answer carries

    @property
    def echo(self) -> bytes:
        return self.name + self.qtype.to_bytes(2) + self.qclass.to_bytes(2)


class Record(NamedTuple):
    """A resource record of class IN. `target` is the name that ends the data of CNAME, NS, PTR and SRV."""

    owner: bytes
    rtype: int
    ttl_s: int
    data: bytes = b""
    target: bytes = b""

    @property
    def bytes_uncompressed(self) -> int:
        return len(self.owner) + 10 + len(self.data) + len(self.target)

    @property
    def bytes_least(self) -> int:
        """With its names compressed as far as names can be."""
        return 11 + len(self.data) + (len(self.target) if self.rtype == SRV else 0)


def parse_question(packet: bytes) -> Question | None:
    """The question of a packet in the common form; None for any other packet, well-formed or not."""
    if len(packet) < BARE_QUESTION_BYTES_MIN:
        return None
    message_id, flags, questions, answers, authorities, additionals = HEADER.unpack_from(packet)
    if flags & UNCOMMON_FLAGS or questions != 1 or answers or authorities or additionals > 1:
        return None
    end = _name_end(packet)
    tail = packet[end:]
    if not end or tail[2:4] != b"\0\1":
        return None
    if additionals:
        if not _is_plain_opt(tail):
            return None
    elif len(tail) != 4:
        return None
    edns_bytes = tail[7] << 8 | tail[8] if additionals else None
    name, qtype = packet[HEADER_BYTES:end], tail[0] << 8 | tail[1]
    return Question(message_id, flags, name, qtype, edns_bytes=edns_bytes)


def _is_plain_opt(tail: bytes) -> bool:
    """Whether type and class are followed by one OPT record of version 0, with no option that we answer."""
    if len(tail) < 4 + OPT_BYTES or tail[4:7] != b"\0\0\x29" or tail[9:11] != b"\0\0":
        return False
    at, options = 4 + OPT_BYTES, 0
    if tail[13] << 8 | tail[14] != len(tail) - at:
        return False
    while at < len(tail):
        head, options = tail[at : at + 4], options + 1
        if len(head) < 4 or head[:2] == CLIENT_SUBNET or options > EDNS_OPTIONS_MAX:
            return False
        at += 4 + (head[2] << 8 | head[3])
    return at == len(tail)


def _name_end(packet: bytes) -> int:
    """Where the first name ends, or 0 if it is compressed, too long or cut off."""
    at = HEADER_BYTES
    last = min(len(packet) - 4, HEADER_BYTES + NAME_BYTES_MAX)
    while at < last:
        length = packet[at]
        if not length:
            return at + 1
        if length > LABEL_BYTES_MAX:
            return 0
        at += length + 1
    return 0


def echoed_question(packet: bytes) -> bytes:
    """The first question of a message, as it stands there; empty if it cannot be read without unpacking."""
    end = _name_end(packet)
    return packet[HEADER_BYTES : end + 4] if end else b""


@lru_cache(maxsize=NAMES_KEPT_MAX)
def encode_name(text: str) -> bytes | None:
    """A dotted name in wire form; None if DNS cannot carry it (a label empty or too long, or all of it)."""
    if text in {"", "."}:
        return ROOT
    return encode_labels(label.encode("utf-8", "replace") for label in text.removesuffix(".").split("."))


def encode_labels(labels: Iterable[bytes]) -> bytes | None:
    wire = bytearray()
    for label in labels:
        if not 0 < len(label) <= LABEL_BYTES_MAX:
            return None
        wire.append(len(label))
        wire += label
    wire.append(0)
    return bytes(wire) if len(wire) <= NAME_BYTES_MAX else None


def labels_of(name: bytes) -> list[str]:
    """The labels of a wire name in lower case, as names compare; bytes that are no text match nothing."""
    labels = []
    at = 0
    while length := name[at]:
        labels.append(name[at + 1 : at + 1 + length].decode("utf-8", "replace").lower())
        at += length + 1
    return labels


def text_of(name: bytes) -> str:
    """For people: dotted, absolute."""
    return ".".join(labels_of(name)) + "."


def text_data(text: str) -> bytes:
    """The data of a TXT record: strings of at most 255 bytes."""
    octets = text.encode("utf-8", "replace")
    pieces = [octets[start : start + 255] for start in range(0, len(octets), 255)] or [b""]
    return b"".join(bytes((len(piece),)) + piece for piece in pieces)


def text_of_data(data: bytes) -> str:
    """The strings of a TXT record, joined."""
    octets = bytearray()
    at = 0
    while at < len(data):
        octets += data[at + 1 : at + 1 + data[at]]
        at += 1 + data[at]
    return octets.decode("utf-8", "replace")


class RecordWriter:
    """Appends records behind a question, pointing back at names already written."""

    __slots__ = ("_base", "_is_compressing", "_seen", "body")

    def __init__(self, question_name: bytes, *, is_compressing: bool) -> None:
        self.body = bytearray()
        self._base = HEADER_BYTES + len(question_name) + 4
        self._is_compressing = is_compressing
        self._seen: dict[bytes, int] = {}  # lower-case name -> offset in the message
        self._remember(question_name, HEADER_BYTES)

    def record(self, record: Record) -> None:
        body = self.body
        self._name(record.owner)
        body += struct.pack("!HHIH", record.rtype, IN, record.ttl_s, 0)
        length_at = len(body) - 2
        body += record.data
        if record.target:
            self._target(record)
        length = len(body) - length_at - 2
        body[length_at : length_at + 2] = length.to_bytes(2)

    def _target(self, record: Record) -> None:
        if record.rtype != SRV:
            self._name(record.target)
            return
        # RFC 2782 forbids compressing an SRV target, but what follows may point at it.
        self._remember(record.target, self._base + len(self.body))
        self.body += record.target

    def _name(self, name: bytes) -> None:
        if not self._is_compressing:
            self.body += name
            return
        lower = name.lower()
        start = 0
        while length := name[start]:
            offset = self._seen.get(lower[start:])
            if offset is not None:
                self._remember(name, self._base + len(self.body), stop=start)
                self.body += name[:start] + (POINTER | offset).to_bytes(2)
                return
            start += length + 1
        self._remember(name, self._base + len(self.body))
        self.body += name

    def _remember(self, name: bytes, offset: int, stop: int = NAME_BYTES_MAX) -> None:
        """Every tail of a name that begins before `stop` can be pointed at from here on."""
        lower = name.lower()
        start = 0
        while start < stop and (length := name[start]) and offset + start <= POINTER_MAX:
            self._seen.setdefault(lower[start:], offset + start)
            start += length + 1


def head(flags: int, answers: int, authorities: int, additionals: int) -> bytes:
    """The header of an answer to one question, from its flags on: the ten bytes that follow the id."""
    return struct.pack("!5H", flags, 1, answers, authorities, additionals)


def opt_record(edns_bytes: int, options: bytes = b"", extended_rcode: int = 0) -> bytes:
    return b"\0\0\x29" + struct.pack("!HBBHH", edns_bytes, extended_rcode, 0, 0, len(options)) + options


def query(message_id: int, name: bytes, qtype: int, edns_bytes: int) -> bytes:
    """A question of our own, to a recursor."""
    question = Question(message_id, RD, name, qtype)
    return HEADER.pack(message_id, RD, 1, 0, 0, 1) + question.echo + opt_record(edns_bytes)


def failure(question: Question, rcode: int, *, extra_flags: int = 0) -> bytes:
    """An answer that says only how it went."""
    opt = b"" if question.edns_bytes is None else opt_record(question.edns_bytes, question.edns_options)
    flags = QR | question.flags & (RD | CD) | extra_flags | rcode & RCODE_MASK
    return question.message_id.to_bytes(2) + head(flags, 0, 0, bool(opt)) + question.echo + opt


def bare_reply(message_id: int, flags: int, rcode: int) -> bytes:
    """A header alone: the answer to a message whose question could not be read."""
    return HEADER.pack(message_id, QR | flags & (OPCODE_MASK | RD) | rcode, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class MalformedQuestion:
    """Bytes that ask nothing. `reply` is what the sender gets; empty means silence."""

    reason: str
    reply: bytes = b""
