"""Everything that is not a common question; dnspython writes it, and dnslib judges how we read it."""

from __future__ import annotations

import dns.edns
import dns.message
import dns.opcode
import dns.rcode
import dns.update
import pytest
from dnslib import DNSRecord
from hypothesis import example, given
from hypothesis import strategies as st

from adsum.dns import wire
from adsum.dns.message import read_message, read_records
from adsum.dns.wire import MalformedQuestion, Question


def rcode_of(read: Question | MalformedQuestion) -> dns.rcode.Rcode:
    assert isinstance(read, MalformedQuestion)
    return dns.message.from_wire(read.reply).rcode()


def test_other_operations_are_not_implemented() -> None:
    assert rcode_of(read_message(dns.update.UpdateMessage("consul").to_wire())) == dns.rcode.NOTIMP


@pytest.mark.parametrize("questions", [0, 2])
def test_anything_but_one_question_is_a_format_error(questions: int) -> None:
    packet = wire.HEADER.pack(1, wire.RD, questions, 0, 0, 0) + b"\3web\6consul\0\0\1\0\1" * questions
    assert rcode_of(read_message(packet)) == dns.rcode.FORMERR


def test_answers_are_never_answered() -> None:
    packet = dns.message.make_response(dns.message.make_query("web.consul", "A")).to_wire()
    assert read_message(packet) == MalformedQuestion("an answer, which nobody here asked for")


def test_less_than_a_header_gets_silence() -> None:
    assert read_message(b"\0" * 11) == MalformedQuestion("shorter than a header")


def test_client_subnet_is_echoed_with_scope_zero() -> None:
    options = [dns.edns.ECSOption("10.1.0.0", 16), dns.edns.GenericOption("COOKIE", b"cookie42")]
    read = read_message(dns.message.make_query("web.consul", "A", options=options, payload=1400).to_wire())
    assert isinstance(read, Question)
    assert read.edns_bytes == 1400
    assert read.edns_options == b"\0\x08\0\x06\0\1\x10\0\x0a\1"


@pytest.mark.parametrize(
    "subnet",
    [
        b"\0\1",
        b"\0\1\x0c\0\x0a\1",
        b"\0\1\x21\0\1\2\3\4\5",
        b"\0\1\x10\0\x0a",
        b"\0\3\0\0",
        b"\0\1\x08\0\x0a\0",
    ],
)
def test_malformed_client_subnet_is_a_format_error(subnet: bytes) -> None:
    option = b"\0\x08" + len(subnet).to_bytes(2) + subnet
    packet = wire.HEADER.pack(1, 0, 1, 0, 0, 1) + b"\3web\0\0\1\0\1" + wire.opt_record(512, option)
    assert rcode_of(read_message(packet)) == dns.rcode.FORMERR


def test_unknown_edns_version_is_badvers() -> None:
    read = read_message(dns.message.make_query("web.consul", "A", use_edns=1).to_wire())
    assert rcode_of(read) == dns.rcode.BADVERS


def test_class_is_ignored_and_echoed() -> None:
    read = read_message(dns.message.make_query("web.consul", "A", rdclass="CH").to_wire())
    assert isinstance(read, Question)
    assert (read.name, read.qclass) == (b"\3web\6consul\0", 3)


def test_two_opt_records_are_a_format_error() -> None:
    packet = wire.HEADER.pack(1, 0, 1, 0, 0, 2) + b"\3web\6consul\0\0\1\0\1" + wire.opt_record(512) * 2
    assert rcode_of(read_message(packet)) == dns.rcode.FORMERR


def test_opt_record_is_found_behind_other_records_whose_data_make_no_sense() -> None:
    sections = b"\3web\xc0\x0c\0\6\0\1\0\0\0\0\0\0" + b"\xc0\x0c\0\x10\0\1\0\0\0\0\0\2\xff\xff"
    signature = b"\0\0\xfa\0\xff\0\0\0\0\0\3mac"
    packet = wire.HEADER.pack(1, 0, 1, 1, 1, 2) + b"\3web\6consul\0\0\1\0\1"
    read = read_message(packet + sections + wire.opt_record(1400) + signature)
    assert read == Question(1, 0, b"\3web\6consul\0", 1, 1, 1400, b"")


