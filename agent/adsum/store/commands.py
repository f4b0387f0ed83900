"""What the log carries for the store, and what comes back.

Arrays of MessagePack: fields in order, the last ones left away are their defaults, and an older version
ignores those it does not know. So a field may only be added at the end, with a default that means what was
done before it came; a tag or a place is never used again for something else, and whatever else changes needs
a new apply level.
"""

from __future__ import annotations

import enum

from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

from adsum.store.record import KeyRecord

CONSUL = 0  # the keyspace that Consul's clients see; numbers stand in the log


class LeaseRule(enum.IntEnum):
    """What a put does with the lease that holds the key."""

    KEEP = 0
    NONE = 1
    THIS = 2


class Put(Struct, frozen=True, gc=False, array_like=True, tag=1):
    key: bytes
    value: bytes
    keyspace: int = CONSUL
    flags: int = 0
    cas: int | None = None  # done only if this is the record's modify revision; 0: only if there is none
    lease_rule: LeaseRule = LeaseRule.KEEP
    lease: str | None = None
    skips_equal: bool = False  # what changes nothing is no change: Consul's rule


class Delete(Struct, frozen=True, gc=False, array_like=True, tag=2):
    key: bytes
    keyspace: int = CONSUL
    cas: int | None = None  # as for a put; 0 is done, and does nothing


class DeleteTree(Struct, frozen=True, gc=False, array_like=True, tag=3):
    prefix: bytes
    keyspace: int = CONSUL


StoreCommand = Put | Delete | DeleteTree


class StoreRequest(Struct, frozen=True, gc=False, array_like=True):
    """A command as the agent that accepted it sends it on."""

    command: StoreCommand
    wall_ms: int  # there; kept with the record, and never decided by
    seen: int = 0  # the newest revision that agent knew when it began this request
    wants_records: bool = False  # the answer is to have the record before and after


class StoreOutcome(enum.IntEnum):
    DONE = 0
    COMPARE_FAILED = 1
    NOT_DONE = 2  # nobody remembers so far back: begin it anew
    UNKNOWN = 3  # it may have been done before; nobody remembers
    OLD_GENERATION = 4  # a later run of that agent has asked already; `revision` is its generation
    MALFORMED = 5
    INTERNAL_ERROR = 6


class StoreAnswer(Struct, frozen=True, gc=False, array_like=True):
    outcome: StoreOutcome
    revision: int  # of its own entry; if that changed nothing, of the keyspace's last change
    index: int  # of its own entry in the log
    count: int = 0  # of keys it changed
    before: KeyRecord | None = None
    after: KeyRecord | None = None


encode_request = Encoder().encode
decode_request = Decoder(StoreRequest).decode
encode_answer = Encoder().encode
decode_answer = Decoder(StoreAnswer).decode
