"""What servers say to each other, as bytes: a flat CBOR array, and in it the entries as one block.

    [version, kind, cluster id, epoch, source node, log, target node, log, term, …]

The version comes first and is looked at first, so that a later format can be told from garbage. Entries are
packed one behind the other with a header of fixed size. A leader sends the same ones to every follower: the
block is made once and spliced into each message. By the log matching property a slice is known by its ends,
so the few last blocks are kept under (first index, last index, term of the last).

Everything is checked here down to its type, for the core takes messages at their word.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import cbor2

from adsum.cbor import BadEncoding, strict_loads
from adsum.dedup import DedupKey
from adsum.raft.changer import decode_configuration
from adsum.raft.messages import (
    PROTOCOL_VERSION,
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
from adsum.raft.types import HASH_BYTES_MAX, Configuration, Entry, EntryKind, MemberId, SnapshotMeta, Term
from adsum.rows import RowCodec, RowField, RowKinds, counter, flag, text, values
from adsum.storage.snapshots import decode_meta, encode_meta

WORD_BYTES_MAX = 64  # of a node, a log, a cluster id
NUMBER_MAX = 1 << 62
MEMBERS_KEPT = 64  # twice as many as consensus may have
BLOCKS_KEPT = 4  # followers are rarely more than a message apart

# index, term, cluster time, apply level, kind, bytes of the dedup client, bytes of the data
_ENTRY = struct.Struct("<QQQIBBI")
_DEDUP = struct.Struct("<QQQI")  # generation, sequence, low water, attempt; after the client's name
# What decoding a membership can end in that is none; an assertion of its own rules among them.
NONSENSE = (ValueError, TypeError, AssertionError, RecursionError, cbor2.CBORDecodeError)
_KINDS = {kind.value: kind for kind in EntryKind}


class UnreadableMessage(Exception):
    """Not what a server of this version says."""


class OtherVersion(UnreadableMessage):
    """Of a server that speaks another version of this protocol."""


class Encoder:
    """One for each server: it remembers the blocks it made last."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[int, int, int], bytes] = {}

    def encode(self, message: Message) -> bytes:
        row = _TABLES[type(message)].row_of(message)
        if isinstance(message, Append):
            row[-1] = self._block(message.entries) if message.entries else b""
        return cbor2.dumps([message.stamp.version, *row])

    def _block(self, entries: Sequence[Entry]) -> bytes:
        key = entries[0].index, entries[-1].index, entries[-1].term
        block = self._blocks.get(key)
        if block is None:
            if len(self._blocks) >= BLOCKS_KEPT:
                del self._blocks[next(iter(self._blocks))]
            block = self._blocks[key] = encode_entries(entries)
        return block


def encode_entries(entries: Sequence[Entry]) -> bytes:
    pack, pieces = _ENTRY.pack, list[bytes]()
    for entry in entries:
        dedup, data = entry.dedup, entry.data
        client = dedup.client.encode() if dedup is not None else b""
        numbers = (entry.index, entry.term, entry.time_ms, entry.apply_level, entry.kind)
        pieces.append(pack(*numbers, len(client), len(data)))
        if dedup is not None:
            assert client, "a request without a client could not be read back"
            pieces += client, _DEDUP.pack(*dedup.numbers)
        pieces.append(data)
    return b"".join(pieces)


def decode(encoded: bytes) -> Message:
    try:
        fields = strict_loads(encoded)
        if not isinstance(fields, list) or not fields or type(fields[0]) is not int:
            raise UnreadableMessage("no message")
        if fields[0] != PROTOCOL_VERSION:
            raise OtherVersion(f"version {fields[0]}; this is {PROTOCOL_VERSION}")
        message = _MESSAGES.decode(fields[1:])
    except BadEncoding as error:
        raise UnreadableMessage(str(error)) from error
    if message is None:
        raise UnreadableMessage(f"a message of kind {fields[1]}")
    return message


