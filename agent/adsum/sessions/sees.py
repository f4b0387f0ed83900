"""What the keeper of sessions has to see of the world to judge by: hosts and checks as this server has them
now, and time.

A host is named by the id of its agent, for names are taken over; a node without an agent by its name. What is
not known here is said to be unknown: absence is no evidence.
"""

from __future__ import annotations

import enum
from typing import NamedTuple, Protocol, TypeAlias

from adsum.now import Now
from adsum.session import Session

NodeKey: TypeAlias = tuple[bytes, str]  # the agent's id and no name, or no id and the node's name


class HostVerdict(enum.IntEnum):
    """The numbers travel between servers."""

    UNKNOWN = 0
    PRESENT = 1
    FAILED = 2
    GONE = 3  # it left, was deregistered, or gave way to another for good


class HostSeen(NamedTuple):
    verdict: HostVerdict
    generation: int = 0  # of the agent that this is said of


class RecordsSeen(NamedTuple):
    """How far an agent's own records are known here."""

    generation: int = 0
    version: int = 0  # everything up to here
    is_complete: bool = False  # nothing that was heard of is missing


class CheckSeen(enum.IntEnum):
    MISSING = 0
    CRITICAL = 1
    FINE = 2  # a warning is fine, too


class SeesHosts(Protocol):
    @property
    def is_isolated(self) -> bool:
        """This server reaches so few others that it is the one cut off, more likely than they are."""
        ...

    def host(self, who: NodeKey) -> HostSeen: ...

    def followed_by(self, who: NodeKey, node: str) -> int:
        """The generation of another agent that is present and has this name of a node now; 0: none is known.
        Only of those whom nobody here knows."""
        ...

    def records(self, who: NodeKey) -> RecordsSeen: ...

    def check(self, who: NodeKey, check_id: str) -> CheckSeen: ...


class KeepsTime(Protocol):
    """As consensus does."""

    @property
    def stood_ns(self) -> int:
        """How long this process stood still, all pauses together, up to the time that it was told last."""
        ...

    def is_time_trusted(self, now: Now) -> bool:
        """Not after a pause, until a quorum has confirmed that we lead."""
        ...


def node_of(session: Session) -> NodeKey:
    return (session.node_id, "") if session.node_id else (b"", session.node.lower())
