"""Everything that is not the common form of a question, read by dnslib: the one place that knows it.

Other opcodes, several questions or none, compressed questions, EDNS options and versions, other classes, and
plain rubbish. What can be answered becomes the same `Question` the fast path makes; the rest becomes a
refusal, or silence where a reply could start a quarrel between two servers. dnslib costs 30 ms to import and
loads socket, so it is imported with the first such message.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from adsum.dns.wire import (
    AAAA,
    BADVERS,
    CLIENT_SUBNET,
    CNAME,
    FORMERR,
    HEADER,
    HEADER_BYTES,
    NOTIMP,
    OPCODE_MASK,
    OPT,
    QR,
    RCODE_MASK,
    RD,
    A,
    Malformed,
    Question,
    Record,
    bare_reply,
    encode_labels,
    opt_record,
)

if TYPE_CHECKING:
    from dnslib import RR, DNSRecord

# Reading a record takes dnslib up to 0.1 ms, so a packet stuffed with them would hold everybody else up.
QUESTION_RECORDS_MAX = 8  # beside the question; OPT and TSIG are all that anyone sends
ANSWER_RECORDS_MAX = 128
SUBNET_CODE = int.from_bytes(CLIENT_SUBNET)
PREFIX_MAX = {0: 0, 1: 32, 2: 128}  # by address family; 0 says "do not tell anyone where I am"
SUBNET_HEAD = struct.Struct("!HBB")  # family, source prefix length, scope prefix length


def read_message(packet: bytes) -> Question | Malformed:
    if len(packet) < HEADER_BYTES:
        return Malformed("shorter than a header")
    message_id, flags, questions, *others = HEADER.unpack_from(packet)
    if flags & QR:
        return Malformed("an answer, which nobody here asked for")
    if flags & OPCODE_MASK:
        return Malformed("an operation other than QUERY", bare_reply(message_id, flags, NOTIMP))
    if questions != 1:
        return Malformed("not exactly one question", bare_reply(message_id, flags, FORMERR))
    record = _parsed(packet) if sum(others) <= QUESTION_RECORDS_MAX else None
    if record is None:
        return Malformed("no DNS message", bare_reply(message_id, flags, FORMERR))
    return _question(record, message_id, flags)


def read_records(packet: bytes) -> tuple[Record, ...]:
    """The aliases and addresses in another server's answer; none if it is no answer."""
    if len(packet) < HEADER_BYTES or sum(HEADER.unpack_from(packet)[2:]) > ANSWER_RECORDS_MAX:
        return ()
    parsed = _parsed(packet)
    records = (_record(each) for each in (parsed.rr if parsed is not None else ()))
    return tuple(record for record in records if record is not None)


def _record(parsed: RR) -> Record | None:
    owner = encode_labels(parsed.rname.label)
    if owner is None:
        return None
    # Without data it is neither alias nor address, whatever its type says: dnslib keeps it as plain bytes.
    if parsed.rtype in {A, AAAA} and len(parsed.rdata.data) in {4, 16}:
        return Record(owner, parsed.rtype, parsed.ttl, bytes(parsed.rdata.data))
    if parsed.rtype == CNAME and hasattr(parsed.rdata, "label"):
        target = encode_labels(parsed.rdata.label.label)
        return Record(owner, CNAME, parsed.ttl, target=target) if target else None
    return None


def _parsed(packet: bytes) -> DNSRecord | None:
    from dnslib import DNSRecord

    try:
        return DNSRecord.parse(packet)
    except Exception:
        return None


def _question(record: DNSRecord, message_id: int, flags: int) -> Question | Malformed:
    asked = record.q
    name = encode_labels(asked.qname.label)
    if name is None:
        return Malformed("a name that DNS cannot carry", bare_reply(message_id, flags, FORMERR))
    question = Question(message_id, flags, name, asked.qtype, asked.qclass)
    opts = [each for each in record.ar if each.rtype == OPT]
    if not opts:
        return question
    if len(opts) > 1:
        return Malformed("several OPT records", bare_reply(message_id, flags, FORMERR))
    if opts[0].ttl >> 16 & 0xFF:  # the version; ours is 0
        return Malformed("an unknown version of EDNS", _bad_version(question))
    options = _echoed_options(opts[0])
    if options is None:
        return Malformed("a malformed client subnet", bare_reply(message_id, flags, FORMERR))
    return question._replace(edns_bytes=opts[0].rclass, edns_options=options)


def _bad_version(question: Question) -> bytes:
    flags = QR | question.flags & RD | BADVERS & RCODE_MASK
    header = HEADER.pack(question.message_id, flags, 1, 0, 0, 1)
    return header + question.echo + opt_record(512, extended_rcode=BADVERS >> 4)


def _echoed_options(opt: RR) -> bytes | None:
    """The client's subnet goes back with scope 0: true for everyone. Other options are not ours to answer.
    None if the subnet is malformed, which RFC 7871 wants refused."""
    subnet = next((bytes(option.data) for option in opt.rdata if option.code == SUBNET_CODE), None)
    if subnet is None:
        return b""
    if not _is_subnet(subnet):
        return None
    family, source, _ = SUBNET_HEAD.unpack_from(subnet)
    data = SUBNET_HEAD.pack(family, source, 0) + subnet[SUBNET_HEAD.size :]
    return CLIENT_SUBNET + len(data).to_bytes(2) + data


def _is_subnet(subnet: bytes) -> bool:
    """Known family, an address of just the prefix's length, and nothing set behind the prefix."""
    if len(subnet) < SUBNET_HEAD.size:
        return False
    family, source, _ = SUBNET_HEAD.unpack_from(subnet)
    address = subnet[SUBNET_HEAD.size :]
    padding_bits = len(address) * 8 - source
    if source > PREFIX_MAX.get(family, -1) or not 0 <= padding_bits < 8:
        return False
    return not int.from_bytes(address) & (1 << padding_bits) - 1
