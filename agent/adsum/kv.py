"""Keys, in the words that all share: what clients ask of the store and are told, and what stands under a key.

The endpoints make a `KeyWrite` or a `KeyRead` of a request; a server makes its command of it, a client agent
sends it on as it is. So a client agent knows these and nothing of the store. They travel as arrays of
MessagePack, fields in order: one may only be added at the end, with a default that means what was done before
it came.

Records are never changed, only replaced, so the store's table, its frozen views, its history and answers
share them; and they are their own form in a snapshot. What no Consul client asks for is in `RecordExtras`,
which most records do without.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from msgspec import Struct
from msgspec.msgpack import Encoder

from adsum.packed import decoder

if TYPE_CHECKING:
    from adsum.kv_history import HistoryAnswered
    from adsum.leading import ConsensusFigures
    from adsum.store_requests import RenewAnswered, StoreChange, StoreRead, StoreReadAnswered


class RecordExtras(Struct, frozen=True, gc=False, array_like=True):
    """For locks, and for keyspaces that are trees."""

    token: int = 0  # revision of the grant under which the key is held
    fence: int = 0  # the highest token that a write under this key showed; it never falls
    acl: int = 0
    children: int = 0
    children_created: int = 0  # it never falls: sequence numbers come from it
    children_revision: int = 0


RECORD_OVERHEAD_BYTES = 190  # measured, without the key


class KeyRecord(Struct, frozen=True, gc=False, array_like=True):
    value: bytes
    create: int  # revision
    modify: int  # revision
    created_ms: int  # wall clock of whoever accepted the command: shown, and never decided by
    modified_ms: int
    flags: int = 0  # 64 bits of the client's
    version: int = 1  # writes since it was created
    lock_index: int = 0  # how often it was acquired; deletion does not reset it
    lease: str | None = None  # the session that holds it
    extras: RecordExtras | None = None

    @property
    def bytes_total(self) -> int:
        return RECORD_OVERHEAD_BYTES + len(self.value)

    @property
    def fence(self) -> int:
        return self.extras.fence if self.extras is not None else 0


class KeyVerb(enum.IntEnum):
    PUT = 0
    DELETE = 1
    DELETE_TREE = 2  # of all keys that begin so
    ACQUIRE = 3  # a put that also takes the key for a session
    RELEASE = 4  # a put that also gives it back


class KeyWrite(Struct, frozen=True, gc=False, array_like=True):
    verb: KeyVerb
    key: bytes
    value: bytes = b""
    flags: int = 0
    cas: int | None = None  # done only if this is the key's revision; 0: only if there is none
    session: str = ""  # who acquires or releases it
    if_token: int | None = None  # done only if no higher fencing token was shown under this key


class StoreOutcome(enum.IntEnum):
    """Of a command in the log. The numbers are kept there, too."""

    DONE = 0
    COMPARE_FAILED = 1
    NOT_DONE = 2  # nobody remembers so far back: begin it anew
    UNKNOWN = 3  # it may have been done before; nobody remembers
    OLD_GENERATION = 4  # a later run of that agent has asked already; `revision` is its generation
    MALFORMED = 5
    INTERNAL_ERROR = 6
    REFUSED = 7  # for what `sentence` says, of the answer's extras; so the others below
    NO_SESSION = 8  # there is no such session
    HELD = 9  # by `holder`, or for `delay_ms` by nobody
    FENCED = 10  # a higher fencing token than the request's was shown already; `token` is that one
    CONFLICT = 11  # operations of a transaction failed, so none was done


BELOW_FLOOR = (  # in the answer of a write that was fenced off by it, and by no token shown under its key
    "nobody remembers this key, and under one that is forgotten the fencing token {} was shown: one that is "
    "not there takes no lower ones"
)


class AnswerExtras(Struct, frozen=True, gc=False, array_like=True):
    """What most answers do without."""

    token: int = 0  # fencing token of the grant
    holder: str = ""  # session
    delay_ms: int = 0  # of the lock-delay, what is left
    sentence: str = ""
    transaction: bytes = b""  # a `TransactionAnswer`, encoded


class StoreAnswer(Struct, frozen=True, gc=False, array_like=True):
    outcome: StoreOutcome
    revision: int  # of its own entry; if that changed nothing, of the keyspace's last change
    index: int  # of its own entry in the log
    count: int = 0  # of keys it changed
    before: KeyRecord | None = None
    after: KeyRecord | None = None
    extras: AnswerExtras | None = None


class ReadShape(enum.IntEnum):
    KEY = 0
    TREE = 1  # all records below a prefix
    NAMES = 2  # their keys alone, cut after the first separator behind the prefix if there is one


class ReadMode(enum.IntEnum):
    DEFAULT = 0  # linearizable as well
    CONSISTENT = 1
    STALE = 2  # as whichever server is asked has it


class KeyRead(Struct, frozen=True, gc=False, array_like=True):
    shape: ReadShape
    key: bytes  # or the prefix
    separator: bytes = b""
    mode: ReadMode = ReadMode.DEFAULT
    since: int = 0  # answered when something of it changed after this revision; 0: at once
    waits: bool = True  # for that; else `since` only keeps the index from falling


class KeysFound(Struct, frozen=True, gc=False, array_like=True):
    index: int  # at least `since`, unless that was never given out here
    keys: list[bytes]
    records: list[KeyRecord]  # one for each key; none where only names were asked for
    is_foreign: bool = False  # `since` lies in the future, and nothing was waited for
    has_leader: bool = True
    behind_ms: int = 0  # since whoever answered heard the leader


class KeyCause(enum.IntEnum):
    """Why there is no answer. What clients are told to do about it differs."""

    NO_LEADER = 0  # for as long as a request is held; nothing was done
    UNKNOWN = 1  # it may have been done
    BUSY = 2  # nothing was done; in a moment there is room
    NO_ROOM = 3  # of the disk, or of what the store may hold
    TOO_LARGE = 4
    FAILED = 5  # nothing was done, and the sentence says why
    NO_SERVERS = 6  # that a client agent could ask
    DOUBTED = 7  # what the server that was asked holds differs from what others hold


class KeyRefusal(Exception):
    def __init__(self, cause: KeyCause, sentence: str) -> None:
        super().__init__(sentence)
        self.cause = cause
        self.sentence = sentence


WriteAnswered: TypeAlias = Callable[["StoreAnswer | KeyRefusal"], None]
ReadAnswered: TypeAlias = Callable[["KeysFound | KeyRefusal"], None]


class ReadsKeyAgain(Protocol):
    """Who reads one key in the same words for many, and keeps what was said of it last."""

    read: KeyRead  # of one key, and without waiting for a change
    mode: ReadMode  # the read's
    record: KeyRecord | None  # of which the answer is kept
    revision: int  # of the keyspace, when the record was found to be that one still; before that, -1

    def told(self, asker: Any, found: KeysFound | KeyRefusal) -> None: ...

    def told_the_same(self, asker: Any, standing: tuple[bool, int]) -> None:
        """The record is the one that is kept. Whoever answers knows a leader, and heard it so many ms ago."""
        ...


class KeyStore(Protocol):
    """Keys and all else that the store keeps, as the endpoints see it, on a server and on a client agent.
    What is asked is answered once, perhaps before the call returns, unless it is given up: then never."""

    @property
    def waits_for(self) -> str:
        """Why nobody leads, as far as it is known here."""
        ...

    @property
    def consensus(self) -> ConsensusFigures | None:
        """None on a client, and on a server that belongs to no cluster yet."""
        ...

    def write(self, write: KeyWrite | StoreChange, answered: WriteAnswered) -> object:
        """Returns what `give_up` takes."""

    def read(self, read: KeyRead, answered: ReadAnswered) -> object: ...

    def read_again(self, reader: ReadsKeyAgain, asker: Any) -> None:
        """The reader is told, with the asker; it is not given up."""

    def ask(self, read: StoreRead, answered: StoreReadAnswered) -> object: ...

    def renew(self, session_id: str, answered: RenewAnswered) -> object:
        """Answered when a proven leader has renewed it."""

    def history(self, key: bytes, answered: HistoryAnswered) -> object: ...

    def give_up(self, asked: object) -> None: ...


encode = Encoder().encode
decode_write = decoder(KeyWrite)
decode_answer = decoder(StoreAnswer)
decode_read = decoder(KeyRead)
decode_found = decoder(KeysFound)
