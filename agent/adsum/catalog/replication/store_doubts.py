"""Doubts about the store, settled by asking servers.

Two of them are asked where they are with the store, one after the other, or the only one that there is: one
may be behind, and whichever names the generation has settled it. Who does not answer, or has no time, is
asked again or replaced. What those two do not know is dropped; the leader, to whom whoever has it tells it,
outdoes it.
"""

from __future__ import annotations

from adsum.catalog.replication import bodies
from adsum.catalog.replication.bodies import Busy, OwnerStanding
from adsum.catalog.replication.effects import AskingPart, AskPeer
from adsum.catalog.replication.owner_table import OwnerTable, ReplicationTimer
from adsum.cbor import BadEncoding
from adsum.effects import AskTicket
from adsum.now import MILLISECOND, SECOND, Now
from adsum.owners import STORE

SERVERS = 2
DOUBT_NS = 10 * SECOND  # it arises again, if somebody still tells of it
ANSWER_NS = 700 * MILLISECOND  # one that hangs is not yet known to
AGAIN_NS = 200 * MILLISECOND


class StoreDoubts:
    def __init__(self, copies: OwnerTable) -> None:
        self._copies = copies
        # The server, by the number of the question: each that is out, for one that is slow may answer yet.
        self._asked: dict[int, bytes] = {}
        self._questions = 0
        self._denied_by: dict[bytes, None] = {}
        self._end_ns = 0  # of the doubt that is being settled

    def tick(self, now: Now) -> bool:
        """Whether it ends here: a server told of it by itself, or nobody is left to be asked."""
        word = self._copies.store_word
        if word.named >= word.doubted:
            word.doubted = 0
            self._close()
            return True
        self._end_ns = self._end_ns or now.monotonic_ns + DOUBT_NS
        left = [server for server in sorted(word.servers) if server not in self._denied_by]
        if not left or len(self._denied_by) == SERVERS or now.monotonic_ns >= self._end_ns:
            word.denied(now)
            self._close()
            return True
        server = left[int(self._copies.random.random() * len(left))]
        self._questions += 1
        self._asked[self._questions] = server
        body = bodies.compare(0, self._copies.root.pack_words())
        self._copies.tally.asked_bytes += len(body)
        ticket = AskTicket(AskingPart.DOUBTS, self._questions)
        self._copies.effects.append(AskPeer(ticket, server, bodies.CONFIRM, body))
        self._again_after(now, ANSWER_NS)
        return False

    def answered(self, now: Now, number: int, body: bytes | None) -> tuple[bytes, OwnerStanding] | None:
        """The server that named a generation that none had named, and where it is with it."""
        server = self._asked.pop(number, None)
        if server is None:
            return None  # of a question that was given up
        word, named = self._copies.store_word, self._copies.store_word.named
        try:
            standings, is_cut = bodies.read_compared(body) if body is not None else ([], True)
        except BadEncoding:
            self._copies.tally.drop("malformed")
            standings, is_cut = [], True
        except Busy:
            standings, is_cut = [], True
        theirs = next((each for each in standings if each.owner == STORE), None)
        if theirs is not None:
            word.counts(server, theirs.generation)
        elif is_cut:  # nothing was said of it
            self._again_after(now, AGAIN_NS)
            return None
        if word.named >= word.doubted:
            word.doubted = 0
            self._close()
        else:
            self._denied_by[server] = None
            self._again_after(now, 0)
        return (server, theirs) if theirs is not None and word.named > named else None

    def _again_after(self, now: Now, wait_ns: int) -> None:
        self._copies.timers.set((ReplicationTimer.DOUBT, STORE), now.monotonic_ns + wait_ns)

    def _close(self) -> None:
        self._copies.timers.cancel((ReplicationTimer.DOUBT, STORE))
        self._asked.clear()
        self._denied_by.clear()
        self._end_ns = 0