def test_opt_records_outside_their_section_are_other_records() -> None:
    packet = wire.HEADER.pack(1, 0, 1, 1, 1, 0) + b"\3web\6consul\0\0\1\0\1" + wire.opt_record(1400) * 2
    assert read_message(packet) == Question(1, 0, b"\3web\6consul\0", 1)


@pytest.mark.parametrize(
    ("options", "is_read"),
    [
        (b"\0\x0a\0\1c" * 31 + b"\0\x08\0\4\0\0\0\0", True),
        (b"\0\x0a\0\1c" * 32 + b"\0\x08\0\4\0\0\0\0", False),
        (b"\0\x08\0\4\0\0\0\0" + b"\0\x0a\0", False),
        (b"\0\x08\0\4\0\0\0\0" + b"\0\x0a\0\2c", False),
    ],
    ids=["as many as are read", "one more", "cut off in its head", "cut off in its data"],
)
def test_options_are_read_up_to_a_number_and_to_their_end(options: bytes, is_read: bool) -> None:
    packet = wire.HEADER.pack(1, 0, 1, 0, 0, 1) + b"\3web\0\0\1\0\1" + wire.opt_record(512, options)
    assert wire.parse_question(packet) is None
    assert isinstance(read_message(packet), Question) == is_read


def test_question_with_hundreds_of_labels_is_a_format_error() -> None:
    record = b"\1a" * 120 + b"\0\0\1\0\1\0\0\0\0\0\4\1\2\3\4"
    for count, is_read in ((2, True), (3, False)):
        packet = wire.HEADER.pack(1, wire.RD, 1, 0, 0, count) + b"\3web\0\0\1\0\1" + record * count
        assert isinstance(read_message(packet), Question) == is_read


def test_question_stuffed_with_records_is_a_format_error() -> None:
    record = b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4\1\2\3\4"
    for count, is_read in ((8, True), (9, False)):
        packet = wire.HEADER.pack(1, 0, 1, 0, 0, count) + b"\3web\0\0\1\0\1" + record * count
        assert isinstance(read_message(packet), Question) == is_read


@given(st.binary(max_size=120))
@example(b"\0\1\0\0\0\1\0\0\0\0\0\0\xc0\x0c\0\1\0\1")
@example(b"\0\1\0\0\0\1\xff\xff\xff\xff\xff\xff" + b"\xc0\x0c" * 40)
def test_random_bytes_are_dropped_or_refused(packet: bytes) -> None:
    read = read_message(packet)
    if isinstance(read, MalformedQuestion) and read.reply:
        assert dns.message.from_wire(read.reply).id == int.from_bytes(packet[:2])


@given(
    st.binary(max_size=60),
    st.tuples(*[st.integers(0, 3)] * 3),
)
def test_random_tails_behind_a_good_header_are_dropped_or_refused(
    tail: bytes, counts: tuple[int, ...]
) -> None:
    read = read_message(wire.HEADER.pack(9, wire.RD, 1, *counts) + tail)
    if isinstance(read, Question):
        assert dns.name.from_wire(read.name, 0)[1] == len(read.name)


NAMES = st.sampled_from([b"\0", b"\3web\6consul\0", b"\1a" * 20 + b"\0"])
OWNERS = NAMES | st.sampled_from([b"\xc0\x0c", b"\1x\xc0\x0c"])
OPTIONS = st.sampled_from(
    [b"", b"\0\x0a\0\3abc", b"\0\x08\0\x04\0\1\0\0", b"\0\x08\0\x06\0\1\x10\0\x0a\1", b"\0\3\0\1x"]
)
DATA = {1: b"\1\2\3\4", 2: b"\2ns\0", 15: b"\0\1\xc0\x0c", 16: b"\3two\4text", 28: bytes(16), 999: b"any"}


@st.composite
def records(draw: st.DrawFn) -> bytes:
    if draw(st.booleans()):
        options = draw(st.lists(OPTIONS, max_size=3).map(b"".join))
        return draw(OWNERS) + wire.opt_record(draw(st.sampled_from([512, 1232])), options)[1:]
    rtype = draw(st.sampled_from(sorted(DATA)))
    head = rtype.to_bytes(2) + b"\0\1\0\0\0\5" + len(DATA[rtype]).to_bytes(2)
    return draw(OWNERS) + head + DATA[rtype]


