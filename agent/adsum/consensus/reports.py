"""What became of what was asked of the world, and what it has to say by itself."""

from __future__ import annotations

from typing import Any

from adsum.consensus.bootstrap import ServerStanding
from adsum.frozen import dataclass
from adsum.raft.changer import ConfigurationChange
from adsum.raft.messages import SnapshotOffer
from adsum.raft.types import MemberId, SnapshotMeta, SnapshotRef, Ticket

# Of the disk.


@dataclass(frozen=True, slots=True)
class GroupStored:
    ticket: Ticket
    needs_segment: bool  # no next one is ready


@dataclass(frozen=True, slots=True)
class GroupFoundNoRoom:
    """Nothing was written."""

    ticket: Ticket
    reason: str


@dataclass(frozen=True, slots=True)
class DiskProgressed:
    """A part of something large is durable, and the rest is on its way."""


@dataclass(frozen=True, slots=True)
class StoringFailed:
    """A write or a sync. Nobody knows what the disk holds now, and nothing will be stored any more."""

    reason: str
    during: str = ""  # where it was no group, in words


@dataclass(frozen=True, slots=True)
class SegmentPrepared:
    is_full: bool  # it could not be made


@dataclass(frozen=True, slots=True)
class BallastSpent:
    is_spent: bool  # False: it was spent before


# Of snapshot files.


@dataclass(frozen=True, slots=True)
class SnapshotWritten:
    meta: SnapshotMeta
    ref: SnapshotRef


@dataclass(frozen=True, slots=True)
class SnapshotRecorded:
    meta: SnapshotMeta
    ref: SnapshotRef
    first_kept: int
    is_new: bool  # False: the log stands on a later one


@dataclass(frozen=True, slots=True)
class SnapshotFoundNoRoom:
    sentence: str


@dataclass(frozen=True, slots=True)
class SnapshotRead:
    ref: SnapshotRef
    state: Any  # the state machine's, which nobody else looks into


@dataclass(frozen=True, slots=True)
class SnapshotUnreadable:
    """Its file, or what is in it."""

    ref: SnapshotRef
    reason: str


@dataclass(frozen=True, slots=True)
class SnapshotVerified:
    """One that could not be brought to somebody was read again; `damage` is empty for a sound one."""

    ref: SnapshotRef
    damage: str


@dataclass(frozen=True, slots=True)
class SnapshotArrived:
    """A file that another server brought is in place, whole and checked."""

    offer: SnapshotOffer
    ref: SnapshotRef


@dataclass(frozen=True, slots=True)
class BringingEnded:
    member: MemberId
    is_ok: bool


# Of the network.


@dataclass(frozen=True, slots=True)
class LeaderAnswered:
    """What the state machine said, the index of a read, or why there is neither: `Unavailable` if certainly
    nothing came of it, `OutcomeUnknown` if nobody knows."""

    ticket: int
    outcome: bytes | int | Exception


@dataclass(frozen=True, slots=True)
class NodeUnreachable:
    """What was sent to it may be gone."""

    node: str


# Of what a server asks that is of no cluster yet.


@dataclass(frozen=True, slots=True)
class StandingAnswered:
    """None: there was no answer, or one that makes no sense."""

    ticket: int
    standing: ServerStanding | None


@dataclass(frozen=True, slots=True)
class JoinTried:
    """Whom gossip knows now is more than who it was told to ask: the first attempt to join has ended, well or
    not, or there was nobody to ask."""


@dataclass(frozen=True, slots=True)
class ConsentWritten:
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FirstSnapshotStored:
    meta: SnapshotMeta


@dataclass(frozen=True, slots=True)
class ClusterIdWritten:
    cluster_id: str


@dataclass(frozen=True, slots=True)
class FoundingFoundNoRoom:
    """Nothing was written."""

    reason: str


@dataclass(frozen=True, slots=True)
class ChangeEnded:
    change: ConfigurationChange
    refusal: Exception | None


ConsensusReport = (
    GroupStored
    | GroupFoundNoRoom
    | DiskProgressed
    | StoringFailed
    | SegmentPrepared
    | BallastSpent
    | SnapshotWritten
    | SnapshotRecorded
    | SnapshotFoundNoRoom
    | SnapshotRead
    | SnapshotUnreadable
    | SnapshotVerified
    | SnapshotArrived
    | BringingEnded
    | LeaderAnswered
    | NodeUnreachable
)
FoundingReport = (
    StandingAnswered
    | JoinTried
    | ConsentWritten
    | FirstSnapshotStored
    | ClusterIdWritten
    | FoundingFoundNoRoom
    | StoringFailed
)
TakingInReport = StandingAnswered | ChangeEnded