def decode_entries(block: bytes) -> list[Entry]:
    unpack, unpack_dedup, size, end = _ENTRY.unpack_from, _DEDUP.unpack_from, _ENTRY.size, len(block)
    entries, offset = list[Entry](), 0
    try:
        while offset < end:
            index, term, time_ms, level, kind, client_bytes, data_bytes = unpack(block, offset)
            offset += size
            dedup = None
            if client_bytes:
                client = block[offset : offset + client_bytes].decode()
                generation, sequence, low_water, attempt = unpack_dedup(block, offset + client_bytes)
                dedup = DedupKey(client, generation, sequence, low_water, attempt)
                offset += client_bytes + _DEDUP.size
            data = block[offset : offset + data_bytes]
            offset += data_bytes
            if kind == EntryKind.CONFIGURATION:
                _check_membership(decode_configuration(data))
            entries.append(Entry(index, term, _KINDS[kind], time_ms, level, dedup, data))
    except (struct.error, UnicodeDecodeError, KeyError) as error:
        raise UnreadableMessage(f"a block of entries that ends or goes on wrongly at {offset}") from error
    except NONSENSE as error:
        raise UnreadableMessage("a membership that cannot be") from error
    if offset != end:
        raise UnreadableMessage("a block of entries that was cut")
    return entries


def _check_membership(configuration: Configuration) -> None:
    for member in (*configuration.members(), *configuration.removed):
        _MEMBER.decode(list(member))


def _meta(encoded: bytes) -> SnapshotMeta:
    try:
        meta = decode_meta(encoded)
        _NUMBERS.decode([meta.index, meta.term, meta.time_ms, meta.apply_level, meta.epoch, meta.offset])
        _check_membership(meta.configuration)
    except NONSENSE as error:
        raise BadEncoding("an offer of a snapshot that makes no sense") from error
    return meta


def _hash(value: bytes) -> bytes:
    if len(value) > HASH_BYTES_MAX:
        raise BadEncoding("a hash of that length")
    return value


def _entries(block: bytes) -> tuple[Entry, ...]:
    return tuple(decode_entries(block))


# The same few come with every message.
_member = lru_cache(MEMBERS_KEPT)(MemberId)
_stamp = lru_cache(MEMBERS_KEPT)(MessageStamp)


def _table(kind: int, type_: type[Message], *fields: RowField) -> RowCodec[Message]:
    def made(cluster_id: str, epoch: int, *said: Any) -> Message:
        source, source_log, target, target_log, term, *rest = said
        members = _member(source, source_log), _member(target, target_log)
        return type_(_stamp(cluster_id, epoch), *members, Term(term), *rest)

    return RowCodec(made, *_HEAD, *fields, kind=kind)


def _word(name: str) -> RowField:
    return text(name, WORD_BYTES_MAX)


def _number(name: str) -> RowField:
    return counter(name, NUMBER_MAX)


_MEMBER = RowCodec(MemberId, _word("node"), _word("log"))
_NUMBERS = RowCodec(
    values, *[_number(name) for name in ("index", "term", "time_ms", "apply_level", "epoch", "offset")]
)
_HEAD = (
    *(_word("stamp.cluster_id"), _number("stamp.epoch"), _word("source.node"), _word("source.log")),
    *(_word("target.node"), _word("target.log"), _number("term")),
)
_COMMIT, _ROUND, _PREVOTE = _number("commit"), _number("round"), flag("is_prevote")
_CAN_LEAD = RowField("can_lead", bool, default=True)
_HASH = (counter("hash_index", NUMBER_MAX, default=0), RowField("state_hash", bytes, _hash, default=b""))
_TABLES: dict[type[Message], RowCodec[Message]] = {
    Append: _table(
        1,
        Append,
        *(_COMMIT, _number("prev_index"), _number("prev_term"), RowField("entries", bytes, _entries)),
    ),
    AppendReply: _table(2, AppendReply, _number("index")),
    AppendRejected: _table(
        3, AppendRejected, _number("rejected_index"), _number("hint_index"), _number("hint_term")
    ),
    Heartbeat: _table(4, Heartbeat, _COMMIT, _ROUND, *_HASH, RowField("is_disputed", bool, default=False)),
    HeartbeatReply: _table(
        *(5, HeartbeatReply, _ROUND, _number("apply_level_max")),
        *(_CAN_LEAD, *_HASH, RowField("has_stopped", bool, default=False)),
    ),
    VoteRequest: _table(
        6, VoteRequest, _number("last_index"), _number("last_term"), _PREVOTE, flag("is_transfer")
    ),
    VoteReply: _table(
        7, VoteReply, _PREVOTE, flag("is_granted"), _number("commit_index"), _number("commit_term")
    ),
    TimeoutNow: _table(8, TimeoutNow),
    SnapshotOffer: _table(9, SnapshotOffer, _COMMIT, RowField("snapshot", bytes, _meta, encode_meta)),
}
_MESSAGES: RowKinds[Message] = RowKinds(*_TABLES.values())