@given(NAMES, st.integers(0, 0xFFFF), st.lists(st.lists(records(), max_size=2), min_size=3, max_size=3))
def test_questions_are_read_as_dnslib_reads_them(
    name: bytes, qclass: int, sections: list[list[bytes]]
) -> None:
    counts = [len(section) for section in sections]
    head = wire.HEADER.pack(7, wire.RD, 1, *counts) + name + b"\0\1" + qclass.to_bytes(2)
    packet = head + b"".join(record for section in sections for record in section)
    read, judge = read_message(packet), DNSRecord.parse(packet)
    opts = [record for record in judge.ar if record.rtype == wire.OPT]
    if len(opts) > 1:
        assert isinstance(read, MalformedQuestion)
        return
    assert isinstance(read, Question)
    assert read[:5] == (7, wire.RD, wire.encode_labels(judge.q.qname.label), judge.q.qtype, judge.q.qclass)
    assert [read.edns_bytes] == ([opt.rclass for opt in opts] or [None])
    subnets = [bytes(option.data) for opt in opts for option in opt.rdata if option.code == 8]
    assert read.edns_options[4:] == b"".join(subnets[:1])


def test_names_of_a_recursors_answer_are_read_whole_however_they_are_packed() -> None:
    head = wire.HEADER.pack(1, wire.QR, 1, 2, 0, 0) + b"\3www\7example\3com\0\0\1\0\1"
    alias = b"\xc0\x0c\0\5\0\1\0\0\0\5\0\7\4edge\xc0\x10"
    address = b"\xc0\x2d\0\x1c\0\1\0\0\0\6\0\x10" + bytes(range(16))
    assert read_records(head + alias + address) == (
        wire.Record(b"\3www\7example\3com\0", wire.CNAME, 5, b"", b"\4edge\7example\3com\0"),
        wire.Record(b"\4edge\7example\3com\0", wire.AAAA, 6, bytes(range(16))),
    )


def test_alias_whose_name_does_not_fill_its_data_is_no_record() -> None:
    head = wire.HEADER.pack(1, wire.QR, 0, 1, 0, 0) + b"\3www\0\0\5\0\1\0\0\0\5"
    assert read_records(head + b"\0\6\4edge\0") == (wire.Record(b"\3www\0", wire.CNAME, 5, b"", b"\4edge\0"),)
    assert read_records(head + b"\0\7\4edge\0\0") == ()
    assert read_records(head + b"\0\5\4edge\0") == ()


def test_an_answer_of_long_names_without_end_is_none() -> None:
    question = b"\1a" * 127 + b"\0\0\1\0\1"
    address = b"\xc0\x0c\0\1\0\1\0\0\0\5\0\4\1\2\3\4"
    for count, found in ((14, 14), (15, 0)):
        packet = wire.HEADER.pack(1, wire.QR, 1, count, 0, 0) + question + address * count
        assert len(read_records(packet)) == found


def test_records_of_a_recursors_answer_are_read() -> None:
    response = dns.message.from_text(
        """id 1
flags QR RD RA
;QUESTION
www.example.com. IN A
;ANSWER
www.example.com. 300 IN CNAME edge.example.net.
edge.example.net. 60 IN A 192.0.2.1
edge.example.net. 60 IN TXT "no"
"""
    )
    assert read_records(response.to_wire()) == (
        wire.Record(b"\3www\7example\3com\0", wire.CNAME, 300, b"", b"\4edge\7example\3net\0"),
        wire.Record(b"\4edge\7example\3net\0", wire.A, 60, b"\xc0\0\2\1"),
    )
    assert read_records(b"rubbish") == ()


@given(st.binary(max_size=80), st.sampled_from([wire.A, wire.AAAA, wire.CNAME]), st.integers(0, 20))
@example(b"", wire.CNAME, 0)
def test_a_recursors_rubbish_is_no_record(data: bytes, rtype: int, length: int) -> None:
    record = b"\3www\3com\0" + rtype.to_bytes(2) + b"\0\1\0\0\0\5" + length.to_bytes(2) + data
    packet = wire.HEADER.pack(1, wire.QR, 0, 1, 0, 0) + record
    for each in read_records(packet):
        assert len(each.data) in {0, 4, 16}
