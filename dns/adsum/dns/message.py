"""Messages that are not the common form of a question, and other servers' answers, read by hand.

Other operations, several questions or none, compressed names, EDNS options and versions, other classes, other
records beside the question, and plain rubbish. What can be answered becomes the same `Question` the fast path
makes; the rest becomes a refusal, or silence where a reply could start a quarrel between two servers.

Nothing is built of what is not needed. Of a packet that asks, this is the question and the OPT record: all
other records are stepped over by their lengths, unread. Everything is bounded by what is ever sent in
earnest, so that the most costly packet costs a few times what a common question does.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from adsum.dns import wire
from adsum.dns.reader import Reader, UnreadableDns
from adsum.dns.wire import CNAME, FORMERR, HEADER, HEADER_BYTES, MalformedQuestion, Question, Record

QUESTION_RECORDS_MAX = 8  # beside the question; OPT and TSIG are all that anyone sends
QUESTION_LABELS_MAX = 256  # the longest name has 127, and there are those records' names
ANSWER_RECORDS_MAX = 128
ANSWER_LABELS_MAX = 2048  # sixteen for each of these records
ADDRESS_BYTES = {wire.A: 4, wire.AAAA: 16}
SUBNET_CODE = int.from_bytes(wire.CLIENT_SUBNET)
PREFIX_MAX = {0: 0, 1: 32, 2: 128}  # by address family; 0 says "do not tell anyone where I am"
SUBNET_HEAD = struct.Struct("!HBB")  # family, source prefix length, scope prefix length
OPTION_HEAD = struct.Struct("!HH")  # code, length


def read_message(packet: bytes) -> Question | MalformedQuestion:
    if len(packet) < HEADER_BYTES:
        return MalformedQuestion("shorter than a header")
    message_id, flags, questions, *others = HEADER.unpack_from(packet)
    if flags & wire.QR:
        return MalformedQuestion("an answer, which nobody here asked for")
    if flags & wire.OPCODE_MASK:
        return MalformedQuestion(
            "an operation other than QUERY", wire.bare_reply(message_id, flags, wire.NOTIMP)
        )
    if questions != 1:
        return MalformedQuestion("not exactly one question", wire.bare_reply(message_id, flags, FORMERR))
    try:
        return _question(packet, message_id, flags, others)
    except UnreadableDns as error:
        return MalformedQuestion(str(error), wire.bare_reply(message_id, flags, FORMERR))


def read_records(packet: bytes) -> tuple[Record, ...]:
    """The aliases and addresses in another server's answer; none if it is no answer."""
    if len(packet) < HEADER_BYTES:
        return ()
    _, _, questions, answers, *others = HEADER.unpack_from(packet)
    if questions + answers + sum(others) > ANSWER_RECORDS_MAX:
        return ()
    reader = Reader(packet, ANSWER_LABELS_MAX)
    try:
        for _ in range(questions):
            reader.question()
        records = [_record(reader) for _ in range(answers)]
    except UnreadableDns:
        return ()
    return tuple(record for record in records if record is not None)


def _record(reader: Reader) -> Record | None:
    owner = reader.name()
    raw = reader.record()
    if raw.rtype in ADDRESS_BYTES and len(raw.data) == ADDRESS_BYTES[raw.rtype]:
        return Record(owner, raw.rtype, raw.ttl, raw.data)
    if raw.rtype == CNAME and raw.data:
        target, end = reader.name_at(raw.data_at)
        return Record(owner, CNAME, raw.ttl, target=target) if end == raw.data_at + len(raw.data) else None
    return None


def _question(
    packet: bytes, message_id: int, flags: int, counts: Sequence[int]
) -> Question | MalformedQuestion:
    if sum(counts) > QUESTION_RECORDS_MAX:
        raise UnreadableDns("more records than anyone asks with")
    reader = Reader(packet, QUESTION_LABELS_MAX)
    name, qtype, qclass = reader.question()
    question = Question(message_id, flags, name, qtype, qclass)
    records = []
    for _ in range(sum(counts)):
        reader.skip_name()
        records.append(reader.record())
    # It belongs among the additional records.
    opts = [record for record in records[sum(counts[:2]) :] if record.rtype == wire.OPT]
    if not opts:
        return question
    if len(opts) > 1:
        raise UnreadableDns("several OPT records")
    if opts[0].ttl >> 16 & 0xFF:  # the version; ours is 0
        low, high = wire.BADVERS & wire.RCODE_MASK, wire.BADVERS >> 4
        header = HEADER.pack(message_id, wire.QR | flags & wire.RD | low, 1, 0, 0, 1)
        reply = header + question.echo + wire.opt_record(512, extended_rcode=high)
        return MalformedQuestion("an unknown version of EDNS", reply)
    return question._replace(edns_bytes=opts[0].rclass, edns_options=_echoed_options(opts[0].data))


def _echoed_options(options: bytes) -> bytes:
    """The client's subnet goes back with scope 0: true for everyone. Other options are not ours to answer."""
    subnet = _client_subnet(options)
    if subnet is None:
        return b""
    if not _is_subnet(subnet):
        raise UnreadableDns("a malformed client subnet")  # RFC 7871 wants it refused
    family, source, _ = SUBNET_HEAD.unpack_from(subnet)
    data = SUBNET_HEAD.pack(family, source, 0) + subnet[SUBNET_HEAD.size :]
    return wire.CLIENT_SUBNET + len(data).to_bytes(2) + data


def _client_subnet(options: bytes) -> bytes | None:
    at = count = 0
    subnet = None
    while at < len(options):
        count += 1
        if len(options) - at < OPTION_HEAD.size or count > wire.EDNS_OPTIONS_MAX:
            raise UnreadableDns("EDNS options that are cut off, or more than anyone sends")
        code, length = OPTION_HEAD.unpack_from(options, at)
        start = at + OPTION_HEAD.size
        at = start + length
        if code == SUBNET_CODE and subnet is None:
            subnet = options[start:at]
    if at > len(options):
        raise UnreadableDns("EDNS options that are cut off")
    return subnet


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
