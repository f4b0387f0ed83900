from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adsum.dedup import DedupKey
from adsum.raft.changer import encode_configuration
from adsum.raft.messages import (
    Append,
    AppendRejected,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    Message,
    MessageStamp,
    SnapshotOffer,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from adsum.raft.types import Configuration, Entry, EntryKind, MemberId, SnapshotMeta, Term
from adsum.servers import wire
from adsum.servers.wire import Encoder, OtherVersion, UnreadableMessage, decode, encode_entries

A, B = MemberId("a", "log-a"), MemberId("b", "log-b")
HEAD = (MessageStamp("cluster", 3), A, B, Term(7))
KEY = DedupKey("agent", 1, 2, 0)
META = SnapshotMeta(9, Term(2), Configuration(voters=(A, B)), 1_000, 1, 3)


def entry(index: int, data: bytes, dedup: DedupKey | None = None) -> Entry:
    return Entry(index, Term(7), EntryKind.COMMAND, 50, 1, dedup, data)


MEMBERSHIP = Entry(
    4, Term(7), EntryKind.CONFIGURATION, 50, 1, None, encode_configuration(Configuration(voters=(A,)))
)
WRONG: list[object] = [None, "a word", b"bytes", -1, 1.5, [], 1 << 63]
MESSAGES: list[Message] = [
    Append(*HEAD, 2, 1, Term(6), ()),
    Append(*HEAD, 2, 1, Term(6), (entry(2, b"x" * 300), entry(3, b"", KEY), MEMBERSHIP)),
    AppendReply(*HEAD, 12),
    AppendRejected(*HEAD, 12, 10, Term(3)),
    Heartbeat(*HEAD, 4, 19),
    HeartbeatReply(*HEAD, 19, 1),
    HeartbeatReply(*HEAD, 19, 1, can_lead=False),
    VoteRequest(*HEAD, 12, Term(6), True, False),
    VoteReply(*HEAD, False, True, 4, Term(3)),
    TimeoutNow(*HEAD),
    SnapshotOffer(*HEAD, 9, META),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_arrives_as_it_was_sent(message: Message) -> None:
    assert decode(Encoder().encode(message)) == message


def test_rd14_an_entry_that_could_not_be_read_is_not_sent() -> None:
    with pytest.raises(AssertionError, match="without a client"):
        encode_entries([entry(2, b"data", DedupKey("", 1, 2, 3))])


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_that_was_cut_is_unreadable(message: Message) -> None:
    encoded = Encoder().encode(message)
    for length in range(len(encoded)):
        with pytest.raises(UnreadableMessage):
            decode(encoded[:length])


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_fields_of_another_type_never_reach_the_core(message: Message) -> None:
    fields = cbor2.loads(Encoder().encode(message))
    for position in range(len(fields)):
        for wrong in WRONG:
            if type(wrong) is not type(fields[position]) or wrong in (-1, 1 << 63):
                with pytest.raises(UnreadableMessage):
                    decode(cbor2.dumps([*fields[:position], wrong, *fields[position + 1 :]]))


@given(st.binary(max_size=200))
def test_garbage_is_unreadable_and_never_a_crash(garbage: bytes) -> None:
    with pytest.raises(UnreadableMessage):
        decode(garbage)


@given(st.integers(0, 500), st.integers(0, 255))
def test_a_damaged_block_of_entries_is_read_or_refused_and_never_a_crash(position: int, byte: int) -> None:
    block = bytearray(encode_entries([entry(2, b"some data", KEY), MEMBERSHIP]))
    block[position % len(block)] = byte
    with suppress(UnreadableMessage):
        assert all(isinstance(each, Entry) for each in wire.decode_entries(bytes(block)))


def test_another_version_is_told_from_garbage() -> None:
    encoded = Encoder().encode(Heartbeat(MessageStamp("cluster", 0, 4), A, B, Term(1), 0, 1))
    with pytest.raises(OtherVersion, match="version 4; this is 3"):
        decode(encoded)


@pytest.mark.parametrize(
    "membership",
    [
        [[], [], [], [], False],
        [[["a", "log"], ["a", "log"]], [], [], [], False],
        [[[1, 2]], [], [], [], False],
        [[["a" * 65, "log"]], [], [], [], False],
        [[["a", "log", "more"]], [], [], [], False],
        [[["a", "log"]], [], [], [], False, [[1, 2.5]]],
        [[["a", "log"]], [], [], [], False, [[[1], {}]]],
        [[["a", "log"]], [], [], [], False, [["x" * 65, "log"]]],
        [[["a", "log"]], [], [], [], False, [["b", str(number)] for number in range(33)]],
        "nothing of the kind",
    ],
)
def test_a_membership_that_cannot_be_is_refused_at_the_door(membership: object) -> None:
    data = cbor2.dumps(membership)
    with pytest.raises(UnreadableMessage):
        wire.decode_entries(encode_entries([Entry(2, Term(7), EntryKind.CONFIGURATION, 50, 1, None, data)]))
    meta = cbor2.dumps([9, 2, data, 1_000, 1, 3, 0])
    fields = cbor2.loads(Encoder().encode(MESSAGES[-1]))
    with pytest.raises(UnreadableMessage):
        decode(cbor2.dumps([*fields[:-1], meta]))


@pytest.mark.parametrize("position", [0, 1, 3, 4, 5, 6])
def test_an_offer_without_numbers_is_refused_at_the_door(position: int) -> None:
    numbers: list[object] = [9, 2, encode_configuration(META.configuration), 1_000, 1, 3, 0]
    fields = cbor2.loads(Encoder().encode(MESSAGES[-1]))
    assert decode(cbor2.dumps([*fields[:-1], cbor2.dumps(numbers)])) == MESSAGES[-1]
    numbers[position] = "a word"
    with pytest.raises(UnreadableMessage):
        decode(cbor2.dumps([*fields[:-1], cbor2.dumps(numbers)]))


def test_two_followers_are_sent_one_block_that_was_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bytes] = []
    original = wire.encode_entries

    def make(entries: Sequence[Entry]) -> bytes:
        made.append(original(entries))
        return made[-1]

    monkeypatch.setattr(wire, "encode_entries", make)
    encoder, entries = Encoder(), (entry(2, b"x"), entry(3, b"y"))
    for target in (B, MemberId("c", "log-c")):
        message = Append(HEAD[0], A, target, Term(7), 0, 1, Term(6), entries)
        assert decode(encoder.encode(message)) == message
    assert len(made) == 1


def test_a_block_of_a_later_term_is_not_taken_for_the_earlier_one() -> None:
    encoder = Encoder()
    for term in (7, 8):
        entries = (Entry(2, Term(term), EntryKind.COMMAND, 0, 1, None, b"of %d" % term),)
        message = Append(*HEAD[:3], Term(8), 0, 1, Term(6), entries)
        assert decode(encoder.encode(message)) == message
