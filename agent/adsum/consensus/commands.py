"""What somebody on this server may ask of consensus. What is refused raises, with a class of `raft.errors` or
`errors`, and nothing has changed then."""

from __future__ import annotations

import enum
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

from adsum.dedup import DedupKey
from adsum.raft.changer import ConfigurationChange
from adsum.raft.types import MemberId, Term

Token: TypeAlias = Any  # what the caller wants to see again with the answer; nobody here looks into it


class ProposalUrgency(enum.IntEnum):
    """Which go first where they have to wait. Reads wait for none of them."""

    SESSION = 0  # what ends or renews one
    WRITE = 1


class SubmitProposal(Struct, frozen=True):
    """A proposal on any server: held while nobody leads, sent on to the leader, tried again while that is
    safe. Answered once, as `Propose`; in the end with `NoLeader` or `OutcomeUnknown`."""

    data: bytes
    token: Token
    dedup: DedupKey | None = None


class SubmitRead(NamedTuple):
    """A read on any server: answered when the state machine here holds everything that was acknowledged
    before it was asked for."""

    token: Token


class GiveUp(NamedTuple):
    """Nobody waits any more for what was submitted with this token."""

    token: Token


class Propose(Struct, frozen=True):
    """To this server only. Answered once, with what the state machine said, unless the process ends before.
    With `term` only if this server leads exactly that one."""

    data: bytes
    token: Token
    dedup: DedupKey | None = None
    term: Term | None = None
    urgency: ProposalUrgency = ProposalUrgency.WRITE


class ProposeChange(NamedTuple):
    change: ConfigurationChange
    token: Token


class ProposeLevel(NamedTuple):
    level: int
    token: Token


class ConfirmRead(NamedTuple):
    """Answered with the index up to which a quorum confirmed this leader, when the state machine stands on
    it."""

    token: Token


class TransferTo(NamedTuple):
    target: MemberId


class StopServing(NamedTuple):
    """Nothing new is taken, and leadership is handed over first, so that nobody has to wait for an election.
    `HandedOver` says when that is done, or was tried for long enough."""


ConsensusCommand = (
    SubmitProposal
    | SubmitRead
    | GiveUp
    | Propose
    | ProposeChange
    | ProposeLevel
    | ConfirmRead
    | TransferTo
    | StopServing
)
