"""What replication asks of its host, in order. Owners and members are the first 8 bytes of their uuid."""

from __future__ import annotations

import enum
from collections.abc import Hashable

from adsum.catalog.replication.state import OwnerState
from adsum.effects import AskTicket
from adsum.frozen import dataclass


@dataclass(frozen=True, slots=True)
class CarryThis:
    """For everybody, by gossip; under one key the newest replace what was not told yet."""

    key: Hashable
    payload: bytes
    is_urgent: bool = False
    is_heard: bool = False  # from another, and told on


@dataclass(frozen=True, slots=True)
class RootMoved:
    """Goes into every ping and ack from now on."""

    root: bytes


class AskingPart(enum.StrEnum):
    """The part of replication that a question is from, in its ticket."""

    EXCHANGES = "exchanges"
    PULLS = "pulls"
    CONFIRMING = "confirming"
    DOUBTS = "doubts"


@dataclass(frozen=True, slots=True)
class AskPeer:
    """A call to a member; to be answered by `answered(ticket, body)`, with None when it failed."""

    ticket: AskTicket
    to: bytes
    method: str
    body: bytes


@dataclass(frozen=True, slots=True)
class OwnerChanged:
    """None before: we had nothing of it. None after: it is forgotten. `state.changes` tells them apart."""

    owner: bytes
    before: OwnerState | None
    after: OwnerState | None


@dataclass(frozen=True, slots=True)
class ForeignNews:
    """Somebody tells of me what I never said: a clone of this host, or I lost what I had said. `renew`."""

    relay: bytes
    generation: int
    version: int


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The end of a `confirm`; the sentence says why we could not compare with others."""

    request: int
    error: str


Effect = CarryThis | RootMoved | AskPeer | OwnerChanged | ForeignNews | Confirmed
