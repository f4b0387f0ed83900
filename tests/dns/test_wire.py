"""Bytes, with dnspython as the judge."""

from __future__ import annotations

import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rdatatype
import dns.rrset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.dns import wire
from adsum.dns.wire import AAAA, CNAME, SRV, A, Question, Record, RecordWriter

LABEL = st.binary(min_size=1, max_size=20)
NAME = st.lists(LABEL, max_size=8).map(lambda labels: wire.encode_labels(labels) or wire.ROOT)


def common(name: str, rdtype: str = "A", edns: int | None = None) -> bytes:
    return dns.message.make_query(
        name, rdtype, use_edns=False if edns is None else 0, payload=edns or 0
    ).to_wire()


def test_common_form_is_read_in_full() -> None:
    packet = b"\x12\x34\x01\x00\0\1\0\0\0\0\0\0\3WeB\6consul\0\0\x21\0\1"
    assert wire.parse_question(packet) == Question(0x1234, wire.RD, b"\3WeB\6consul\0", SRV)


def test_bare_edns_is_common() -> None:
    question = wire.parse_question(common("web.service.consul", edns=1232))
    assert question is not None
    assert question.edns_bytes == 1232


def test_edns_options_that_we_do_not_answer_are_common() -> None:
    options = [dns.edns.GenericOption("NSID", b""), dns.edns.CookieOption(b"01234567", b"")]
    packet = dns.message.make_query("web.consul", "A", options=options, payload=1400, want_dnssec=True)
    question = wire.parse_question(packet.to_wire())
    assert question is not None
    assert (question.edns_bytes, question.edns_options) == (1400, b"")


def test_more_options_than_anyone_sends_are_not_common() -> None:
    for count, is_read in ((32, True), (33, False)):
        options = wire.opt_record(1232, b"\0\x0a\0\0" * count)
        packet = wire.HEADER.pack(1, 0, 1, 0, 0, 1) + b"\3web\0\0\1\0\1" + options
        assert (wire.parse_question(packet) is not None) == is_read


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        common("web.consul")[:-1],
        common("web.consul") + b"\0",
        common("web.consul", edns=1232) + b"\0",
        dns.message.make_query("web.consul", "A", rdclass="CH").to_wire(),
        dns.message.make_query("web.consul", "A", options=[dns.edns.ECSOption("10.0.0.0", 8)]).to_wire(),
        common("web.consul", edns=1232)[:-2] + b"\0\4\0\x0a\0\1",
        dns.message.make_query("web.consul", "A", use_edns=1).to_wire(),
        common("web.consul")[:12] + b"\xc0\x0c\0\1\0\1",
        common("web.consul")[:12] + b"\x3f" + b"x" * 62 + b"\0\1\0\1",
        common("web.consul")[:12] + (b"\x3f" + b"x" * 63) * 4 + b"\0\0\1\0\1",
        b"\0\0\x80" + common("web.consul")[3:],
        b"\0\0\x28" + common("web.consul")[3:],
        common("web.consul")[:5] + b"\2" + common("web.consul")[6:],
    ],
    ids=[
        "empty",
        "cut off",
        "trailing byte",
        "trailing byte after EDNS",
        "class",
        "EDNS option that we answer",
        "EDNS option that is cut off",
        "EDNS version",
        "compressed",
        "label beyond the end",
        "name too long",
        "answer",
        "opcode",
        "two questions",
    ],
)
def test_anything_else_is_left_to_the_full_parser(packet: bytes) -> None:
    assert wire.parse_question(packet) is None


@given(st.binary(max_size=80))
def test_random_bytes_never_raise(packet: bytes) -> None:
    wire.parse_question(packet)


@given(NAME, st.integers(0, 0xFFFF), st.sampled_from([0, wire.RD, wire.RD | wire.AD, wire.CD]))
def test_what_is_read_is_what_dnspython_reads(name: bytes, qtype: int, flags: int) -> None:
    packet = wire.HEADER.pack(7, flags, 1, 0, 0, 0) + name + qtype.to_bytes(2) + b"\0\1"
    question = wire.parse_question(packet)
    judge = dns.message.from_wire(packet).question[0]
    assert question is not None
    assert (question.name, question.qtype) == (judge.name.to_wire(), judge.rdtype)


@given(
    NAME, st.lists(st.tuples(NAME, NAME, st.sampled_from([A, AAAA, CNAME, SRV])), max_size=12), st.booleans()
)
def test_every_written_record_reads_back(
    question_name: bytes, parts: list[tuple[bytes, bytes, int]], is_compressing: bool
) -> None:
    data = {A: b"\1\2\3\4", AAAA: bytes(range(16)), CNAME: b"", SRV: b"\0\1\0\2\0\3"}
    records = [
        Record(owner, rtype, 5, data[rtype], target if rtype in {CNAME, SRV} else b"")
        for owner, target, rtype in parts
    ]
    writer = RecordWriter(question_name, is_compressing=is_compressing)
    for record in records:
        writer.record(record)
    packet = b"\0\7" + wire.head(wire.QR, len(records), 0, 0) + question_name + b"\0\1\0\1" + writer.body
    judge = dns.message.from_wire(packet, one_rr_per_rrset=True)
    assert [(each.name, each.rdtype) for each in judge.answer] == [
        (dns.name.from_wire(record.owner, 0)[0], record.rtype) for record in records
    ]
    for each, record in zip(judge.answer, records, strict=True):
        if record.target:
            assert each[0].target == dns.name.from_wire(record.target, 0)[0]
    if not is_compressing:
        assert len(writer.body) == sum(record.bytes_uncompressed for record in records)


def test_names_that_end_alike_share_their_end() -> None:
    writer = RecordWriter(b"\3web\6consul\0", is_compressing=True)
    writer.record(Record(b"\2n1\6CONSUL\0", A, 0, b"\1\2\3\4"))
    writer.record(Record(b"\2N1\6consul\0", A, 0, b"\1\2\3\4"))
    assert bytes(writer.body) == (
        b"\2n1\xc0\x10\0\1\0\1\0\0\0\0\0\4\1\2\3\4" + b"\xc0\x1c\0\1\0\1\0\0\0\0\0\4\1\2\3\4"
    )


def test_targets_of_srv_are_whole_and_may_be_pointed_at() -> None:
    writer = RecordWriter(b"\6consul\0", is_compressing=True)
    writer.record(Record(b"\6consul\0", SRV, 0, bytes(6), b"\2n1\6consul\0"))
    writer.record(Record(b"\2n1\6consul\0", A, 0, b"\1\2\3\4"))
    assert b"\2n1\6consul\0" in writer.body
    assert bytes(writer.body[-16:-14]) == b"\xc0\x2a"


@pytest.mark.parametrize("text", ["a..b", "x" * 64, ".".join(["x" * 60] * 5), ".a"])
def test_names_that_dns_cannot_carry_are_told_apart(text: str) -> None:
    assert wire.encode_name(text) is None


def test_long_texts_are_split_into_strings() -> None:
    data = wire.text_data("x" * 300)
    assert data == b"\xff" + b"x" * 255 + b"\x2d" + b"x" * 45
    assert wire.text_of_data(data) == "x" * 300
    assert wire.text_data("") == b"\0"
