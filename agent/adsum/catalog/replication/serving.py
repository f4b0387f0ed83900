"""Exchanges that others begin: they are compared with, and given what they lack.

Two a second, for each may cost megabytes; who is turned away asks somebody else. Whoever was let in may go
on fetching for a minute. Requests that want a proof (see `confirming`) are let in more often as long as there
is little to tell them: fifty a second, each for the two seconds that a proof may take. Beyond that whoever
lacks nothing but the store is told where it is all the same, and fetches it elsewhere: when a generation of
it begins, all agents ask at once."""

from __future__ import annotations

from adsum.catalog.replication import bodies
from adsum.catalog.replication.bodies import FRAME_BYTES, STANDINGS_MAX, OwnerStanding, Ranges
from adsum.catalog.replication.handing import in_order, span_for, standing_of, take
from adsum.catalog.replication.owner_table import OwnerTable
from adsum.cbor import BadEncoding
from adsum.newest import keep_newest
from adsum.now import MINUTE, SECOND, Now
from adsum.owners import STORE

SERVE_EVERY_NS = SECOND // 2
SERVE_BURST = 2
GUEST_NS = MINUTE
GUESTS_MAX = 64
PROVE_EVERY_NS = SECOND // 50
PROVE_BURST = 50
PROVED_NS = 2 * SECOND
PROVED_MAX = 1_024
PROVED_STANDINGS_MAX = 256  # what differs while a busy catalog changes
STORE_ALONE = frozenset(STORE[:1])  # the place of the root that differs


class Serving:
    def __init__(self, copies: OwnerTable) -> None:
        self._copies = copies
        self._served_ns = 0  # up to when the questions so far are paid for
        self._proved_ns = 0
        self._guests: dict[bytes, int] = {}  # who may go on, and until when
        self._askers: dict[bytes, int] = {}  # the same, for a proof

    def asked(self, now: Now, sender: bytes, method: str, body: bytes) -> bytes:
        try:
            if method in (bodies.COMPARE, bodies.CONFIRM):
                is_proof = method == bodies.CONFIRM
                answer = self._compare(now, sender, *bodies.read_compare(body), is_proof=is_proof)
            else:
                answer = self._fetch(now, sender, *bodies.read_fetch(body))
        except BadEncoding:
            self._copies.tally.drop("malformed")
            answer = bodies.REFUSED
        self._copies.tally.answered_bytes += len(answer)
        return answer

    def _compare(self, now: Now, sender: bytes, turn: int, words: bytes, *, is_proof: bool) -> bytes:
        places = self._copies.root.differing(words)
        if not places:
            return bodies.compared((), is_more=False)
        if is_proof and not self._may_prove(now, sender) and places != STORE_ALONE:
            return bodies.BUSY
        if STORE[0] in places:
            self._copies.entry(STORE)  # also who has nothing of it says so
        holdings = [
            each
            for each in self._copies.holdings.values()
            if each.owner[0] in places and self._copies.counts(each.owner)
        ]
        is_little = is_proof and len(holdings) <= PROVED_STANDINGS_MAX
        if not is_little and not self._has_time(now, sender, turn):
            self._copies.tally.exchanges_refused += 1
            return bodies.BUSY
        is_more = len(holdings) > STANDINGS_MAX
        if is_more:  # not always the same ones, lest some that cannot be mended hide the others
            first = int(self._copies.random.random() * len(holdings))
            holdings = (holdings[first:] + holdings[:first])[:STANDINGS_MAX]
        return bodies.compared((standing_of(now, each) for each in holdings), is_more=is_more)

    def _has_time(self, now: Now, sender: bytes, turn: int) -> bool:
        now_ns = now.monotonic_ns
        if turn and self._guests.get(sender, 0) > now_ns:
            return True
        used_ns = max(self._served_ns, now_ns - SERVE_BURST * SERVE_EVERY_NS)
        if used_ns + SERVE_EVERY_NS > now_ns:
            return False
        self._served_ns = used_ns + SERVE_EVERY_NS
        self._copies.tally.exchanges_served += 1
        keep_newest(self._guests, sender, now_ns + GUEST_NS, GUESTS_MAX)
        return True

    def _may_prove(self, now: Now, sender: bytes) -> bool:
        now_ns = now.monotonic_ns
        used_ns = max(self._proved_ns, now_ns - PROVE_BURST * PROVE_EVERY_NS)
        if used_ns + PROVE_EVERY_NS > now_ns:
            return False
        self._proved_ns = used_ns + PROVE_EVERY_NS
        keep_newest(self._askers, sender, now_ns + PROVED_NS, PROVED_MAX)
        return True

    def _fetch(self, now: Now, sender: bytes, wanted: list[OwnerStanding], given: Ranges) -> bytes:
        if max(self._guests.get(sender, 0), self._askers.get(sender, 0)) <= now.monotonic_ns:
            self._copies.tally.exchanges_refused += 1
            return bodies.BUSY
        take(self._copies, now, sender, given)
        ranges, room_bytes = list[bytes](), FRAME_BYTES
        for standing in in_order(self._copies, wanted):
            if room_bytes <= 0:
                break
            encoded, is_all = span_for(self._copies, standing, room_bytes)
            if encoded:
                ranges.append(encoded)
                room_bytes -= len(encoded) if is_all else room_bytes
        return bodies.fetched(ranges)
