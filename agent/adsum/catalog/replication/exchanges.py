"""Repair: two holders compare what they have, and hand over what the other lacks.

Begun when the root of others stays different from ours for longer than a push takes to reach everybody; while
changes never end, roots are never equal, and we look now and then; beyond that once a minute times the scale
of the cluster, and at once when we have just come. What changed in the last moments is left to the pushes.

How soon again: half a second after one that was of use, for then the cluster has been in parts, and each
exchange makes one more holder that others can ask; one and a half while they find only what pushes are
bringing anyway; three after one that found a difference and could not mend it, and up to thirty while that
goes on.

What a partner has not moved by is not given to it twice. Whether a partner took the store is looked at, for
it does not if no server named that generation: then the leader is told next, who begins a later one.

    begin → compare → fetch … fetch → compare … → end
"""

from __future__ import annotations

import math

from adsum.catalog.replication import bodies
from adsum.catalog.replication.bodies import FRAME_BYTES, Busy, OwnerStanding, Ranges
from adsum.catalog.replication.effects import AskingPart, AskPeer
from adsum.catalog.replication.handing import age_of, in_order, mark, positions, span_for, still_missing, take
from adsum.catalog.replication.owner_table import OwnerEntry, OwnerTable, ReplicationTimer
from adsum.catalog.replication.state import OwnerState
from adsum.cbor import BadEncoding
from adsum.effects import AskTicket
from adsum.now import MILLISECOND, MINUTE, SECOND, Now
from adsum.owners import STORE

CONTACT_NS = 1_500 * MILLISECOND  # members hear of each other several times in it; none differed: all equal
SETTLED_NS = 1_200 * MILLISECOND  # a push has reached everybody whom it ever will
UNSETTLED_NS = 2 * SECOND
YOUNG = 2  # halves of a second: the pushes are still under way
BEGIN_EVERY_NS = 3 * SECOND
BEGIN_USEFUL_NS = 500 * MILLISECOND
BEGIN_YOUNG_NS = 1_500 * MILLISECOND
BEGIN_USELESS_NS_MAX = 30 * SECOND
FAILED_AGAIN_NS = 500 * MILLISECOND
FULL_NS = MINUTE
FULL_AGAIN_NS = SECOND
JOIN_WITHIN_NS = 100 * MILLISECOND
SCALE_FROM = 32  # members, up to which a minute is a minute
STORE_AWAITED_NS_MAX = 10 * SECOND
TELL_EVERY_NS = 30 * SECOND  # the leader, who may have no time, or not be able to do anything about it
QUESTION_NS = 2 * SECOND  # who takes longer to answer is not worth waiting for: there are others
TURNS_MAX = 512


class ExchangeSession:
    __slots__ = (
        "given",
        "gives",
        "is_fetching",
        "is_full",
        "is_more",
        "is_store_refused",
        "is_useful",
        "partner",
        "question",
        "turns",
        "wants",
    )

    def __init__(self, partner: bytes, *, is_full: bool) -> None:
        self.partner = partner
        self.is_full = is_full
        self.question = 0  # the number of the one that is out
        self.turns = 0
        self.wants: dict[bytes, OwnerStanding] = {}
        self.gives: dict[bytes, OwnerStanding] = {}
        self.given: dict[bytes, OwnerStanding] = {}  # where the partner was with those that it got
        self.is_fetching = False  # or else comparing
        self.is_more = False
        self.is_store_refused = False
        self.is_useful = False


