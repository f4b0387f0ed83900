"""Names and records in any bytes, with dnspython as the judge."""

from __future__ import annotations

import dns.exception
import dns.name
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adsum.dns.reader import RawRecord, Reader, UnreadableDns

HEADER = bytes(12)


def name_in(packet: bytes, at: int = 12, labels_max: int = 256) -> tuple[bytes, int]:
    return Reader(packet, labels_max).name_at(at)


def test_pointers_are_followed_and_what_comes_next_is_behind_the_first_of_them() -> None:
    packet = HEADER + b"\6consul\0" + b"\3web\xc0\x0c" + b"\1a\xc0\x14" + b"next"
    assert name_in(packet, 26) == (b"\1a\3web\6consul\0", 30)


@pytest.mark.parametrize(
    "name",
    [b"\xc0\x0c", b"\1a\xc0\x0c", b"\1a\xc0\x0e", b"\xc0\x20\1a\0", b"\x40" + b"x" * 64 + b"\0", b"\x80x\0"],
    ids=["to itself", "in a circle", "to the pointer", "forwards", "a bit label", "a reserved kind of label"],
)
def test_pointers_that_do_not_lead_back_and_other_kinds_of_labels_are_refused(name: bytes) -> None:
    with pytest.raises(UnreadableDns, match="points to nothing before it"):
        name_in(HEADER + name + bytes(40))


@pytest.mark.parametrize("name", [b"", b"\3we", b"\3web", b"\3web\xc0"])
def test_names_that_are_cut_off_are_refused(name: bytes) -> None:
    with pytest.raises(UnreadableDns):
        name_in(HEADER + name)


def test_the_longest_name_is_read_and_a_longer_one_refused() -> None:
    assert len(name_in(HEADER + b"\1a" * 127 + b"\0")[0]) == 255
    with pytest.raises(UnreadableDns, match="too long"):
        name_in(HEADER + b"\1a" * 128 + b"\0")


def test_labels_and_pointers_of_the_whole_message_are_counted() -> None:
    packet = HEADER + b"\1a\1b\1c\0" * 3
    reader = Reader(packet, 8)
    reader.name()
    reader.skip_name()
    with pytest.raises(UnreadableDns, match="more labels than anyone sends"):
        reader.skip_name()


def test_names_that_are_skipped_are_not_followed() -> None:
    record = b"\0\1\0\1\0\0\0\5\0\4\1\2\3\4"
    reader = Reader(HEADER + b"\3web\xff\xff" + record + b"\0" + record, 8)
    for data_at in (28, 43):
        reader.skip_name()
        assert reader.record() == RawRecord(1, 1, 5, data_at, b"\1\2\3\4")


@given(st.binary(max_size=80), st.integers(0, 60))
@example(b"\1a\xc0\x0c\xc0\x0e", 4)
def test_what_is_read_is_what_dnspython_reads(tail: bytes, at: int) -> None:
    packet = HEADER + tail
    try:
        name, end = name_in(packet, 12 + at)
    except UnreadableDns:
        return
    judge, size = dns.name.from_wire(packet, 12 + at)
    assert (name, end) == (judge.to_wire(), 12 + at + size)


@given(st.binary(max_size=80), st.integers(0, 60))
def test_what_dnspython_reads_is_read(tail: bytes, at: int) -> None:
    packet = HEADER + tail
    try:
        judge, _ = dns.name.from_wire(packet, 12 + at)
    except dns.exception.DNSException:
        return
    assert name_in(packet, 12 + at)[0] == judge.to_wire()
