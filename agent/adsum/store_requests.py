"""What clients ask of the store besides keys, and what they are told; requests for keys are in `adsum.kv`.

They travel as arrays of MessagePack with a tag, fields in order: one may only be added at the end, with a
default that means what was done before it came.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from adsum.external import ExternalDeregister, ExternalRegister
from adsum.kv import ReadMode
from adsum.kv_history import KeyHistory
from adsum.leading import PeerFigures
from adsum.session import EndedSession, Session, SessionCreate, SessionDestroy
from adsum.transactions import Operation, Transaction, TransactionAnswer

if TYPE_CHECKING:
    from adsum.kv import KeyRefusal

StoreChange: TypeAlias = SessionCreate | SessionDestroy | Transaction | ExternalRegister | ExternalDeregister


class SessionShape(enum.IntEnum):
    ONE = 0  # by its id
    OF_NODE = 1
    ALL = 2


class SessionRead(Struct, frozen=True, array_like=True, tag=1):
    shape: SessionShape
    name: str = ""  # the id, or the node's
    mode: ReadMode = ReadMode.DEFAULT
    since: int = 0  # as in a read of keys
    waits: bool = True


class TransactionRead(Struct, frozen=True, array_like=True, tag=2):
    """A transaction that changes nothing: it is not in the log."""

    operations: tuple[Operation, ...]
    mode: ReadMode = ReadMode.DEFAULT
    since: int = 0  # it never waits
    waits: bool = False


class SessionStoryRead(Struct, frozen=True, array_like=True, tag=3):
    """What became of one; as whichever server is asked has it."""

    id: str
    mode: ReadMode = ReadMode.STALE
    since: int = 0
    waits: bool = False


class KeyHistoryRead(Struct, frozen=True, array_like=True, tag=4):
    """As whichever server is asked has it, also without a leader."""

    key: bytes
    mode: ReadMode = ReadMode.STALE
    since: int = 0
    waits: bool = False


class ConsensusRead(Struct, frozen=True, array_like=True, tag=5):
    """Who takes part in consensus, as whichever server is asked knows it."""

    mode: ReadMode = ReadMode.STALE
    since: int = 0
    waits: bool = False


StoreRead: TypeAlias = SessionRead | TransactionRead | SessionStoryRead | KeyHistoryRead | ConsensusRead
OF_ONE_SERVER = (KeyHistoryRead, ConsensusRead)  # any can answer; the leader knows most


class SessionsFound(Struct, frozen=True, array_like=True, tag=1):
    index: int
    sessions: list[Session]  # by id
    is_foreign: bool = False
    has_leader: bool = True
    behind_ms: int = 0


class TransactionFound(Struct, frozen=True, array_like=True, tag=2):
    index: int
    answer: TransactionAnswer
    has_leader: bool = True
    behind_ms: int = 0


class SessionStory(Struct, frozen=True, array_like=True, tag=3):
    """Nothing of either: nobody remembers such a session."""

    session: Session | None
    ended: EndedSession | None
    keys: list[bytes]  # that it holds, the first so many
    keys_total: int


class ConsensusFound(Struct, frozen=True, array_like=True, tag=5):
    leader: str  # its node id; empty while none is known
    peers: tuple[PeerFigures, ...]  # none: that server belongs to no cluster


StoreFound: TypeAlias = SessionsFound | TransactionFound | SessionStory | KeyHistory | ConsensusFound
StoreReadAnswered: TypeAlias = Callable[["StoreFound | KeyRefusal"], None]
# The session as it is, or None: it is gone.
RenewAnswered: TypeAlias = Callable[["Session | KeyRefusal | None"], None]
