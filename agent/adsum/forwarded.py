"""What a client agent and the servers say to each other about keys and sessions, on the servers' port.

Requests are those of `adsum.kv` and `adsum.store_requests`, as a client asked them; what makes a write known
when it is repeated goes with it. The answer to a write is what the state machine answered, byte for byte. An
answer to a read that is too large for one message comes in pieces, all of the same moment: each but the last
names what to ask for to have the next. Of keys a piece is a list of its own; of the rest it is so many of the
answer's bytes. Renewals travel in batches, and servers pass them on to their leader as they came. A refusal
is a code and a sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.msgpack import Encoder

from adsum.dedup import DedupKey
from adsum.kv import RECORD_OVERHEAD_BYTES, KeyCause, KeyRead, KeyRecord, KeysFound, KeyWrite
from adsum.packed import decoder
from adsum.session import Session
from adsum.store_requests import StoreChange, StoreFound, StoreRead

WRITE, READ, MORE = "key.write", "key.read", "key.more"
CHANGE, ASK, RENEW = "store.change", "store.read", "session.renew"
RENEWALS_MAX = 1_024  # in one batch
# A value has 512 KiB at most, a key half as much as the line of a request may have.
QUESTION_BYTES_MAX = 1024 * 1024
PIECE_BYTES = 512 * 1024  # with one more record at its end, so at most twice as much
FOUND_BYTES_MAX = 512 * 1024 * 1024  # of one answer in all its pieces
LEADER = "key.led-by."
NODE_ID_BYTES = 16
# The year 10889. Others cannot read a generation over 2^53, and the first write of a store names one.
WALL_MS_MAX = 1 << 48

WallMs = Annotated[int, Meta(ge=0, le=WALL_MS_MAX)]


class ForwardedWrite(Struct, frozen=True, array_like=True):
    write: KeyWrite
    key: DedupKey
    wall_ms: WallMs  # where it was accepted
    seen: int  # the newest revision that was known there then


class KeysPiece(Struct, frozen=True, array_like=True):
    found: KeysFound
    more: int = 0  # where the rest is kept; 0: this is the last


class ForwardedChange(Struct, frozen=True, array_like=True):
    change: StoreChange
    key: DedupKey
    wall_ms: WallMs
    seen: int


class FoundPiece(Struct, frozen=True, array_like=True):
    part: bytes  # of a `StoreFound`, encoded
    more: int = 0


class RenewSessions(Struct, frozen=True, array_like=True):
    ids: tuple[str, ...]


class Renewed(Struct, frozen=True, array_like=True):
    sessions: list[Session | None]  # in the order of their ids; None: it is gone


encode = Encoder().encode
decode_write = decoder(ForwardedWrite)
decode_read = decoder(KeyRead)
decode_piece = decoder(KeysPiece)
decode_more = decoder(int)
decode_change = decoder(ForwardedChange)
decode_ask: Callable[[bytes], StoreRead] = decoder(StoreRead)
decode_found_piece = decoder(FoundPiece)
decode_found: Callable[[bytes], StoreFound] = decoder(StoreFound)
decode_renewals = decoder(RenewSessions)
decode_renewed = decoder(Renewed)


def code_of(cause: KeyCause) -> str:
    return f"key.{cause.name.lower()}"


def led_by(leader: bytes) -> str:
    """The code of a refusal by who does not lead and knows who does."""
    return LEADER + leader.hex()


def cause_and_leader(code: str) -> tuple[KeyCause | None, bytes | None]:
    if code.startswith(LEADER):
        try:
            leader = bytes.fromhex(code[len(LEADER) :])
        except ValueError:
            leader = b""
        return KeyCause.NO_LEADER, leader if len(leader) == NODE_ID_BYTES else None
    return _CAUSES.get(code), None


def pieces_end(found: KeysFound, start: int) -> int:
    """Up to which key the piece that begins at `start` goes."""
    size, end = 0, start
    has_records = bool(found.records)
    while end < len(found.keys) and size < PIECE_BYTES:
        size += len(found.keys[end]) + RECORD_OVERHEAD_BYTES
        if has_records:
            size += len(found.records[end].value)
        end += 1
    return end


def piece_of(found: KeysFound, start: int, end: int) -> KeysFound:
    return KeysFound(
        *(found.index, found.keys[start:end], found.records[start:end]),
        *(found.is_foreign, found.has_leader, found.behind_ms),
    )


def joined(pieces: Iterable[KeysFound]) -> KeysFound:
    first, *others = pieces
    keys: list[bytes] = list(first.keys)
    records: list[KeyRecord] = list(first.records)
    for piece in others:
        keys += piece.keys
        records += piece.records
    return KeysFound(first.index, keys, records, first.is_foreign, first.has_leader, first.behind_ms)


_CAUSES = {code_of(cause): cause for cause in KeyCause}
