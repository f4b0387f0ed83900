"""Sessions, in the words that all share: what holds keys for a client, and for how long.

A session belongs to a node and may hang on checks there. The agent that a client asks looks at its own copy
of the catalog, and what it saw goes along: the agent of that node, its generation, and the newest version of
its records that was heard of. The leader ends a session by evidence that is at least as new as that, and
never because it knows less.

Consul's sessions are the first kind; leases of other clients are to be others, in the same table.
"""

from __future__ import annotations

import enum

from msgspec import Struct

LOCK_DELAY_NS_MAX = 60 * 1_000_000_000  # what is longer is shown as it was given, and counts as this
SESSION_OVERHEAD_BYTES = 900  # some 520 measured; and for a while it is remembered how it ended


class SessionKind(enum.IntEnum):
    CONSUL = 0


class SessionBehavior(enum.IntEnum):
    """What becomes of the keys that it holds when it ends."""

    RELEASE = 0
    DELETE = 1


class EndCause(enum.IntEnum):
    """The numbers stand in the log."""

    DESTROYED = 0
    EXPIRED = 1  # its TTL
    NODE_FAILED = 2
    NODE_GONE = 3  # it left, or was deregistered
    CHECK_CRITICAL = 4
    CHECK_GONE = 5


class Session(Struct, frozen=True, gc=False, array_like=True):
    id: str
    node: str  # its name
    node_id: bytes  # of the agent there; empty for a node without one
    generation: int  # of that agent, as it was seen when this was accepted
    records_version: int  # the newest of that generation's records heard of then; 0: none was shown
    name: str = ""
    ttl: str = ""  # as it was given
    ttl_ms: int = 0  # 0: it does not expire
    lock_delay_ns: int = 0  # as it was given
    behavior: SessionBehavior = SessionBehavior.RELEASE
    node_checks: tuple[str, ...] = ()
    service_checks: tuple[str, ...] = ()
    kind: SessionKind = SessionKind.CONSUL
    created_ms: int = 0  # wall clock of whoever accepted it; shown, and never decided by
    create: int = 0  # revision; set when it is applied
    modify: int = 0
    renewals: int = 0  # those that are in the log
    remaining_ms: int | None = None  # of a long TTL, when the leader wrote that down last

    @property
    def bytes_total(self) -> int:
        texts = (self.id, self.node, self.name, self.ttl, *self.node_checks, *self.service_checks)
        return SESSION_OVERHEAD_BYTES + sum(map(len, texts))

    @property
    def fence(self) -> int:
        """None: tokens are shown under keys. Whatever the store sums up has one."""
        return 0


class EndedSession(Struct, frozen=True, gc=False, array_like=True):
    """Kept for a while, to explain."""

    session: Session
    cause: EndCause
    evidence: str  # a sentence
    revision: int
    wall_ms: int  # of whoever proposed the end
    keys: int  # that it held


class SessionCreate(Struct, frozen=True, array_like=True, tag=1):
    session: Session


class SessionDestroy(Struct, frozen=True, array_like=True, tag=2):
    """What is gone already is gone."""

    id: str
