"""The words of consensus: who takes part, what an entry is, and what a server must never forget.

Terms, indexes and tickets are all small integers, and mixing them up is the classic mistake of a Raft:
terms and tickets have types of their own, and an index is what remains. Entries are named tuples, not
dataclasses: they are made by the hundred thousand, and a tuple is half the price and already the positional
form that goes on disk.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple, NewType

import msgspec

from adsum.dedup import DedupKey

Term = NewType("Term", int)
Ticket = NewType("Ticket", int)  # numbers batches; see `batch`

NO_TERM = Term(0)
NO_TICKET = Ticket(0)

# What an entry costs beside its data when windows and caps are counted: header, framing, and our objects.
ENTRY_OVERHEAD_BYTES = 64


class MemberId(NamedTuple):
    """A server and its log. A wiped disk makes a new log id, so it comes back as a stranger, not as a voter
    that has forgotten its votes."""

    node: str
    log: str

    def __str__(self) -> str:
        return f"{self.node}/{self.log}"


class EntryKind(enum.IntEnum):
    """The numbers are on disk and on the wire: they are never given a new meaning."""

    COMMAND = 0  # for the state machine
    TERM_BEGIN = 1  # a leader's first; until it is committed nothing older may be
    CONFIGURATION = 2  # the membership from here on, as a whole
    APPLY_LEVEL = 3  # raises the level; this entry's own header already carries the new one


CLIENT_BYTES_MAX = 255  # its length is one byte in the log, and 0 there stands for no key at all


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A hundred thousand of them are in memory, and the garbage collector has nothing to find in them."""

    index: int
    term: Term
    kind: EntryKind
    time_ms: int  # cluster time: never falls along the log, stands still while there is no leader
    apply_level: int  # the rules by which this entry is applied
    dedup: DedupKey | None
    data: bytes

    @property
    def bytes_total(self) -> int:
        return ENTRY_OVERHEAD_BYTES + len(self.data)


class Position(msgspec.Struct, frozen=True, gc=False):
    """Where a proposal went. It is committed when this index is, with this term; another term there means it
    was lost."""

    index: int
    term: Term


class StateHash(NamedTuple):
    """Of what the state machine held when it stood on this index."""

    index: int = 0  # type: ignore[assignment]  # the paper's word; nobody asks for tuple.index()
    hash: bytes = b""


HASH_BYTES_MAX = 32
NO_HASH = StateHash()


class JudgedHash(NamedTuple):
    """What the leader makes of the hashes that it was told for one index."""

    index: int = 0  # type: ignore[assignment]  # as above
    hash: bytes = b""  # a majority's; the leader's own where none agrees
    is_disputed: bool = False  # some differ, and none is a majority's


NOT_JUDGED = JudgedHash()


class HardState(msgspec.Struct, frozen=True):
    """On disk before anybody hears of it; only `commit` may lag, for it can be learned again."""

    term: Term = NO_TERM
    vote: MemberId | None = None
    commit: int = 0


NO_HARD_STATE = HardState()


@dataclass(frozen=True, slots=True)
class Configuration:
    """Who takes part. While `voters_outgoing` is not empty it is joint: both sets must agree to anything.

    A member to be a learner, but still an outgoing voter, waits in `learners_next` until the joint
    configuration is left. These tuples are sorted, so that equal memberships are equal bytes.
    """

    voters: tuple[MemberId, ...] = ()
    voters_outgoing: tuple[MemberId, ...] = ()
    learners: tuple[MemberId, ...] = ()
    learners_next: tuple[MemberId, ...] = ()
    auto_leave: bool = False
    # Taken out by an operator, the last one at the end: nobody takes them in again but an operator. The same
    # server with another log is another member.
    removed: tuple[MemberId, ...] = ()

    @property
    def is_joint(self) -> bool:
        return bool(self.voters_outgoing)

    def is_voter(self, member: MemberId) -> bool:
        return member in self.voters or member in self.voters_outgoing

    def is_learner(self, member: MemberId) -> bool:
        return member in self.learners

    def members(self) -> tuple[MemberId, ...]:
        """Everyone who is sent the log, each once, in order."""
        everyone = (*self.voters, *self.voters_outgoing, *self.learners, *self.learners_next)
        return tuple(sorted(dict.fromkeys(everyone)))


class RevisionOffset(NamedTuple):
    """A revision is the index of its entry and this. It is raised where entries that somebody was told of may
    be lost, as when a quorum is rebuilt: so that no revision, and no fencing token, is given out twice."""

    value: int = 0
    from_index: int = 0  # for this entry and all later ones; for those before, what the snapshot says


NO_OFFSET = RevisionOffset()


@dataclass(frozen=True, slots=True)
class SnapshotMeta:
    """What a state machine's snapshot stands for. Its bytes are the driver's; (index, term) finds them."""

    index: int = 0
    term: Term = NO_TERM
    configuration: Configuration = Configuration()
    time_ms: int = 0
    apply_level: int = 0
    epoch: int = 0  # raised by hand when a lost quorum is rebuilt
    offset: int = 0  # of revisions, for the entry at its index


@dataclass(frozen=True, slots=True)
class SnapshotRef:
    """A snapshot file, and the proof that it is the one that was meant."""

    index: int
    term: Term
    size_bytes: int
    sha256: bytes


@dataclass(frozen=True, slots=True)
class Restored:
    """What a start finds on disk: a prefix of the batches that were stored, and never half of one."""

    hard_state: HardState = NO_HARD_STATE
    snapshot: SnapshotMeta = SnapshotMeta()
    entries: tuple[Entry, ...] = ()
    offset: RevisionOffset = NO_OFFSET


# The first snapshot of a new cluster. The log begins behind it, so that whoever joins later is given the
# first configuration with a snapshot and never has to guess it.
BOOTSTRAP_INDEX = 1
NEWEST_APPLY_LEVEL = 2  # 2 came with sessions, locks, transactions and external nodes
BOOTSTRAP_TERM = Term(1)


def bootstrap(configuration: Configuration) -> SnapshotMeta:
    """Every founding member begins with the same one."""
    return SnapshotMeta(BOOTSTRAP_INDEX, BOOTSTRAP_TERM, configuration, apply_level=NEWEST_APPLY_LEVEL)


class TurnCause(enum.Enum):
    """Why a server turned from one role to another, or to another leader."""

    STARTED = "started"
    ELECTED = "elected"
    HEARD = "heard"  # the leader of this term, or of a later one
    LEADER_SILENT = "leader-silent"
    NOT_ELECTED = "not-elected"
    QUORUM_SILENT = "quorum-silent"
    DISK = "disk"  # it does not answer, or it failed
    LATER_TERM = "later-term"
    HANDED_OVER = "handed-over"
    NO_VOTER = "no-voter"
    STATE_DIFFERS = "state-differs"  # from that of a majority


class Turn(NamedTuple):
    cause: TurnCause
    by: tuple[MemberId, ...] = ()  # who voted, was heard, fell silent, or began the term


class Role(enum.Enum):
    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"  # asks whether it would be elected, before disturbing anyone
    CANDIDATE = "candidate"
    LEADER = "leader"
