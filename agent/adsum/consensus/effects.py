"""What a server of consensus asks of the world, in order. What comes of those that ask for work comes back as
one of `reports`.

What changes the log (`StoreGroup`, `RecordSnapshot`) is done one after the other, in the order in which it
was asked for; everything else beside that.
"""

from __future__ import annotations

from collections.abc import Iterator

from adsum.consensus.bootstrap import ServerStanding
from adsum.consensus.commands import Token
from adsum.dedup import DedupKey
from adsum.effects import LogLine
from adsum.frozen import dataclass
from adsum.raft.batch import LogChange
from adsum.raft.changer import ConfigurationChange
from adsum.raft.messages import Message, SnapshotOffer
from adsum.raft.types import MemberId, Role, SnapshotMeta, SnapshotRef, Term, Ticket, Turn

ASK_S = 2.0  # for a direct call; what it is about is asked again anyway


@dataclass(frozen=True, slots=True)
class SendMessage:
    message: Message


@dataclass(frozen=True, slots=True)
class AskLeader:
    """To propose this, or to confirm a read where there is no data. `LeaderAnswered` with the ticket, also
    when there is no answer."""

    ticket: int
    node: str
    data: bytes | None
    dedup: DedupKey | None
    timeout_ns: int


@dataclass(frozen=True, slots=True)
class BringSnapshot:
    """The file to the offer's target; `BringingEnded` when it has arrived, or will not."""

    offer: SnapshotOffer
    ref: SnapshotRef


@dataclass(frozen=True, slots=True)
class StoreGroup:
    """One write and one sync, all or nothing. `GroupStored`, `GroupFoundNoRoom` or `StoringFailed`."""

    ticket: Ticket
    changes: list[LogChange]


@dataclass(frozen=True, slots=True)
class WriteSnapshot:
    """A file that nobody relies on yet: `SnapshotWritten`, `SnapshotFoundNoRoom` or `StoringFailed`. The
    pieces may be asked for in another thread, while other entries are applied."""

    meta: SnapshotMeta
    pieces: Iterator[bytes]


@dataclass(frozen=True, slots=True)
class RecordSnapshot:
    """The log stands on this file from now on, and begins at `first_kept`; unless a later one was installed
    meanwhile. `SnapshotRecorded`, `SnapshotFoundNoRoom` or `StoringFailed`."""

    meta: SnapshotMeta
    ref: SnapshotRef
    first_kept: int


@dataclass(frozen=True, slots=True)
class ReadSnapshot:
    """The state machine's state out of the file of an installed snapshot, which takes a while: `SnapshotRead`
    or `SnapshotUnreadable`."""

    ref: SnapshotRef


@dataclass(frozen=True, slots=True)
class PrepareSegment:
    """Room for the log to grow, ahead of need: `SegmentPrepared` or `StoringFailed`."""


@dataclass(frozen=True, slots=True)
class SpendBallast:
    """What a full disk can give up: `BallastSpent` or `StoringFailed`."""


@dataclass(frozen=True, slots=True)
class AnswerRequests:
    """Each token once: what the state machine said, the index of a read, or why there is neither."""

    answers: list[tuple[Token, bytes | int | Exception]]


@dataclass(frozen=True, slots=True)
class AppliedTo:
    """The state machine stands on this index now, by entries or by a snapshot."""

    index: int


@dataclass(frozen=True, slots=True)
class StateDoubted:
    """Stale reads are refused here, and all reads where applying has stopped. An empty reason: no more."""

    reason: str
    has_stopped: bool = False


@dataclass(frozen=True, slots=True)
class Turned:
    """As this server sees it, and it was otherwise before."""

    role: Role
    leader: MemberId | None
    term: Term
    turn: Turn


@dataclass(frozen=True, slots=True)
class HandedOver:
    """What `StopServing` waited for."""


@dataclass(frozen=True, slots=True)
class ServerBroken:
    """The process must end, when what was sent before this has left. The next start reads what the disk truly
    holds."""

    sentence: str


# Of a server that is of no cluster yet.


@dataclass(frozen=True, slots=True)
class AskStanding:
    """Who it is and of which cluster, in a direct call. `StandingAnswered` with the ticket, also when there
    is no answer within `ASK_S`."""

    ticket: int
    node: str
    founders: tuple[str, ...] = ()  # the nodes with whom this server would found, if it is for that


@dataclass(frozen=True, slots=True)
class AnswerStanding:
    """To who asked this server who it is, under this ticket."""

    ticket: int
    standing: ServerStanding


@dataclass(frozen=True, slots=True)
class WriteConsent:
    """This server founds a cluster with these nodes or with nobody; empty: with whomever. `ConsentWritten`,
    `FoundingFoundNoRoom` or `StoringFailed`."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoreFirstSnapshot:
    """The log stands on it from now on: `FirstSnapshotStored`, `FoundingFoundNoRoom` or `StoringFailed`."""

    meta: SnapshotMeta
    pieces: Iterator[bytes]


@dataclass(frozen=True, slots=True)
class WriteClusterId:
    """For good: `ClusterIdWritten`, `FoundingFoundNoRoom` or `StoringFailed`."""

    cluster_id: str
    epoch: int


# Of a leader that takes servers in; it asks for standings, too.


@dataclass(frozen=True, slots=True)
class ChangeMembership:
    """`ChangeEnded` with the same change, when it is in force here or was refused."""

    change: ConfigurationChange


ConsensusEffect = (
    SendMessage
    | AskLeader
    | BringSnapshot
    | StoreGroup
    | WriteSnapshot
    | RecordSnapshot
    | ReadSnapshot
    | PrepareSegment
    | SpendBallast
    | AnswerRequests
    | AppliedTo
    | StateDoubted
    | Turned
    | HandedOver
    | ServerBroken
    | LogLine
)
FoundingEffect = (
    AskStanding | AnswerStanding | WriteConsent | StoreFirstSnapshot | WriteClusterId | ServerBroken | LogLine
)
TakingInEffect = AskStanding | ChangeMembership | LogLine
