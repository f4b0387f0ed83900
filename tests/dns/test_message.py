"""Everything that is not a common question; dnspython writes it, dnslib reads it for us."""

from __future__ import annotations

import dns.edns
import dns.message
import dns.opcode
import dns.rcode
import dns.update
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adsum.dns import wire
from adsum.dns.message import read_message, read_records
from adsum.dns.wire import Malformed, Question


def rcode_of(read: Question | Malformed) -> dns.rcode.Rcode:
    assert isinstance(read, Malformed)
    return dns.message.from_wire(read.reply).rcode()


def test_other_operations_are_not_implemented() -> None:
    assert rcode_of(read_message(dns.update.UpdateMessage("consul").to_wire())) == dns.rcode.NOTIMP


@pytest.mark.parametrize("questions", [0, 2])
def test_anything_but_one_question_is_a_format_error(questions: int) -> None:
    packet = wire.HEADER.pack(1, wire.RD, questions, 0, 0, 0) + b"\3web\6consul\0\0\1\0\1" * questions
    assert rcode_of(read_message(packet)) == dns.rcode.FORMERR


def test_answers_are_never_answered() -> None:
    packet = dns.message.make_response(dns.message.make_query("web.consul", "A")).to_wire()
    assert read_message(packet) == Malformed("an answer, which nobody here asked for")


def test_less_than_a_header_gets_silence() -> None:
    assert read_message(b"\0" * 11) == Malformed("shorter than a header")


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
    if isinstance(read, Malformed) and read.reply:
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
