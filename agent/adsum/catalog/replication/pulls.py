"""Items too big to be pushed: their notice names them, and the body is fetched from whoever told the notice.

The notice is told on only when the body is here, so whoever tells it has it: bodies spread as a tree
does, not from one owner to a thousand. One question at a time for an item, after a short random wait. What
cannot be had that way comes with an exchange.
"""

from __future__ import annotations

from adsum.catalog.replication import bodies
from adsum.catalog.replication.bodies import Busy, Ranges
from adsum.catalog.replication.deltas import Delta, push
from adsum.catalog.replication.effects import AskingPart, AskPeer
from adsum.catalog.replication.items import Item
from adsum.catalog.replication.owner_table import OwnerTable, ReplicationTimer
from adsum.cbor import BadEncoding
from adsum.effects import AskTicket
from adsum.now import MILLISECOND, Now

PULLS_MAX = 64
JITTER_NS = 200 * MILLISECOND


Pull = tuple[Delta, bytes]  # the notice, and who told it


class Pulls:
    def __init__(self, copies: OwnerTable) -> None:
        self.copies = copies
        self._pulls: dict[tuple[bytes, int], Pull] = {}  # by owner and number
        self._asked: dict[int, Pull] = {}  # by the number of the question that is out
        self._questions = 0

    def notice(self, now: Now, teller: bytes, delta: Delta) -> None:
        key = (delta.owner, delta.notices[0][0])
        if key in self._pulls or not self._lacks(delta):
            return
        if len(self._pulls) >= PULLS_MAX:
            self.copies.tally.pulls_refused += 1
            return
        self._pulls[key] = delta, teller
        wait_ns = int(self.copies.random.random() * JITTER_NS)
        self.copies.timers.set((ReplicationTimer.PULL, key), now.monotonic_ns + wait_ns)

    def ask(self, key: tuple[bytes, int]) -> None:
        notice, teller = self._pulls[key]
        if not self._lacks(notice):
            del self._pulls[key]
            return
        self._questions += 1
        self._asked[self._questions] = notice, teller
        numbers = [number for number, _ in notice.notices]
        body = bodies.items(notice.owner, notice.generation, numbers[: bodies.ITEMS_MAX])
        self.copies.tally.pulls += 1
        ticket = AskTicket(AskingPart.PULLS, self._questions)
        self.copies.effects.append(AskPeer(ticket, teller, bodies.ITEMS, body))

    def answered(self, now: Now, number: int, body: bytes | None) -> Delta | None:
        """The notice to tell on, when it has its bodies now."""
        pull = self._asked.pop(number, None)
        if pull is None:
            self.copies.tally.drop("not asked for")
            return None
        notice, teller = pull
        del self._pulls[notice.owner, notice.notices[0][0]]
        try:
            if body is not None and self._take(now, notice, teller, bodies.read_fetched(body)):
                return notice
        except BadEncoding:
            self.copies.tally.drop("malformed")
        except Busy:
            pass
        self.copies.tally.pulls_failed += 1
        return None

    def asked(self, body: bytes) -> bytes:
        try:
            owner, generation, numbers = bodies.read_items(body)
        except BadEncoding:
            self.copies.tally.drop("malformed")
            return bodies.REFUSED
        state = self.copies.state(owner)
        if state is None or state.generation != generation:
            return bodies.fetched([])
        found = [state.items[number] for number in numbers if number in state.items]
        pushes = [push(owner, generation, state.version, state.claimed, [item]) for item in _fitting(found)]
        answer = bodies.fetched(pushes)
        self.copies.tally.answered_bytes += len(answer)
        return answer

    def _take(self, now: Now, notice: Delta, teller: bytes, pushes: Ranges) -> bool:
        for encoded in pushes:
            delta = self.copies.interner.delta(encoded)
            holding = self.copies.holdings.get(notice.owner)
            if holding is not None and delta.owner == holding.owner and delta.through is None:
                self.copies.hear(now, teller, holding, delta, is_push=False)
        return not self._lacks(notice)

    def _lacks(self, notice: Delta) -> bool:
        holding = self.copies.holdings.get(notice.owner)
        if holding is None:
            return False
        state = holding.front
        if state is None or state.generation != notice.generation:
            return state is None or state.generation < notice.generation
        return any(
            version > state.low_water and (number not in state.items or state.items[number].version < version)
            for number, version in notice.notices
        )


def _fitting(items: list[Item]) -> list[Item]:
    """One at least; the rest of a crowd is left to an exchange."""
    room_bytes, fitting = bodies.FRAME_BYTES, list[Item]()
    for item in items:
        room_bytes -= len(item.value or b"")
        if room_bytes < 0 and fitting:
            break
        fitting.append(item)
    return fitting
