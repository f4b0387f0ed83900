"""What the keeper of sessions asks of the world, in order. What comes of each but the last two comes back as
one of `reports`, with its ticket."""

from __future__ import annotations

from typing import TypeAlias

from adsum.effects import LogLine
from adsum.frozen import dataclass
from adsum.kv import KeyRefusal
from adsum.session import Session
from adsum.store.commands import EndSessions, ExpireSessions, NoteRemaining


@dataclass(frozen=True, slots=True)
class ProposeInTerm:
    """To the log, if this server leads exactly that term: `ProposalEnded`."""

    ticket: int
    command: EndSessions | ExpireSessions | NoteRemaining
    term: int


@dataclass(frozen=True, slots=True)
class ConfirmLeadership:
    """By a quorum, from now on: `LeadershipConfirmed`, when the state machine holds all that was acknowledged
    before."""

    ticket: int


@dataclass(frozen=True, slots=True)
class AskVerdict:
    """Another server, what it sees of a host: `VerdictGiven`, within `VERDICT_S`."""

    ticket: int
    voter: str
    node_id: bytes


@dataclass(frozen=True, slots=True)
class AnswerRenewals:
    """One for each id, in the order in which they were asked for, None for what is gone; or nobody knows."""

    token: object
    outcome: list[Session | None] | KeyRefusal


KeeperEffect: TypeAlias = ProposeInTerm | ConfirmLeadership | AskVerdict | AnswerRenewals | LogLine
VERDICT_S = 2.0
