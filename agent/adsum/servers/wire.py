"""What servers say to each other, as bytes: a flat CBOR array, and in it the entries as one block.

    [version, cluster id, epoch, kind, source node, log, target node, log, term, …]

The version comes first and is looked at first, so that a later format can be told from garbage. Entries are
packed one behind the other with a header of fixed size. A leader sends the same ones to every follower: the
block is made once and spliced into each message. By the log matching property a slice is known by its ends,
so the few last blocks are kept under (first index, last index, term of the last).

Everything is checked here down to its type, for the core takes messages at their word.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import cbor2

from adsum.cbor import BadEncoding, strict_loads
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
from adsum.raft.types import Configuration, DedupKey, Entry, EntryKind, MemberId, SnapshotMeta, Term
from adsum.storage.snapshots import decode_meta, encode_meta

WORD_CHARACTERS_MAX = 64  # of a node, a log, a cluster id
NUMBER_MAX = 1 << 62
BLOCKS_KEPT = 4  # followers are rarely more than a message apart

# index, term, cluster time, apply level, kind, bytes of the dedup client, bytes of the data
_ENTRY = struct.Struct("<QQQIBBI")
_DEDUP = struct.Struct("<QQQ")  # generation, sequence, low water; after the client's name
# What decoding a membership can end in that is none; an assertion of its own rules among them.
NONSENSE = (ValueError, TypeError, AssertionError, RecursionError, cbor2.CBORDecodeError)
_KINDS = {kind.value: kind for kind in EntryKind}


class UnreadableMessage(Exception):
    """Not what a server of this version says."""


class OtherVersion(UnreadableMessage):
    """Of a server that speaks another version of this protocol."""


# Behind the head of each kind, in order. `bytes` is what `_packed` and `_unpacked` know more about.
_FIELDS: dict[type[Message], tuple[int, tuple[type, ...]]] = {
    Append: (1, (int, int, int, bytes)),
    AppendReply: (2, (int,)),
    AppendRejected: (3, (int, int, int)),
    Heartbeat: (4, (int, int)),
    HeartbeatReply: (5, (int, int)),
    VoteRequest: (6, (int, int, bool, bool)),
    VoteReply: (7, (bool, bool, int, int)),
    TimeoutNow: (8, ()),
    SnapshotOffer: (9, (int, bytes)),
}
_TYPES = {kind: (type_, fields) for type_, (kind, fields) in _FIELDS.items()}
_HEAD_TYPES = (int, str, int, int, str, str, str, str, int)


class Encoder:
    """One for each server: it remembers the blocks it made last."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[int, int, int], bytes] = {}

    def encode(self, message: Message) -> bytes:
        stamp, source, target = message.stamp, message.source, message.target
        return cbor2.dumps(
            (
                stamp.version,
                stamp.cluster_id,
                stamp.epoch,
                _FIELDS[type(message)][0],
                source.node,
                source.log,
                target.node,
                target.log,
                message.term,
                *self._packed(message),
            )
        )

    def _packed(self, message: Message) -> tuple[object, ...]:
        match message:
            case Append():
                block = self._block(message.entries) if message.entries else b""
                return message.commit, message.prev_index, message.prev_term, block
            case AppendReply():
                return (message.index,)
            case AppendRejected():
                return message.rejected_index, message.hint_index, message.hint_term
            case Heartbeat():
                return message.commit, message.round
            case HeartbeatReply():
                return message.round, message.apply_level_max
            case VoteRequest():
                return message.last_index, message.last_term, message.is_prevote, message.is_transfer
            case VoteReply():
                return message.is_prevote, message.is_granted, message.commit_index, message.commit_term
            case SnapshotOffer():
                return message.commit, encode_meta(message.snapshot)
        return ()

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
    for index, term, kind, time_ms, level, dedup, data in entries:
        client = dedup.client.encode() if dedup is not None else b""
        pieces.append(pack(index, term, time_ms, level, kind, len(client), len(data)))
        if dedup is not None:
            pieces += client, _DEDUP.pack(dedup.generation, dedup.sequence, dedup.low_water)
        pieces.append(data)
    return b"".join(pieces)


def decode(encoded: bytes) -> Message:
    try:
        fields = strict_loads(encoded)
    except BadEncoding as error:
        raise UnreadableMessage("not the CBOR we speak") from error
    if not isinstance(fields, list) or not fields or type(fields[0]) is not int:
        raise UnreadableMessage("no message")
    if fields[0] != PROTOCOL_VERSION:
        raise OtherVersion(f"version {fields[0]}; this is {PROTOCOL_VERSION}")
    _check(fields[: len(_HEAD_TYPES)], _HEAD_TYPES)
    version, cluster_id, epoch, kind, source, source_log, target, target_log, term = fields[
        : len(_HEAD_TYPES)
    ]
    type_, types = _TYPES.get(kind, (None, ()))
    if type_ is None:
        raise UnreadableMessage(f"a message of kind {kind}")
    rest = fields[len(_HEAD_TYPES) :]
    _check(rest, types)
    head = (
        MessageStamp(cluster_id, epoch, version),
        MemberId(source, source_log),
        MemberId(target, target_log),
        Term(term),
    )
    return type_(*head, *_unpacked(type_, rest))


def _check(fields: Sequence[object], types: Sequence[type]) -> None:
    if len(fields) != len(types):
        raise UnreadableMessage(f"{len(fields)} fields where {len(types)} belong")
    for value, type_ in zip(fields, types, strict=True):
        if type(value) is not type_:
            raise UnreadableMessage(f"a field of type {type(value).__name__} where {type_.__name__} belongs")
        if type(value) is int and not 0 <= value < NUMBER_MAX:
            raise UnreadableMessage(f"the number {value}")
        if type(value) is str and len(value) > WORD_CHARACTERS_MAX:
            raise UnreadableMessage("a word too long to be a name")


def _unpacked(type_: type[Message], fields: list[object]) -> Sequence[object]:
    last = fields[-1] if fields else None
    if type_ is Append and isinstance(last, bytes):
        fields[-1] = tuple(decode_entries(last))
    elif type_ is SnapshotOffer and isinstance(last, bytes):
        fields[-1] = _meta(last)
    return fields


def decode_entries(block: bytes) -> list[Entry]:
    unpack, size, end = _ENTRY.unpack_from, _ENTRY.size, len(block)
    entries, offset = list[Entry](), 0
    try:
        while offset < end:
            index, term, time_ms, level, kind, client_bytes, data_bytes = unpack(block, offset)
            offset += size
            dedup = None
            if client_bytes:
                client = block[offset : offset + client_bytes].decode()
                offset += client_bytes
                dedup = DedupKey(client, *_DEDUP.unpack_from(block, offset))
                offset += _DEDUP.size
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
    for member in configuration.members():
        _check(member, (str, str))


def _meta(encoded: bytes) -> SnapshotMeta:
    try:
        meta = decode_meta(encoded)
        _check((meta.index, meta.term, meta.time_ms, meta.apply_level, meta.epoch), (int,) * 5)
        _check_membership(meta.configuration)
    except NONSENSE as error:
        raise UnreadableMessage("an offer of a snapshot that makes no sense") from error
    return meta
