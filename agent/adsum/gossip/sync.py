"""Comparing whole rosters over a stream: on joining, every so often, and with the failed, who may have come
back.

Three turns on one stream. The opener says who it is and the digest of its roster; the other answers with
nothing when the digests agree (most times, at a cost that does not grow) or else with its roster; the
opener closes with what the other lacks or has older. Members that were told dead come with their verdict,
its original accusers and its age, so that a sync invents no witnesses and prolongs no tombstone. What it
tells is told on by gossip only if it was news."""

from __future__ import annotations

import math
from collections.abc import Iterable

from adsum.address import Address
from adsum.cbor import BadEncoding
from adsum.clocks import GENERATION_AHEAD_MS_MAX
from adsum.gossip import ages
from adsum.gossip.claim_merger import ClaimMerger
from adsum.gossip.claims import Alive, Dead, Left, Suspect
from adsum.gossip.effects import (
    AnswerSync,
    ClockCompared,
    CloseSync,
    ComparedAgain,
    GenerationAdvised,
    JoinEnded,
    OpenSync,
    SyncMessage,
    SyncPart,
)
from adsum.gossip.members import Member
from adsum.gossip.order import Standing
from adsum.gossip.phi import push_time_s
from adsum.gossip.shared_state import GossipTimer, SharedState
from adsum.gossip.source import FROM_MEMBER, FROM_STRANGER, Source, Telling
from adsum.named import NamedTuple
from adsum.now import SECOND, Now

OPEN_MAX = 16
UNEQUAL_MAX = 1  # contacts in a row whose digest differs before it is taken for more than news under way
REPAIR_EVERY_NS = 3 * SECOND
REPAIR_MEMBERS = 50  # with each so many the interval of repairs grows by itself: a sync costs as much more
SERVED_MAX = 32
PEERS_AFTER_PAUSE = 2  # asked at once, for one may be gone or busy; then one a round
OPEN_AFTER_PAUSE_MAX = 4
JOIN_TRIES_MAX = 20
JOIN_AGAIN_NS = SECOND // 2
SCALE_ABOVE = 32  # members; beyond, the interval grows with the logarithm, as memberlist's does
LIMIT_NS = 30 * SECOND
CLOCK_TOLD_MS = 1_000
GENERATIONS_SAMPLED = 255
NOBODY_THERE = "it answered, but nobody that it lists could be taken in; its log and ours say why"
FAREWELL_PEERS_PER_GOSSIP_NODE = 2
# Who hears of more than so many times the members it knew is new here, and its news are nobody else's.
NEWCOMER_SHARE = 2

# Of what a stranger tells, its own record is looked at; we ask it for the rest when it has answered.
STRANGERS_PARTS_MAX = 1
GROWN_PARTS, GROWN_SHARE = 1_024, 3
FOR_MORE_MAX = 2  # exchanges with newcomers at once, of those that may be open
# Who is told that its generation is days ahead, and does not believe it yet, asks others soon: two of the
# three that it joined by may have the same wrong date, and at the usual pace it took minutes until it had
# heard enough others to follow them, and so to be known to them.
OTHER_DATES_NS = 3 * SECOND
OTHER_DATES_MAX = 8  # exchanges of one life

FAREWELL_AGE = 0  # its teller is its subject, and says it first here


class OpenedSync(NamedTuple):
    address: Address
    join_tries: int  # how many times this join was tried; 0 when it is none
    is_for_more: bool  # of a newcomer


