"""What gossip is told by its own host: what to do, and how the streams it asked for ended."""

from __future__ import annotations

import enum
from collections.abc import Hashable

from adsum.address import Address
from adsum.effects import AnsweredWith
from adsum.frozen import dataclass
from adsum.gossip.effects import SyncMessage
from adsum.named import NamedTuple


@dataclass(frozen=True, slots=True)
class Join(AnsweredWith[None]):
    """Answered by one `JoinEnded` per address."""

    addresses: tuple[Address, ...]


@dataclass(frozen=True, slots=True)
class Leave(AnsweredWith[None]):
    """Answered by `LeaveDone`."""


@dataclass(frozen=True, slots=True)
class Restart(AnsweredWith[None]):
    """I shall be back within this time, with all I own. Answered by `LeaveDone`."""

    duration_ms: int


@dataclass(frozen=True, slots=True)
class ForceLeave(AnsweredWith[str | None]):
    """Answered with the name of the node where only the copy of the last run knew it: it is taken off that,
    and no other agent was told."""

    name: str
    is_pruned: bool = False  # and not listed as left either


@dataclass(frozen=True, slots=True)
class FireEvent(AnsweredWith[None]):
    name: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Carry(AnsweredWith[None]):
    """Opaque bytes for everybody; under one key the newest replace what was not told yet."""

    key: Hashable
    payload: bytes
    is_urgent: bool = False  # it is told before other such news
    is_heard: bool = False  # from another, and told on; or else it arose here


@dataclass(frozen=True, slots=True)
class SetRoot(AnsweredWith[None]):
    """A digest that rides in every ping and ack; `RootHeard` tells of those that differ."""

    root: bytes


@dataclass(frozen=True, slots=True)
class Describe(AnsweredWith[None]):
    meta: bytes


Command = Join | Leave | Restart | ForceLeave | FireEvent | Carry | SetRoot | Describe


class Datagram(NamedTuple):
    """Opened; not authentic when no key opened it although we have one."""

    source: Address
    message: bytes
    is_authentic: bool


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
