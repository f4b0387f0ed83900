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

from adsum.external import ExternalItem
from adsum.session import EndCause, Session
from adsum.transactions import Operation

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
    if_token: int | None = None  # done only if it reaches the key's fence, which becomes it


class Delete(Struct, frozen=True, gc=False, array_like=True, tag=2):
    key: bytes
    keyspace: int = CONSUL
    cas: int | None = None  # as for a put; 0 is done, and does nothing
    if_token: int | None = None  # as for a put


class DeleteTree(Struct, frozen=True, gc=False, array_like=True, tag=3):
    prefix: bytes
    keyspace: int = CONSUL


# From here on: apply level 2.


class Acquire(Struct, frozen=True, gc=False, array_like=True, tag=4):
    """A put that takes the key for a session, unless another one holds it or a lock-delay runs."""

    key: bytes
    value: bytes
    session: str
    flags: int = 0
    keyspace: int = CONSUL
    if_token: int | None = None


class Release(Struct, frozen=True, gc=False, array_like=True, tag=5):
    """A put by its holder that lets the key go, without a delay."""

    key: bytes
    value: bytes
    session: str
    flags: int = 0
    keyspace: int = CONSUL
    if_token: int | None = None


class CreateSession(Struct, frozen=True, gc=False, array_like=True, tag=6):
    session: Session


class EndSessions(Struct, frozen=True, gc=False, array_like=True, tag=7):
    """What is not there has ended already. A leader's is done only in the term in which it was proposed."""

    ids: tuple[str, ...]
    cause: EndCause
    evidence: str = ""
    term: int | None = None  # None: a client's


class ExpireSessions(Struct, frozen=True, gc=False, array_like=True, tag=8):
    """Each with its renewals as the leader knew them: one that was renewed through the log since goes on."""

    sessions: tuple[tuple[str, int], ...]
    term: int


class NoteRemaining(Struct, frozen=True, gc=False, array_like=True, tag=9):
    """What long sessions have left, for whoever leads next; None: as much as ever, for it was renewed."""

    sessions: tuple[tuple[str, int | None], ...]
    term: int


class RunTransaction(Struct, frozen=True, gc=False, array_like=True, tag=10):
    operations: tuple[Operation, ...]


class RegisterExternal(Struct, frozen=True, gc=False, array_like=True, tag=11):
    items: tuple[ExternalItem, ...]


class DeregisterExternal(Struct, frozen=True, gc=False, array_like=True, tag=12):
    node: str
    service_id: str = ""
    check_id: str = ""


class RenewExternal(Struct, frozen=True, gc=False, array_like=True, tag=13):
    """Somebody has nodes without an agent that this store does not know, under a later generation: from this
    generation on, or the one in force if that is later, everybody is told all of them anew."""

    generation: int


StoreCommand = (
    Put
    | Delete
    | DeleteTree
    | Acquire
    | Release
    | CreateSession
    | EndSessions
    | ExpireSessions
    | NoteRemaining
    | RunTransaction
    | RegisterExternal
    | DeregisterExternal
    | RenewExternal
)


class StoreRequest(Struct, frozen=True, gc=False, array_like=True):
    """A command as the agent that accepted it sends it on."""

    command: StoreCommand
    wall_ms: int  # there; kept with the record, and the first generation of nodes without an agent
    seen: int = 0  # the newest revision that agent knew when it began this request
    wants_records: bool = False  # the answer is to have the record before and after


encode_request = Encoder().encode
decode_request = Decoder(StoreRequest).decode