class Syncs:
    def __init__(self, shared: SharedState, merger: ClaimMerger) -> None:
        self.shared = shared
        self.merger = merger
        self._tickets = 0
        self._opened: dict[int, OpenedSync] = {}
        self._outdated = 0  # tickets up to this one are of exchanges from before a pause
        self._unequal = 0
        self._repair_ns = 0
        self._seen_digest = 0
        self._settled_ns = 0
        self._told_ahead_ms = 0
        self._other_dates_left = OTHER_DATES_MAX
        self._served: dict[int, tuple[Source, str]] = {}  # by ticket: who asked, and from where

    # Opening.

    def join(self, now: Now, address: Address, tries: int = 1) -> None:
        self._open(now, address, join_tries=tries)

    def ask_for_more(self, now: Now, address: Address) -> None:
        """A newcomer that told of others. It must not take the places of members; what is left out is found
        when rosters are compared."""
        if sum(each.is_for_more for each in self._opened.values()) < FOR_MORE_MAX:
            self._open(now, address, is_for_more=True)

    def periodic(self, now: Now) -> None:
        shared, scale = self.shared, 1
        if shared.members > SCALE_ABOVE:
            scale = math.ceil(math.log2(shared.members) - math.log2(SCALE_ABOVE)) + 1
        self.compare_with_any(now)
        jitter = 0.9 + 0.2 * shared.random.random()
        wait_ns = int(shared.settings.sync_interval_ns * scale * jitter)
        shared.timers.set((GossipTimer.SYNC, None), now.monotonic_ns + wait_ns)

    def contact(self, now: Now, peer: Member, digest: int) -> None:
        """Pings and acks carry digests. Whose differs from all it meets has missed something, and asks at
        once.

        While news is under way all differ; so nothing is done until ours has not moved for as long as news
        takes."""
        if not digest:
            return
        own = self.shared.short_digest()
        if own != self._seen_digest:
            self._seen_digest, self._settled_ns = own, now.monotonic_ns
        self._unequal = self._unequal + 1 if digest != own else 0
        settles_ns = int(push_time_s(self.shared.members) * SECOND)
        is_settled = now.monotonic_ns - self._settled_ns > settles_ns
        if self._unequal > UNEQUAL_MAX and is_settled and now.monotonic_ns >= self._repair_ns:
            wait_ns = REPAIR_EVERY_NS * (1 + self.shared.members // REPAIR_MEMBERS)
            self._repair_ns = now.monotonic_ns + wait_ns
            self._unequal = 0
            self.shared.tally.syncs_for_repair += 1
            self._open(now, peer.profile.address)

    def compare_with_any(self, now: Now, peers: int = 1) -> None:
        for peer in self.shared.roster.pick(peers):
            self._open(now, peer.profile.address)

    def compare_anew(self, now: Now) -> None:
        """What is under way may have been said before the pause."""
        self._outdated = self._tickets
        for ticket in list(self._served):
            self._end_served(ticket)
        self.compare_with_any(now, peers=PEERS_AFTER_PAUSE)

    def compare_until_answered(self, now: Now) -> None:
        if self.shared.guard.awaits_comparison and len(self._opened) < OPEN_AFTER_PAUSE_MAX:
            self.compare_with_any(now)

    def reconnect(self, now: Now) -> None:
        """All present together try about as many failed ones as there are of them, each round."""
        shared = self.shared
        gone = shared.roster.pick_gone()
        if gone is not None:
            failed = len(shared.roster) - shared.roster.present
            if shared.random.random() * shared.members < failed:
                self._open(now, gone.profile.address)
        jitter = 0.5 + shared.random.random()
        wait_ns = int(shared.settings.reconnect_interval_ns * jitter)
        shared.timers.set((GossipTimer.RECONNECT, None), now.monotonic_ns + wait_ns)

    def say_farewell(self, part: SyncPart) -> None:
        shared = self.shared
        for peer in shared.roster.pick(FAREWELL_PEERS_PER_GOSSIP_NODE * shared.settings.gossip_nodes):
            self._tickets += 1
            message = SyncMessage(self.shared.digest(), (part,), wants_answer=False)
            shared.effects.append(OpenSync(self._tickets, peer.profile.address, message))

    def _open(self, now: Now, address: Address, *, join_tries: int = 0, is_for_more: bool = False) -> None:
        shared = self.shared
        if len(self._opened) >= OPEN_MAX:
            shared.tally.syncs_busy += 1
            if join_tries:
                self._join_later(now, address, join_tries)
            return
        self._tickets += 1
        self._opened[self._tickets] = OpenedSync(address, join_tries, is_for_more)
        shared.timers.set((GossipTimer.SYNC_LIMIT, (self._tickets, True)), now.monotonic_ns + LIMIT_NS)
        shared.tally.syncs_opened += 1
        mine, is_join = (self._my_part(),), join_tries > 0
        message = SyncMessage(shared.digest(), mine, is_join=is_join, wall_ms=now.wall_ms)
        shared.effects.append(OpenSync(self._tickets, address, message))

    def answered(self, now: Now, ticket: int, message: SyncMessage) -> None:
        opened = self._opened.pop(ticket, None)
        if opened is None:
            return
        shared = self.shared
        shared.timers.cancel((GossipTimer.SYNC_LIMIT, (ticket, True)))
        self._hear_clock(now, opened.address, message)
        self._follow_advice(now, message.use_generation)
        # Whom we asked, we believe; and whom an operator has us join may know a cluster of any size.
        parts_max = shared.settings.members_max if opened.join_tries else self._parts_max(FROM_MEMBER)
        if opened.join_tries and not shared.roster.present:
            shared.clocks.look_at(now, self._generations_in(message))
        told = self._merge(now, message.parts, FROM_MEMBER, parts_max)
        closing = tuple(self._newer_than(told, now)) if message.parts else ()
        shared.tally.syncs_equal += not message.parts
        if ticket > self._outdated:
            self._compared()
        answer = SyncMessage(shared.digest(), closing, wall_ms=now.wall_ms)
        shared.effects.append(CloseSync(ticket, answer))
        if opened.join_tries:
            is_refused = message.parts and not shared.roster.present  # not if I asked myself
            shared.effects.append(JoinEnded(opened.address, NOBODY_THERE if is_refused else ""))

    def failed(self, now: Now, ticket: int, error: str, *, is_busy: bool = False) -> None:
        opened = self._opened.pop(ticket, None)
        if opened is None:
            return
        self.shared.timers.cancel((GossipTimer.SYNC_LIMIT, (ticket, True)))
        self.shared.tally.syncs_failed += 1
        if not opened.join_tries:
            return
        if is_busy and opened.join_tries < JOIN_TRIES_MAX:
            self._join_later(now, opened.address, opened.join_tries)
        else:
            self.shared.effects.append(JoinEnded(opened.address, error))

    def _join_later(self, now: Now, address: Address, tries: int) -> None:
        wait_ns = int((0.5 + self.shared.random.random()) * JOIN_AGAIN_NS)
        self.shared.timers.set((GossipTimer.JOIN_AGAIN, (address, tries + 1)), now.monotonic_ns + wait_ns)

    # Serving.

    def asked(self, now: Now, ticket: int, message: SyncMessage, host: str) -> None:
        shared = self.shared
        teller = self._teller(message, host)
        if not message.wants_answer:
            self._merge(now, message.parts, teller, self._parts_max(teller), FAREWELL_AGE)
            return
        is_crowded = not teller.is_member and not self.merger.newcomers.is_room_left(now)
        if len(self._served) >= SERVED_MAX or is_crowded:
            shared.tally.syncs_busy += 1
            shared.effects.append(AnswerSync(ticket, None))
            return
        known = shared.roster.by_short.get(teller.sender)
        if teller.is_member and known is not None:
            self._hear_clock(now, known.profile.address, message)
        advice = self._advice(now, message)
        self._merge(now, message.parts, teller, self._parts_max(teller))
        shared.tally.syncs_served += 1
        digest = shared.digest()
        if digest == message.digest:
            answer = SyncMessage(digest, wall_ms=now.wall_ms)
        else:
            self._served[ticket] = teller, host
            shared.timers.set((GossipTimer.SYNC_LIMIT, (ticket, False)), now.monotonic_ns + LIMIT_NS)
            parts = (self._my_part(), *(_part(now, member) for member in shared.roster.members.values()))
            answer = SyncMessage(digest, parts, wall_ms=now.wall_ms, use_generation=advice)
        shared.effects.append(AnswerSync(ticket, answer))

    def closed(self, now: Now, ticket: int, message: SyncMessage) -> None:
        served = self._end_served(ticket)
        if served is not None:
            teller, host = served
            if not teller.is_member:  # it may have answered our ping meanwhile
                teller = self._known_at(teller.sender, host)
            known = self.shared.roster.by_short.get(teller.sender)
            if teller.is_member and known is not None:
                self._hear_clock(now, known.profile.address, message)
            self._merge(now, message.parts, teller, self._parts_max(teller))
            self._compared()

    def broken(self, ticket: int) -> None:
        """The stream went away before its last turn, or that was longer than a stranger's may be."""
        served = self._end_served(ticket)
        if served is not None:
            self.merger.newcomers.has_more(served[0].sender)

    def overdue(self, now: Now, ticket: int, *, is_ours: bool) -> None:
        """The rim owes us a report; a place is not kept for it for ever."""
        if is_ours:
            self.failed(now, ticket, "no answer in time")
        else:
            self._end_served(ticket)

    def _end_served(self, ticket: int) -> tuple[Source, str] | None:
        self.shared.timers.cancel((GossipTimer.SYNC_LIMIT, (ticket, False)))
        return self._served.pop(ticket, None)

    def _teller(self, message: SyncMessage, host: str) -> Source:
        """Its own record comes first. An id can be made up; where a stream comes from cannot."""
        told = self._decoded(message.parts[0].alive) if message.parts else None
        return self._known_at(told.subject, host) if isinstance(told, Alive) else FROM_STRANGER

    def _known_at(self, short: bytes, host: str) -> Source:
        member = self.shared.roster.by_short.get(short)
        is_member = member is not None and member.profile.address.host == host
        return Source(None, short, is_member)

    # Clocks.

    def _generations_in(self, message: SyncMessage) -> Iterable[int]:
        """Of those that the teller says are there, as far as it takes to know what most have."""
        for part in message.parts[:GENERATIONS_SAMPLED]:
            told = self._decoded(part.alive)
            if isinstance(told, Alive) and not part.verdict:
                yield told.standing.generation

    def _hear_clock(self, now: Now, address: Address, message: SyncMessage) -> None:
        """Before the roster that comes with it, so that who lost its date believes the others'."""
        shared = self.shared
        if not message.wall_ms:
            return
        shared.clocks.hear(now, address, message.wall_ms, address.host)
        ahead_ms = shared.clocks.ahead_ms(now)
        if abs(ahead_ms - self._told_ahead_ms) >= CLOCK_TOLD_MS:
            self._told_ahead_ms = ahead_ms
            shared.effects.append(ClockCompared(ahead_ms, shared.clocks.others))

    def _advice(self, now: Now, message: SyncMessage) -> int:
        """What a joiner whose generation is days ahead of us should use instead; 0 when there is nothing
        wrong."""
        for part in message.parts[:1]:
            told = self._decoded(part.alive)
            if isinstance(told, Alive) and self.merger.is_wild(now, told.subject, told.standing.generation):
                known = self.shared.roster.by_short.get(told.subject)
                date_ms = self.shared.clocks.date_ms(now)
                return max(date_ms, known.standing.generation + 1 if known else 0)
        return 0

    def _follow_advice(self, now: Now, generation: int) -> None:
        """A generation must not go back under those who know it. So it is taken while nobody has let me in,
        and later only if it is days ahead: then those who did believe it from me alone (`ClaimMerger`)."""
        shared = self.shared
        if not generation or generation >= shared.me.generation:
            return
        is_clock_odd = shared.clocks.ahead_ms(now) > GENERATION_AHEAD_MS_MAX
        is_odd = is_clock_odd or shared.clocks.is_ahead(now, shared.me.generation)
        if is_odd or not shared.roster.present:
            shared.me.use_generation(generation)
            shared.effects.append(GenerationAdvised(generation))
            self.merger.publish_me(now)
        elif self._other_dates_left:
            self._other_dates_left -= 1
            shared.timers.set((GossipTimer.SYNC, None), now.monotonic_ns + OTHER_DATES_NS)

    # Parts.

    def _my_part(self) -> SyncPart:
        return SyncPart(self.shared.me.alive.encoded)

    def _newer_than(self, told: dict[bytes, Standing], now: Now) -> Iterable[SyncPart]:
        me = self.shared.me
        if told.get(me.short, _NOTHING) < me.standing:
            yield self._my_part()
        for member in self.shared.roster.members.values():
            if told.get(member.short, _NOTHING) < member.standing:
                yield _part(now, member)

    def _merge(
        self, now: Now, parts: tuple[SyncPart, ...], teller: Source, parts_max: int, age: int = ages.UNKNOWN
    ) -> dict[bytes, Standing]:
        """What they believe, by subject; whatever of it is news to us is taken, and told on unless we are
        new."""
        told: dict[bytes, Standing] = {}
        shared = self.shared
        is_told_on = len(parts) < NEWCOMER_SHARE * (len(shared.roster) + 1)
        source = teller._replace(telling=Telling(is_sync=True, age=age, is_told_on=is_told_on))
        try:
            for part in parts[:parts_max]:
                self._take_part(now, part, source, told)
        finally:
            self.shared.take_corrections()
        if len(parts) > parts_max:
            shared.tally.drop("sync too long" if teller.is_member else "sync of a stranger")
            self.merger.newcomers.has_more(teller.sender)
        return told

    def _parts_max(self, teller: Source) -> int:
        """Nobody in our cluster knows many times what we know, unless most of it is made up; and what it grew
        by meanwhile comes with the next exchanges."""
        if not teller.is_member:
            return STRANGERS_PARTS_MAX
        grown = GROWN_PARTS + GROWN_SHARE * len(self.shared.roster)
        return min(self.shared.settings.members_max, grown)

    def _take_part(self, now: Now, part: SyncPart, source: Source, told: dict[bytes, Standing]) -> None:
        alive = self._decoded(part.alive)
        if not isinstance(alive, Alive):
            return
        verdict = self._decoded(part.verdict) if part.verdict else None
        if not isinstance(verdict, Suspect | Dead | Left) or verdict.subject != alive.subject:
            verdict = None
        for encoded in (part.alive, part.verdict):
            self.shared.knows(now, encoded)
        told[alive.subject] = max(alive.standing, verdict.standing) if verdict else alive.standing
        self.merger.introduce(now, alive, verdict, part.age_s, source)

    def _decoded(self, encoded: bytes) -> object:
        try:
            return self.shared.claims.decode(encoded)
        except BadEncoding:
            self.shared.tally.drop("bad claim")
            return None

    def _compared(self) -> None:
        if self.shared.guard.awaits_comparison:
            self.shared.effects.append(ComparedAgain())
        self.shared.guard.compared()


def _part(now: Now, member: Member) -> SyncPart:
    if member.verdict is None:
        return SyncPart(member.alive.encoded)
    age_s = (now.monotonic_ns - member.changed_ns) // SECOND
    return SyncPart(member.alive.encoded, member.verdict.encoded, age_s)


_NOTHING = Standing(-1, 0, 0, 0)
