"""What the keeper of sessions is told."""

from __future__ import annotations

from typing import TypeAlias

from adsum.frozen import dataclass
from adsum.sessions.sees import HostSeen, NodeKey


@dataclass(frozen=True, slots=True)
class LeadershipTurned:
    term: int | None  # that this server leads; None: it does not lead


@dataclass(frozen=True, slots=True)
class SessionsApplied:
    """The state machine has applied something; of sessions, perhaps."""


@dataclass(frozen=True, slots=True)
class HostMoved:
    """Something that is seen of it: its verdict, its records, its checks."""

    who: NodeKey


@dataclass(frozen=True, slots=True)
class LeadershipConfirmed:
    ticket: int
    is_confirmed: bool


@dataclass(frozen=True, slots=True)
class ProposalEnded:
    """Applied here; or it was not, or nobody knows."""

    ticket: int
    is_applied: bool


@dataclass(frozen=True, slots=True)
class VerdictGiven:
    """By a server that is not cut off itself; None: there is no answer."""

    ticket: int
    seen: HostSeen | None


KeeperReport: TypeAlias = (
    LeadershipTurned | SessionsApplied | HostMoved | LeadershipConfirmed | ProposalEnded | VerdictGiven
)
