"""Proof on demand, for `?consistent`: what two members have when we ask, we have when we answer.

A round asks two that are present, one of them a server if there is one, where they are with every owner, and
fetches what we lack. While roots are equal that is one question of a kilobyte to each. Requests that come
while a round runs wait for the next one: what was compared before they came proves nothing to them. Whoever
does not answer, or has no time, is replaced by another; after two seconds the round has failed.

Any member proves what agents publish, and only a server what the store does: without one that copy stands as
it is.
"""

from __future__ import annotations

from adsum.catalog.replication import bodies
from adsum.catalog.replication.bodies import Busy, OwnerStanding, Ranges
from adsum.catalog.replication.effects import AskingPart, AskPeer, Confirmed
from adsum.catalog.replication.exchanges import Exchanges, ExchangeSession
from adsum.catalog.replication.handing import positions, still_missing, take
from adsum.catalog.replication.owner_table import OwnerTable, ReplicationTimer
from adsum.cbor import BadEncoding
from adsum.effects import AskTicket
from adsum.now import MILLISECOND, SECOND, Now
from adsum.owners import STORE

PARTNERS = 2
CONFIRM_NS = 2 * SECOND
AGAIN_NS = 200 * MILLISECOND
SLOW_NS = 700 * MILLISECOND  # one that hangs is not yet known to
TURNS_MAX = 64  # with one partner: at 64 KB each, the catalog of a big cluster
WAITING_MAX = 10_000

NOT_COMPARED = (
    "This agent could not compare its copy of the catalog with that of others within 2 s; "
    "without ?consistent it answers with what it knows."
)
TOO_MANY = f"{WAITING_MAX} requests wait for a comparison of the catalog already; try again shortly."


class Confirming:
    def __init__(self, copies: OwnerTable, exchanges: Exchanges) -> None:
        self._copies = copies
        self._exchanges = exchanges
        self._waiting: list[int] = []  # for the next round
        self._served: list[int] = []  # by the one that runs
        self._talks: dict[int, ExchangeSession] = {}  # by the number of the question that is out
        self._tried: dict[bytes, None] = {}
        self._proofs: dict[bytes, None] = {}  # whoever has nothing that we lack
        self._missing = 0  # proofs that this round still needs
        self._again: list[int] = []  # times at which another partner is asked
        self._end_ns = 0
        self._asked = 0  # questions, by which they are told apart

    def confirm(self, now: Now, request: int) -> None:
        if len(self._waiting) >= WAITING_MAX:
            self._tell([request], TOO_MANY)
            return
        self._waiting.append(request)
        if not self._served:
            self._begin(now)

    def _begin(self, now: Now) -> None:
        self._served, self._waiting = self._waiting, []
        self._end_ns = now.monotonic_ns + CONFIRM_NS
        self._tried.clear()
        self._proofs.clear()
        self._missing = min(PARTNERS, len(self._exchanges.present))
        if not self._missing:  # alone: nobody knows better
            self._finish(now, "")
            return
        for _ in range(self._missing):
            self._ask_another()
            self._again.append(now.monotonic_ns + SLOW_NS)
        self._set_timer()

    def tick(self, now: Now) -> None:
        if now.monotonic_ns >= self._end_ns:
            self._copies.tally.confirmations_failed += 1
            self._finish(now, NOT_COMPARED)
            return
        due = [each for each in self._again if each <= now.monotonic_ns]
        self._again = [each for each in self._again if each > now.monotonic_ns]
        for _ in due:
            self._ask_another()
        self._set_timer()

    # Whom.

    def _ask_another(self) -> None:
        done = self._proofs | {session.partner: None for session in self._talks.values()}
        free = [each.owner for each in self._exchanges.present if each.owner not in done]
        fresh = [each for each in free if each not in self._tried] or free
        known = self._copies.store_word.servers
        servers = [each for each in fresh if each in known]
        has_server = any(each in known for each in self._tried)
        candidates = servers if servers and not has_server else fresh
        if not candidates:
            return  # they have left meanwhile; the time limit ends it
        partner = candidates[int(self._copies.random.random() * len(candidates))]
        self._tried[partner] = None
        self._compare(ExchangeSession(partner, is_full=True))

    def _compare(self, session: ExchangeSession) -> None:
        self._ask(session, bodies.CONFIRM, bodies.compare(session.turns, self._copies.root.pack_words()))

    def _ask(self, session: ExchangeSession, method: str, body: bytes) -> None:
        self._asked += 1
        session.turns += 1
        self._talks[self._asked] = session
        self._copies.tally.asked_bytes += len(body)
        ticket = AskTicket(AskingPart.CONFIRMING, self._asked)
        self._copies.effects.append(AskPeer(ticket, session.partner, method, body))

    # What they say.

    def answered(self, now: Now, number: int, body: bytes | None) -> None:
        session = self._talks.pop(number, None)
        if session is None:
            return  # of a round that is over
        try:
            if body is None:
                self._lost(now)
            elif session.wants:
                self._fetched(now, session, bodies.read_fetched(body))
            else:
                standings, session.is_more = bodies.read_compared(body)
                self._compared(now, session, standings)
        except Busy:
            self._lost(now)
        except BadEncoding:
            self._copies.tally.drop("malformed")
            self._lost(now)

    def _compared(self, now: Now, session: ExchangeSession, standings: list[OwnerStanding]) -> None:
        for standing in standings:
            if standing.owner != STORE or session.partner in self._copies.store_word.servers:
                self._exchanges.weigh(now, session, standing)
        session.gives.clear()  # the regular exchanges are for that
        self._go_on(now, session)

    def _fetched(self, now: Now, session: ExchangeSession, ranges: Ranges) -> None:
        changed = take(self._copies, now, session.partner, ranges)
        session.wants = still_missing(self._copies, session.wants)
        if session.wants and not changed:
            self._lost(now)
        else:
            self._go_on(now, session)

    def _go_on(self, now: Now, session: ExchangeSession) -> None:
        if session.turns >= TURNS_MAX:
            self._lost(now)
        elif session.wants:
            self._ask(session, bodies.FETCH, bodies.fetch(positions(self._copies, session.wants), []))
        elif session.is_more:
            self._compare(session)
        else:
            self._proofs[session.partner] = None
            self._missing -= 1
            if not self._missing:
                self._exchanges.agreed_ns = now.monotonic_ns
                self._finish(now, "")

    def _lost(self, now: Now) -> None:
        self._again.append(now.monotonic_ns + AGAIN_NS)
        self._set_timer()

    def _finish(self, now: Now, error: str) -> None:
        self._copies.tally.confirmations += 1
        self._tell(self._served, error)
        self._served = []
        self._talks.clear()
        self._again.clear()
        self._copies.timers.cancel((ReplicationTimer.CONFIRM, None))
        if self._waiting:
            self._begin(now)

    def _tell(self, requests: list[int], error: str) -> None:
        self._copies.effects += [Confirmed(request, error) for request in requests]

    def _set_timer(self) -> None:
        self._copies.timers.set((ReplicationTimer.CONFIRM, None), min((self._end_ns, *self._again)))
