"""What `agent.forwarding` is told and what it wants done: requests of clients for what the store keeps, calls
to servers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

from adsum.effects import Save
from adsum.frozen import dataclass
from adsum.kv import KeyCause, KeyRead, KeyRefusal, KeysFound, KeyWrite, StoreAnswer
from adsum.session import Session
from adsum.store_requests import StoreChange, StoreFound, StoreRead

# None: the session that was to be renewed is gone.
Outcome: TypeAlias = StoreAnswer | KeysFound | StoreFound | Session | KeyRefusal | None


# Commands.


@dataclass(frozen=True, slots=True)
class ForwardWrite:
    write: KeyWrite | StoreChange
    token: Hashable  # each its own


@dataclass(frozen=True, slots=True)
class ForwardRead:
    read: KeyRead | StoreRead
    token: Hashable


@dataclass(frozen=True, slots=True)
class ForwardRenewal:
    session_id: str
    token: Hashable


@dataclass(frozen=True, slots=True)
class GiveUpForwarded:
    """Whoever asked has hung up: it is not answered."""

    token: Hashable


ForwardCommand: TypeAlias = ForwardWrite | ForwardRead | ForwardRenewal | GiveUpForwarded


# Reports. Each AskServer that is not cancelled ends with one of the first three.


@dataclass(frozen=True, slots=True)
class ServerAnswered:
    ticket: int
    body: bytes


@dataclass(frozen=True, slots=True)
class ServerRefused:
    ticket: int
    cause: KeyCause
    sentence: str
    leader: bytes | None = None  # as that server knows it


@dataclass(frozen=True, slots=True)
class ServerUnreached:
    ticket: int
    is_sent: bool  # it may have been done
    sentence: str


@dataclass(frozen=True, slots=True)
class ServersChanged:
    """Which servers there are, or which of them leads."""


ForwardReport: TypeAlias = ServerAnswered | ServerRefused | ServerUnreached | ServersChanged


# Effects.


@dataclass(frozen=True, slots=True)
class AskServer:
    ticket: int
    node_id: bytes
    method: str
    body: bytes
    timeout_ns: int


@dataclass(frozen=True, slots=True)
class CancelAsk:
    """Its answer is of no use any more."""

    ticket: int


@dataclass(frozen=True, slots=True)
class AnswerForwarded:
    token: Hashable
    outcome: Outcome


ForwardEffect: TypeAlias = AskServer | CancelAsk | AnswerForwarded | Save
