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


encode_request = Encoder().encode
decode_request = Decoder(StoreRequest).decode