class Exchanges:
    def __init__(self, now: Now, copies: OwnerTable) -> None:
        self.copies = copies
        self.present: list[OwnerEntry] = []
        self.agreed_ns = -1  # when we last had all that a partner had
        self.session: ExchangeSession | None = None
        self._questions = 0
        self._begun_ns = self._next_ns = now.monotonic_ns
        self._apart_ns = -1  # since when roots differ
        self._heard_ns = -CONTACT_NS
        self._useless = 0  # in a row
        self._moved_root = 0
        self._moved_ns = 0
        self._refused_generation = 0  # of the store, which a partner did not take
        self._told_leader = b""
        self._told_leader_ns = now.monotonic_ns
        # To be settled in, and servers are being asked about it; since when.
        self._lacks_only_store_ns: int | None = None
        self.is_settled_in = False  # we have had an exchange, since the start or the last pause

    # Who could be a partner.

    def present_now(self, now: Now, holding: OwnerEntry) -> None:
        if holding is self.copies.own_holding or holding.place >= 0:
            return
        holding.place = len(self.present)
        self.present.append(holding)
        if not self.is_settled_in and (ReplicationTimer.FULL, None) not in self.copies.timers:
            wait_ns = int(self.copies.random.random() * JOIN_WITHIN_NS)
            self.copies.timers.set((ReplicationTimer.FULL, None), now.monotonic_ns + wait_ns)

    def absent_now(self, owner: bytes) -> None:
        holding = self.copies.holdings.get(owner)
        if holding is None or holding.place < 0:
            return
        last = self.present.pop()
        if last is not holding:
            self.present[holding.place] = last
            last.place = holding.place
        holding.place = -1

    # When.

    def behind_ns(self, now: Now) -> int:
        """How old what we have may be; nought while nobody was heard who has something else."""
        now_ns = now.monotonic_ns
        if not self.present:
            return 0
        if self.agreed_ns < 0:
            return now_ns - self._begun_ns
        if self._apart_ns < 0 or now_ns - self._heard_ns > CONTACT_NS:
            return 0
        return max(0, now_ns - max(self.agreed_ns, self._apart_ns))

    def root_heard(self, now: Now, sender: bytes, root: bytes) -> None:
        now_ns = now.monotonic_ns
        ours = self.copies.root.total
        if root == ours.to_bytes(8, "big"):
            self._apart_ns = -1
            return
        if now_ns - self._heard_ns > CONTACT_NS or self._apart_ns < 0:
            self._apart_ns = now_ns
            self._useless = 0
        self._heard_ns = now_ns
        if ours != self._moved_root:
            self._moved_root, self._moved_ns = ours, now_ns
        if self.session is not None or now_ns < self._next_ns:
            return
        apart_ns = now_ns - self._apart_ns
        is_settled = apart_ns >= SETTLED_NS and now_ns - self._moved_ns >= SETTLED_NS
        if (is_settled or apart_ns >= UNSETTLED_NS) and sender in self.copies.holdings:
            self._begin(now, sender, is_full=False)

    def full(self, now: Now) -> None:
        """The regular one, with anybody."""
        if self.session is not None or not self.present:
            self.copies.timers.set((ReplicationTimer.FULL, None), now.monotonic_ns + FULL_AGAIN_NS)
            return
        partner = self.present[int(self.copies.random.random() * len(self.present))]
        self._begin(now, partner.owner, is_full=True)

    def begin_anew(self, now: Now, wait_ns: int) -> None:
        """After a pause: what we have may be as old as that, and so may answers that are under way."""
        if self.session is not None:
            self._close(now, 0)
        self.is_settled_in, self._lacks_only_store_ns = False, None
        self.copies.timers.set((ReplicationTimer.FULL, None), now.monotonic_ns + wait_ns)

    def look_again(self, now: Now) -> None:
        """What could not be taken can be: whoever is heard next that has something else is asked."""
        self._next_ns, self._useless = now.monotonic_ns, 0

    def fetch_store(self, now: Now, server: bytes, theirs: OwnerStanding) -> None:
        """From the server that has just named it, which lets us in for the next moments."""
        if self.session is not None:
            self.session.is_more = True  # with the partner at hand, who may have it
        elif (
            self.is_settled_in or self._lacks_only_store_ns is not None
        ):  # or else the first exchange is to come
            session = self._open(now, server, is_full=not self.is_settled_in)
            self.weigh(now, session, theirs)
            self._go_on(now, session)

    def _begin(self, now: Now, partner: bytes, *, is_full: bool) -> None:
        self._compare(now, self._open(now, partner, is_full=is_full))

    def _open(self, now: Now, partner: bytes, *, is_full: bool) -> ExchangeSession:
        self.session = ExchangeSession(partner, is_full=is_full)
        self.copies.tally.exchanges_begun += 1
        if is_full:
            members = len(self.present) + 1
            scale = max(1.0, math.log2(members / SCALE_FROM) + 1)
            wait_ns = int(FULL_NS * scale * (0.9 + 0.2 * self.copies.random.random()))
            self.copies.timers.set((ReplicationTimer.FULL, None), now.monotonic_ns + wait_ns)
        return self.session

    # Our questions.

    def _compare(self, now: Now, session: ExchangeSession) -> None:
        self._ask(now, session, bodies.COMPARE, bodies.compare(session.turns, self.copies.root.pack_words()))

    def _ask(self, now: Now, session: ExchangeSession, method: str, body: bytes) -> None:
        self._questions += 1
        session.question = self._questions
        session.is_fetching = method == bodies.FETCH
        session.turns += 1
        self.copies.tally.asked_bytes += len(body)
        self.copies.timers.set((ReplicationTimer.LIMIT, None), now.monotonic_ns + QUESTION_NS)
        ticket = AskTicket(AskingPart.EXCHANGES, session.question)
        self.copies.effects.append(AskPeer(ticket, session.partner, method, body))

    def answered(self, now: Now, number: int, body: bytes | None) -> None:
        session = self.session
        if session is None or session.question != number:
            self.copies.tally.drop("not asked for")
            return
        try:
            if body is None:
                self._fail(now, session)
            elif session.is_fetching:
                self._fetched(now, session, bodies.read_fetched(body))
            else:
                standings, is_more = bodies.read_compared(body)
                self._compared(now, session, standings, is_more=is_more)
        except Busy:
            self.copies.tally.exchanges_busy += 1
            self._fail(now, session)
        except BadEncoding:
            self.copies.tally.drop("malformed")
            self._fail(now, session)

    def overdue(self, now: Now) -> None:
        if self.session is not None:
            self._fail(now, self.session)

    def _compared(
        self, now: Now, session: ExchangeSession, standings: list[OwnerStanding], *, is_more: bool
    ) -> None:
        session.is_more = is_more
        for standing in standings:
            self.weigh(now, session, standing)
        session.is_useful |= STORE in session.given and not session.is_store_refused
        self._go_on(now, session)

    def weigh(self, now: Now, session: ExchangeSession, theirs: OwnerStanding) -> None:
        told = theirs.generation, theirs.low_water
        if theirs.owner == STORE and self.copies.is_in_doubt(now, session.partner, *told):
            return
        holding = self.copies.entry(theirs.owner)
        if holding is None or not self.copies.counts(theirs.owner):
            return  # membership will name it, or has said that it is over
        mine = holding.front
        if mine is None:
            if theirs.low_water or theirs.mark:
                session.wants[theirs.owner] = theirs
        elif holding is self.copies.own_holding:
            self._weigh_mine(now, session, mine, theirs)
        elif (theirs.generation, theirs.mark) != (mine.generation, mark(mine)):
            self._weigh_differing(now, session, holding, mine, theirs)

    def _weigh_mine(
        self, now: Now, session: ExchangeSession, mine: OwnerState, theirs: OwnerStanding
    ) -> None:
        if self.copies.is_wild(now, theirs.generation, mine):
            self.copies.tally.drop("generation ahead")
            return
        told, known = (theirs.generation, theirs.low_water), (mine.generation, mine.version)
        if told > known or (told == known and theirs.mark != mark(mine)):
            self.copies.foreign(session.partner, *told)
        elif told < known:
            _give(session, theirs)

    def _weigh_differing(
        self, now: Now, session: ExchangeSession, holding: OwnerEntry, mine: OwnerState, theirs: OwnerStanding
    ) -> None:
        told, known = (theirs.generation, theirs.low_water), (mine.generation, mine.low_water)
        # One push apart, which may be on its way. Two, or with a gap that shows: one has been missed.
        is_one_step = theirs.generation == mine.generation and abs(theirs.low_water - mine.low_water) <= 1
        may_wait = not session.is_full and is_one_step and mine.is_complete
        if told > known:
            if self.copies.publishes_store and theirs.owner == STORE:
                self.copies.others_have(*told)  # it is not applied here yet, or never will be
            elif not (may_wait and theirs.age < YOUNG):
                session.wants[theirs.owner] = theirs
        elif told < known:
            if not (may_wait and age_of(now, holding) < YOUNG):
                _give(session, theirs)
        elif mine.is_complete and theirs.low_water == mine.version and theirs.age >= YOUNG:
            self.copies.tally.equivocations += 1

    def _go_on(self, now: Now, session: ExchangeSession) -> None:
        if session.turns >= TURNS_MAX:
            self._end(now, session)
        elif session.wants or session.gives:
            self._fetch(now, session)
        elif session.is_more:
            self._compare(now, session)
        else:
            self._end(now, session)

    def _fetch(self, now: Now, session: ExchangeSession) -> None:
        wanted = positions(self.copies, session.wants)
        given, room_bytes = list[bytes](), FRAME_BYTES
        for theirs in in_order(self.copies, session.gives.values()):
            if room_bytes <= 0:
                break
            encoded, is_all = span_for(self.copies, theirs, room_bytes)
            room_bytes -= len(encoded)
            del session.gives[theirs.owner]
            if encoded:
                given.append(encoded)
                session.given[theirs.owner] = theirs
                session.is_more |= not is_all or theirs.owner == STORE
                session.is_useful |= theirs.owner != STORE
        self.copies.tally.owners_given += len(given)
        if wanted or given:
            self._ask(now, session, bodies.FETCH, bodies.fetch(wanted, given))
        else:
            self._go_on(now, session)

    def _fetched(self, now: Now, session: ExchangeSession, ranges: Ranges) -> None:
        """On with what is still missing, unless this turn brought nothing."""
        changed = take(self.copies, now, session.partner, ranges)
        session.is_useful |= bool(changed)
        session.wants = still_missing(self.copies, session.wants) if changed else {}
        self._go_on(now, session)

    def _end(self, now: Now, session: ExchangeSession) -> None:
        copies, now_ns = self.copies, now.monotonic_ns
        copies.tally.exchanges_useful += session.is_useful
        lacks_since_ns = now_ns if self._lacks_only_store_ns is None else self._lacks_only_store_ns
        if self._is_store_awaited(now, now_ns - lacks_since_ns):
            self._lacks_only_store_ns = lacks_since_ns
            copies.timers.set((ReplicationTimer.FULL, None), now_ns + FULL_AGAIN_NS)
        else:
            self.agreed_ns = now_ns
            self.is_settled_in, self._lacks_only_store_ns = True, None
        if session.is_full and not session.is_useful:
            wait_ns = 0
        elif session.is_useful:
            wait_ns, self._useless = BEGIN_USEFUL_NS, 0
        elif now_ns - self._moved_ns < UNSETTLED_NS:
            wait_ns, self._useless = BEGIN_YOUNG_NS, 0
        else:
            wait_ns = min(BEGIN_EVERY_NS << min(self._useless, 4), BEGIN_USELESS_NS_MAX)
            self._useless += 1
        self._close(now, wait_ns)
        if session.is_store_refused:
            self._store_refused(now, session.partner)

    def _is_store_awaited(self, now: Now, awaited_ns: int) -> bool:
        """By who has joined but for that. Servers that have no time let nobody wait for ever."""
        is_asked_about = self.copies.store_word.is_asked_about(now)
        return not self.is_settled_in and is_asked_about and awaited_ns < STORE_AWAITED_NS_MAX

    def _store_refused(self, now: Now, refused_by: bytes) -> None:
        state = self.copies.state(STORE)
        self._refused_generation = state.generation if state is not None else 0
        if refused_by == self.copies.store_word.leader:
            self._note_told(now, refused_by)
        else:
            self.tell_leader_soon(now)

    def _note_told(self, now: Now, leader: bytes) -> None:
        self._told_leader, self._told_leader_ns = leader, now.monotonic_ns

    def tell_leader_soon(self, now: Now) -> None:
        """Unless it was told of late that there is a later generation of the store than is in force."""
        leader, state = self.copies.store_word.leader, self.copies.state(STORE)
        is_told = leader == self._told_leader and now.monotonic_ns - self._told_leader_ns < TELL_EVERY_NS
        if leader and not is_told and state is not None and state.generation == self._refused_generation:
            wait_ns = int(self.copies.random.random() * JOIN_WITHIN_NS)
            self.copies.timers.set((ReplicationTimer.TELL, None), now.monotonic_ns + wait_ns)

    def tell_leader(self, now: Now) -> None:
        """It sees that by comparing."""
        leader = self.copies.store_word.leader
        if self.session is not None:
            self.copies.timers.set((ReplicationTimer.TELL, None), now.monotonic_ns + FULL_AGAIN_NS)
        elif leader in self.copies.store_word.servers:
            self._note_told(now, leader)
            self._begin(now, leader, is_full=False)

    def _fail(self, now: Now, session: ExchangeSession) -> None:
        self.copies.tally.exchanges_failed += 1
        if session.is_full and not self.is_settled_in:
            self.copies.timers.set((ReplicationTimer.FULL, None), now.monotonic_ns + FULL_AGAIN_NS)
        next_ns = self._next_ns  # later, if the leader was to be told meanwhile
        self._close(now, FAILED_AGAIN_NS)
        self._next_ns = max(self._next_ns, next_ns)

    def _close(self, now: Now, wait_ns: int) -> None:
        self.session = None
        self.copies.timers.cancel((ReplicationTimer.LIMIT, None))
        spread = 0.75 + 0.5 * self.copies.random.random()
        self._next_ns = now.monotonic_ns + int(wait_ns * spread)


def _give(session: ExchangeSession, theirs: OwnerStanding) -> None:
    """Unless it was given already and they are where they were."""
    before = session.given.get(theirs.owner)
    if before is None or before._replace(age=theirs.age) != theirs:
        session.gives[theirs.owner] = theirs
    elif theirs.owner == STORE:
        session.is_store_refused = True
