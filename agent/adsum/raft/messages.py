"""What servers say to each other.

Every message carries the stamp of its cluster: one from another cluster, another recovery epoch or another
protocol version is dropped and counted, and so is one for another log than ours. `term` is the sender's,
except in a pre-vote request and its consent, where it is the term that would begin.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from adsum.raft.types import Entry, MemberId, SnapshotMeta, Term

PROTOCOL_VERSION = 3


class MessageStamp(NamedTuple):
    cluster_id: str
    epoch: int
    version: int = PROTOCOL_VERSION


class Message(Struct, frozen=True):
    stamp: MessageStamp
    source: MemberId
    target: MemberId
    term: Term


class FromLeader(Message, frozen=True):
    """Only the leader of its term sends these."""

    commit: int  # of the leader, or what it knows the target to hold, whichever is less


class Append(FromLeader, frozen=True):
    prev_index: int
    prev_term: Term
    entries: tuple[Entry, ...]


class Heartbeat(FromLeader, frozen=True):
    round: int  # counts the leader's broadcasts in its term; an answer to one confirms every read before it
    hash_index: int = 0  # of the newest state hash that the leader could judge
    state_hash: bytes = b""
    is_disputed: bool = False


class SnapshotOffer(FromLeader, frozen=True):
    """Leaves the leader as an order to its driver to bring the file; steps into the target's core when the
    file has arrived there whole and checked."""

    snapshot: SnapshotMeta


class TimeoutNow(Message, frozen=True):
    """Leadership is yours if you can win it: campaign at once."""


class AppendReply(Message, frozen=True):
    index: int  # everything up to here is on the sender's disk, as the leader has it


class AppendRejected(Message, frozen=True):
    """The entry before the appended ones is missing or of another term. The hint is the last place where the
    two logs could still agree, and its term here: the leader skips a whole term of ours at once."""

    rejected_index: int
    hint_index: int
    hint_term: Term


class HeartbeatReply(Message, frozen=True):
    round: int
    apply_level_max: int  # the highest level the sender can apply
    can_lead: bool = True  # if it is elected: it has read its state, and knows the level of its log
    hash_index: int = 0  # of its newest state hash
    state_hash: bytes = b""
    has_stopped: bool = False  # for good: its state differs, and it applies nothing more


class VoteRequest(Message, frozen=True):
    last_index: int
    last_term: Term
    is_prevote: bool
    is_transfer: bool  # the leader itself asked for this election: no need to defend it


class VoteReply(Message, frozen=True):
    """With the last entry the sender knows to be committed: whoever has the same one knows it then, too."""

    is_prevote: bool
    is_granted: bool
    commit_index: int
    commit_term: Term
