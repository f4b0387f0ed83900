"""What the roll is told by its own host: what to do, and how the streams it asked for ended."""

from __future__ import annotations

import enum
from collections.abc import Hashable

from adsum.address import Address
from adsum.frozen import dataclass
from adsum.gossip.effects import SyncMessage


@dataclass(frozen=True, slots=True)
class Join:
    """Answered by one `JoinEnded` per address."""

    addresses: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class Leave:
    """Answered by `LeaveDone`."""


@dataclass(frozen=True, slots=True)
class Restart:
    """I shall be back within this time, with all I own. Answered by `LeaveDone`."""

    duration_ms: int


@dataclass(frozen=True, slots=True)
class ForceLeave:
    name: str
    is_pruned: bool = False  # and not listed as left either


@dataclass(frozen=True, slots=True)
class FireEvent:
    name: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Carry:
    """Opaque bytes for everybody; under one key the newest replace what was not told yet."""

    key: Hashable
    payload: bytes


@dataclass(frozen=True, slots=True)
class SetRoot:
    """A digest that rides in every ping and ack; `RootHeard` tells of those that differ."""

    root: bytes


@dataclass(frozen=True, slots=True)
class Describe:
    meta: bytes


Command = Join | Leave | Restart | ForceLeave | FireEvent | Carry | SetRoot | Describe


class PingOutcome(enum.Enum):
    ANSWERED = "answered"
    REFUSED = "refused"  # ECONNREFUSED and nothing else
    HELD = "held"  # the host took the connection, and the member said nothing: it may stand still
    SILENT = "silent"  # nobody took the connection
    UNTRIED = "untried"


@dataclass(frozen=True, slots=True)
class StreamPinged:
    probe: int
    outcome: PingOutcome


@dataclass(frozen=True, slots=True)
class DatagramUnreachable:
    """An ICMP error came for a datagram we sent there."""

    address: Address


@dataclass(frozen=True, slots=True)
class SyncAsked:
    """Somebody opened a sync with us; the ticket is the rim's, to be given back in `AnswerSync`."""

    ticket: int
    message: SyncMessage
    host: str  # that the stream came from, which cannot be made up


@dataclass(frozen=True, slots=True)
class SyncAnswered:
    ticket: int
    message: SyncMessage


@dataclass(frozen=True, slots=True)
class SyncClosed:
    ticket: int
    message: SyncMessage


@dataclass(frozen=True, slots=True)
class SyncFailed:
    ticket: int
    error: str
    is_busy: bool = False  # it answered None: a join is tried again soon


@dataclass(frozen=True, slots=True)
class SyncBroken:
    """The stream of a `SyncAsked` ended before its last turn."""

    ticket: int


Report = StreamPinged | DatagramUnreachable | SyncAsked | SyncAnswered | SyncClosed | SyncFailed | SyncBroken
