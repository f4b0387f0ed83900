"""What everybody outside `gossip` reads of it: who is present, how sure that is, and how well this agent is
placed to tell.

Nothing here changes what is known, and nobody outside reads past it (`tests/house/test_gossip_door.py`).
Members are handed out as they are kept, to be read at once: after the next call they may say something else.
"""

from __future__ import annotations

from adsum.clocks import Clocks
from adsum.frozen import dataclass
from adsum.gossip.broadcasts import Class
from adsum.gossip.claims import Alive, Profile
from adsum.gossip.coordinates import Coordinate
from adsum.gossip.events import GossipEvents
from adsum.gossip.evidence import PhiParts
from adsum.gossip.members import Forgotten, Member
from adsum.gossip.order import Departure, MemberStatus, Rank, Standing
from adsum.gossip.probe import Prober
from adsum.gossip.shared_state import SharedState
from adsum.gossip.suspicion import Suspicion, confirmations_wanted
from adsum.gossip.suspicions import Suspicions
from adsum.gossip.wire import PacketKind
from adsum.now import Now


@dataclass(frozen=True, slots=True)
class OwnCondition:
    """How much this agent doubts itself, and how often something was wrong with it."""

    health_score: int = 0  # Lifeguard's; 0 is well
    health_lows: int = 0
    is_isolated: bool = False
    mutes: int = 0
    pauses: int = 0
    paused_ns: int = 0  # all of them together


@dataclass(frozen=True, slots=True)
class NewsQueue:
    waiting: int = 0
    dropped: int = 0


class MembershipView:
    def __init__(
        self, shared: SharedState, suspicions: Suspicions, prober: Prober, events: GossipEvents
    ) -> None:
        self._shared = shared
        self._suspicions = suspicions
        self._prober = prober
        self._events = events

    # Myself.

    @property
    def me(self) -> Profile:
        return self._shared.me.profile

    @property
    def own_standing(self) -> Standing:
        me = self._shared.me
        return Standing(me.generation, me.departure, me.incarnation, Rank.ALIVE)

    @property
    def introduction(self) -> Alive:
        """What this agent says of itself."""
        return self._shared.me.alive

    @property
    def condition(self) -> OwnCondition:
        health, guard = self._shared.health, self._shared.guard
        return OwnCondition(
            health.score, health.lows, guard.is_isolated, guard.mutes, guard.pauses, guard.paused_ns
        )

    @property
    def is_isolated(self) -> bool:
        return self._shared.guard.is_isolated

    def stands_still_since_ns(self, now: Now) -> int | None:
        """Before the first timer after a pause has fired; None while nothing is overdue."""
        shared = self._shared
        return shared.guard.ran_ns if shared.gap_ns(now) else None

    def is_forgotten(self, now: Now) -> bool:
        """Nobody lists it, whomever it lists: all whom it knew may have moved, been replaced, or be
        forgotten. So it should ask again whom it was told to join."""
        has_met_somebody = bool(self._shared.tally.transitions)
        return has_met_somebody and self._shared.guard.is_forgotten(now.monotonic_ns)

    def misses_others(self) -> bool:
        """Those who failed may be back elsewhere, and have found each other there. One of all asks at a time:
        who it is, chance decides at each call."""
        shared = self._shared
        has_failed = shared.roster.counts[MemberStatus.FAILED] > 0
        return has_failed and shared.random.random() * shared.members < 1

    @property
    def times_probed(self) -> int:
        """By others, who meant this very agent."""
        tally = self._shared.tally
        return tally.packets_in[PacketKind.PING] - tally.dropped.get("ping for another", 0)

    # Others.

    @property
    def others_present(self) -> int:
        return self._shared.roster.present

    def members(self) -> list[Member]:
        """Everybody but me who is listed, in the order they were met."""
        members = self._shared.roster.members.values()
        return [each for each in members if each.standing.departure != Departure.PRUNED]

    def present(self) -> list[Member]:
        return [each for each in self._shared.roster.members.values() if each.standing.is_present]

    def counts(self) -> dict[MemberStatus, int]:
        """Of `members`, by status."""
        roster = self._shared.roster
        counts = dict(roster.counts)
        if counts[MemberStatus.LEFT]:
            counts[MemberStatus.LEFT] = sum(each.status is MemberStatus.LEFT for each in self.members())
        return counts

    def member(self, short: bytes) -> Member | None:
        return self._shared.roster.by_short.get(short)

    def member_by_id(self, node_id: bytes) -> Member | None:
        return self._shared.roster.members.get(node_id)

    def forgotten(self, node_id: bytes) -> Forgotten | None:
        """Of whoever is no member any more: it was reaped, or gave way to another."""
        return self._shared.roster.forgotten.get(node_id)

    def member_named(self, name: str) -> Member | None:
        """Whatever its case."""
        return self._shared.roster.by_name_of(name)

    def name_of(self, short: bytes) -> str:
        """Of a member or of this agent; the digits of one that nobody here knows (any more)."""
        if short == self.me.short:
            return self.me.name
        member = self.member(short)
        return member.profile.name if member is not None else short.hex()

    def digest(self) -> int:
        """Of the whole roster with myself in it: equal digests, one view."""
        return self._shared.digest()

    # How sure we are.

    def phi(self, now: Now, member: Member) -> tuple[float, PhiParts]:
        parts = self._suspicions.parts(now, member, self._prober.challenge_of(now, member))
        if member.suspicion is not None:
            return parts.challenge + parts.accusation, parts
        return parts.challenge or parts.schedule, parts

    def verdict_due_ns(self, now: Now, case: Suspicion) -> int:
        return self._suspicions.verdict_due_ns(now, case)

    @property
    def confirmations_wanted(self) -> int:
        """After so many a suspicion waits no longer than it must."""
        return confirmations_wanted(self._shared.members)

    def silence_ns_max(self, now: Now) -> int:
        """How long a suspect may stay silent at most until it is failed."""
        return self._shared.timeouts(now).max_ns

    def holds_last_known(self, now: Now) -> bool:
        """Silent verdicts hide nothing now: we are isolated, or too many went silent at once."""
        shared = self._shared
        return shared.guard.holds_last_known(now.monotonic_ns, shared.known, shared.timeouts(now).max_ns)

    def counter_age_s(self, now: Now, member: Member) -> float:
        """Since its newest count of life was made."""
        return self._shared.beats.age_s(now.monotonic_ns, member)

    # Where they are.

    @property
    def coordinate(self) -> Coordinate:
        return self._shared.vivaldi.here

    def coordinate_of(self, name: str) -> Coordinate | None:
        """Of a member that was measured, or of this agent."""
        if name.casefold() == self.me.name.casefold():
            return self.coordinate
        member = self.member_named(name)
        return member.path.coordinate if member is not None and member.path is not None else None

    # What waits, what time it is.

    def queue(self, kind: Class) -> NewsQueue:
        queue = self._shared.broadcasts.queues[kind]
        return NewsQueue(len(queue), queue.dropped)

    @property
    def clocks(self) -> Clocks:
        """How this host's date compares with those of others."""
        return self._shared.clocks

    @property
    def event_time(self) -> int:
        """Lamport time of the next user event."""
        return self._events.clock
