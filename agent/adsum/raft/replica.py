"""What a server is in every role: its identity, term, vote and log, and what it is about to send.

The roles act on this one object. Nothing leaves at once: messages gather in two boxes until the next
`ready()`, where those that promise something about this server's disk wait for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from adsum.now import Now
from adsum.raft.log import Log
from adsum.raft.messages import Message, MessageStamp
from adsum.raft.reads import ConfirmedRead
from adsum.raft.settings import RaftSettings
from adsum.raft.types import (
    BOOTSTRAP_TERM,
    NO_HASH,
    NOT_JUDGED,
    Configuration,
    HardState,
    JudgedHash,
    MemberId,
    Restored,
    Role,
    StateHash,
    Term,
)


@dataclass(slots=True)
class Counts:
    """Of what should be rare. `contradictions` must stay 0: each says that safety was lost somewhere."""

    foreign: int = 0  # another cluster, epoch or protocol version
    misaddressed: int = 0  # for another log, as one under this name before its disk was wiped
    strangers: int = 0  # answers from who is not a member
    stale: int = 0  # from an older term, or to a question no longer asked
    malformed: int = 0  # impossible indexes or terms
    contradictions: int = 0  # two leaders in one term
    forgotten: int = 0  # a follower lacks what it had acknowledged: its disk has lost it
    defended: int = 0  # vote requests ignored, for the leader is alive
    elections: int = 0  # begun here, pre-votes not counted
    quorum_losses: int = 0  # stepped down because a quorum was silent
    store_losses: int = 0  # stepped down because the disk was silent
    snapshots_offered: int = 0
    snapshots_refused: int = 0  # older than what is here, or not for this program
    appends_refused: int = 0  # for what is here already is more than enough that cannot be applied


class Replica:
    def __init__(
        self, me: MemberId, stamp: MessageStamp, settings: RaftSettings, restored: Restored, now: Now
    ) -> None:
        hard_state = restored.hard_state
        self.me = me
        self.stamp = stamp
        self.settings = settings
        self.now = now
        self.log = Log(restored.snapshot, restored.entries, commit=hard_state.commit, offset=restored.offset)
        self.configuration: Configuration = restored.snapshot.configuration
        # A founder's disk holds the first snapshot before it holds any vote.
        is_founder = bool(self.configuration.voters)
        self.term: Term = max(hard_state.term, BOOTSTRAP_TERM) if is_founder else hard_state.term
        self.vote: MemberId | None = hard_state.vote
        self.role = Role.FOLLOWER
        self.leader: MemberId | None = None
        self.level_missing = 0
        self.refuses_appends = False
        self.state_hash: StateHash = NO_HASH  # the newest here
        self.judged: JudgedHash = NOT_JUDGED  # by the leader, last
        self.has_stopped_applying = False
        self.counts = Counts()
        self.outgoing_now: list[Message] = []
        self.outgoing_after_store: list[Message] = []
        self.confirmed_reads: list[ConfirmedRead] = []
        assert self.log.last_term <= self.term, "a log of terms that were never promised"

    @property
    def hard_state(self) -> HardState:
        return HardState(self.term, self.vote, self.log.commit)

    @property
    def can_lead(self) -> bool:
        """A leader must be able to apply its log."""
        knows_level = self.log.last.apply_level <= self.settings.apply_level_max
        return knows_level and not self.log.is_restoring and not self.has_stopped_applying

    def enter_term(self, term: Term, vote: MemberId | None) -> None:
        assert term >= self.term, "terms never fall"
        assert term > self.term or self.vote in (None, vote), "one vote a term"
        self.term, self.vote = term, vote

    def send_now(self, message: Message) -> None:
        assert message.target != self.me, "nothing is sent to oneself before the store"
        self.outgoing_now.append(message)

    def send_after_store(self, message: Message) -> None:
        """To oneself, too: a vote for oneself counts when it is on disk."""
        self.outgoing_after_store.append(message)
