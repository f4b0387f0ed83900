"""What gossip asks of the world, in order. The rim performs these, the simulator plays them."""

from __future__ import annotations

import enum

from adsum.address import Address
from adsum.frozen import dataclass
from adsum.gossip.claims import Profile, UserEvent
from adsum.gossip.evidence import Evidence
from adsum.gossip.order import Standing


@dataclass(frozen=True, slots=True)
class Send:
    """One datagram: clear header and body; the rim seals the body when there is a key."""

    to: Address
    message: bytes


@dataclass(frozen=True, slots=True)
class PingStream:
    """Connect, say a ping, await the answer; report `StreamPinged(probe, …)` within the time given.

    Only the member's own answer counts: another process may have been given its address since."""

    probe: int
    member: bytes
    to: Address
    timeout_ns: int


@dataclass(frozen=True, slots=True)
class SyncPart:
    """One member as a sync tells it: what it says of itself, what others say, and for how long they have."""

    alive: bytes
    verdict: bytes = b""
    age_s: int = 0


@dataclass(frozen=True, slots=True)
class SyncMessage:
    """One side's turn in an exchange of rosters; the rim cuts it into frames and joins them again."""

    digest: int
    parts: tuple[SyncPart, ...] = ()
    is_join: bool = False
    use_generation: int = 0  # a joiner whose clock is too far ahead is told what to use instead
    wants_answer: bool = True  # without, the stream ends with this turn and nothing is reported about it
    wall_ms: int = 0  # the teller's date; nought when it is not said


@dataclass(frozen=True, slots=True)
class OpenSync:
    """Connect and send; report `SyncAnswered(ticket, …)` or `SyncFailed(ticket, …)`."""

    ticket: int
    to: Address
    message: SyncMessage


@dataclass(frozen=True, slots=True)
class AnswerSync:
    """On the stream that `SyncAsked(ticket, …)` came from; None means busy: close it."""

    ticket: int
    message: SyncMessage | None


@dataclass(frozen=True, slots=True)
class CloseSync:
    """The third and last turn of an exchange that we opened; empty when they lack nothing."""

    ticket: int
    message: SyncMessage


@dataclass(frozen=True, slots=True)
class MemberChanged:
    """None before: we had not heard of it. None after: it is forgotten."""

    member: Profile
    before: Standing | None
    after: Standing | None
    evidence: Evidence


class Note(enum.Enum):
    CONFIRMED = "suspicion confirmed"
    RAISED = "suspicion raised by me"
    VETOED = "suspicion vetoed by a newer counter"
    WITNESSED = "silence of its counter counted as a witness"
    WITHHELD = "suspicion withheld: too many of my probes fail, or I was refuted too often"
    ACCUSED_ME = "I was accused and refuted it"
    RESTARTING = "restart announced"
    UNANSWERED = "not let in: it does not answer at the address that was told"


@dataclass(frozen=True, slots=True)
class Noted:
    """Something the journal keeps though nobody's state changed."""

    note: Note
    member: Profile
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Refuser:
    """A member that does not let this agent in, and who holds its name or id instead; by their short ids."""

    short: bytes
    address: Address
    holder: bytes

    @property
    def is_party(self) -> bool:
        """It claims the name for itself: two say so of each other, and neither is known to be first."""
        return self.short == self.holder


@dataclass(frozen=True, slots=True)
class ConflictSeen:
    """Two that claim one name or one id; the newcomer is not let in.

    With a refuser the newcomer is this agent; it stands for the holder too while that one is not known."""

    holder: Profile
    newcomer: Profile
    refuser: Refuser | None = None
    is_contested: bool = False  # this agent is one of the two, and nobody else has said who was first

    @property
    def is_undecided(self) -> bool:
        """Each of the two says that it was first, and nobody else has said anything."""
        return self.is_contested or (self.refuser is not None and self.refuser.is_party)


@dataclass(frozen=True, slots=True)
class EventHeard:
    event: UserEvent


@dataclass(frozen=True, slots=True)
class CarriedHeard:
    """Opaque bytes of another part, with who carried them here."""

    sender: bytes
    payloads: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class RootHeard:
    """The peer's catalog differs from ours; said once per contact."""

    sender: bytes
    root: bytes


@dataclass(frozen=True, slots=True)
class IsolationChanged:
    is_isolated: bool


@dataclass(frozen=True, slots=True)
class Paused:
    """Nothing ran here for so long, and the roster has not been compared since."""

    for_ns: int


@dataclass(frozen=True, slots=True)
class ComparedAgain:
    """The roster was compared with a member's, for the first time since a pause."""


@dataclass(frozen=True, slots=True)
class GenerationRaised:
    """Keep it on disk before the next start uses it."""

    generation: int


@dataclass(frozen=True, slots=True)
class GenerationAdvised:
    """As `GenerationRaised`, but lower than before: nobody has let us in under that of our wild clock."""

    generation: int


@dataclass(frozen=True, slots=True)
class ClockCompared:
    """This host's date is so far ahead of most members' (negative: behind); said when it moved by a second.

    With how many others it was compared."""

    ahead_ms: int
    others: int


@dataclass(frozen=True, slots=True)
class JoinEnded:
    address: Address
    error: str  # empty when it worked


@dataclass(frozen=True, slots=True)
class LeaveDone:
    """Everybody had the time to hear that I leave, or restart; the process may end."""


@dataclass(frozen=True, slots=True)
class GossipRefused:
    """The command in hand changed nothing; the sentence is for who gave it."""

    sentence: str


Effect = (
    Send
    | PingStream
    | OpenSync
    | AnswerSync
    | CloseSync
    | MemberChanged
    | Noted
    | ConflictSeen
    | EventHeard
    | CarriedHeard
    | RootHeard
    | IsolationChanged
    | Paused
    | ComparedAgain
    | GenerationRaised
    | GenerationAdvised
    | ClockCompared
    | JoinEnded
    | LeaveDone
    | GossipRefused
)
