"""The catalog on every host: what each owner publishes, brought to everybody, without consensus.

An owner's changes ride on gossip; whoever hears one for the first time shows it and tells it on. Everybody
knows from a digest whether it has all of an owner, and from eight bytes whether others have what it has;
what is missing is handed over in exchanges between two. No owner is written by anybody else.

    publisher, renew            this host's own items       hear, root_heard    what gossip brought
    publish_store               what the store has, on a server
    joined, member_failed, member_left  what membership says  asked, answered     calls between members
    tick, deadline, take_effects

Nothing here knows what items mean. Time comes with each call; what is to be done is in `take_effects`.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from adsum.catalog.replication import bodies
from adsum.catalog.replication.bodies import OwnerStanding
from adsum.catalog.replication.confirming import Confirming
from adsum.catalog.replication.deltas import PUSH_BYTES_MAX, Delta
from adsum.catalog.replication.effects import AskingPart, CarryThis, Effect, RootMoved
from adsum.catalog.replication.exchanges import Exchanges
from adsum.catalog.replication.interner import Interner
from adsum.catalog.replication.owner_table import FAILED_NS, OwnerEntry, OwnerTable, ReplicationTimer
from adsum.catalog.replication.publisher import OwnIdentity, Publisher
from adsum.catalog.replication.pulls import Pulls
from adsum.catalog.replication.pushes import Pushes, Urgency
from adsum.catalog.replication.serving import Serving
from adsum.catalog.replication.state import OwnerState
from adsum.catalog.replication.store_doubts import StoreDoubts
from adsum.catalog.replication.store_news import StoreNews
from adsum.catalog.replication.tally import ReplicationTally
from adsum.cbor import BadEncoding
from adsum.clocks import Clocks
from adsum.effects import AskTicket
from adsum.now import Now
from adsum.owners import STORE

LATER = 1 << 63  # than every generation that is over
WAITING_MAX = 256


class WaitingRoom:
    """News of owners that are no members yet: gossip brings a newcomer's services and its introduction in any
    order. A small room, swept now and then; what finds no place in it comes with an exchange."""

    def __init__(self) -> None:
        self._waiting: dict[
            bytes, dict[bytes, tuple[bytes, Delta]]
        ] = {}  # by owner, by payload, with the teller
        self._swept: dict[bytes, None] = {}  # who was here at the last sweep
        self._count = 0

    def add(self, teller: bytes, delta: Delta) -> bool:
        """False when there is no room."""
        if delta.encoded in self._waiting.get(delta.owner, ()):
            return True
        if self._count >= WAITING_MAX:
            return False
        self._waiting.setdefault(delta.owner, {})[delta.encoded] = (teller, delta)
        self._count += 1
        return True

    def take(self, owner: bytes) -> list[tuple[bytes, Delta]]:
        taken = list(self._waiting.pop(owner, {}).values())
        self._count -= len(taken)
        return taken

    def sweep(self) -> None:
        """Who waits for a second sweep will not be introduced: it is reaped, or nobody's."""
        for owner in self._swept:
            self.take(owner)
        self._swept = dict.fromkeys(self._waiting)


class Replication:
    def __init__(
        self,
        now: Now,
        own: OwnIdentity,
        random: Random,
        interner: Interner | None = None,
        clocks: Clocks | None = None,  # those that gossip compares
    ) -> None:
        self.tally = ReplicationTally()
        self._copies = OwnerTable(
            now, own.short, random, interner or Interner(), self.tally, clocks or Clocks()
        )
        self.publisher = Publisher(own, self.tally, self._copies.timers)
        self._store_pushes = Pushes(self.tally)
        self._exchanges = Exchanges(now, self._copies)
        self._serving = Serving(self._copies)
        self._confirming = Confirming(self._copies, self._exchanges)
        self._pulls = Pulls(self._copies)
        self._doubts = StoreDoubts(self._copies)
        self._waiting = WaitingRoom()
        self._told_root = 0
        self._copies.show_mine(now, self.publisher.state)

    # What others may look at.

    def owners(self) -> dict[bytes, OwnerEntry]:
        """Every member, with me; those without a state have told us nothing yet."""
        return self._copies.holdings

    def state(self, owner: bytes) -> OwnerState | None:
        return self._copies.state(owner)

    def confirmed_ns(self, owner: bytes) -> int | None:
        """When we last knew to have all of an owner: by its own digest, or because a partner had no more."""
        holding = self._copies.holdings.get(owner)
        if holding is None or holding.state is None or holding.confirmed_ns < 0:
            return None
        is_complete = holding.state.is_complete
        return max(holding.confirmed_ns, self._exchanges.agreed_ns if is_complete else -1)

    @property
    def agreed_ns(self) -> int | None:
        """When we last had all that a partner had."""
        return self._exchanges.agreed_ns if self._exchanges.agreed_ns >= 0 else None

    @property
    def is_settled_in(self) -> bool:
        """There was an exchange since the start, or since the last pause."""
        return self._exchanges.is_settled_in

    def behind_ns(self, now: Now) -> int:
        """How old our copy of others may be; nought while it is as others have it, or there are none."""
        return self._exchanges.behind_ns(now)

    @property
    def root(self) -> bytes:
        return self._copies.root.packed

    # My own.

    def renew(self, now: Now, generation: int) -> None:
        """I am somebody else from now on, with all that I published."""
        self.publisher.renew(now.monotonic_ns, generation)
        self._copies.show_mine(now, self.publisher.state)

    # The store's, on a server.

    def publish_store(self, now: Now, news: StoreNews) -> None:
        """As the state machine here has it. From now on nothing is heard of the store from others: what this
        server has not applied yet, it will."""
        self._copies.show_store(now, news)
        if news.tells:
            for item in news.items:
                self._store_pushes.add(item.number, Urgency.PASSING)
            self._copies.timers.set((ReplicationTimer.PUBLISH, STORE), now.monotonic_ns)

    @property
    def store_told(self) -> tuple[int, int]:
        """The greatest generation and version of the store that anybody was heard to have."""
        return self._copies.store_told

    def _push_store(self, now: Now) -> None:
        state = self._copies.state(STORE)
        if state is None:
            return
        pushes = self._store_pushes.take(now.monotonic_ns, state)
        self._copies.effects += map(_carried, pushes)
        due_ns = self._store_pushes.due_ns(now.monotonic_ns)
        if due_ns is not None:
            self._copies.timers.set((ReplicationTimer.PUBLISH, STORE), due_ns)

    # What gossip brought.

    def hear(self, now: Now, sender: bytes, payloads: tuple[bytes, ...]) -> None:
        copies, tally = self._copies, self.tally
        recent, holdings = copies.interner.recent, copies.holdings
        for payload in payloads:
            delta = recent.get(payload)
            if delta is None:
                try:
                    delta = copies.interner.delta(payload)
                except BadEncoding:
                    tally.drop("malformed")
                    continue
            holding = holdings.get(delta.owner) or copies.entry(delta.owner)
            if holding is None:
                if not self._waiting.add(sender, delta):
                    tally.drop("unknown owner")
                continue
            state = holding.state
            if state is None or delta.version > state.low_water or delta.generation != state.generation:
                self._hear_news(now, sender, holding, delta)
            else:
                tally.known += 1

    def _hear_news(self, now: Now, sender: bytes, holding: OwnerEntry, delta: Delta) -> None:
        if delta.through is not None or len(delta.encoded) > PUSH_BYTES_MAX:
            self.tally.drop("range in a push")
            return
        told = delta.generation, delta.version
        if delta.owner == STORE and self._copies.is_in_doubt(now, sender, *told):
            if not self._waiting.add(sender, delta):
                self.tally.drop("in doubt")
            return
        is_news = self._copies.hear(now, sender, holding, delta, is_push=True)
        if delta.notices and holding is not self._copies.own_holding:
            self._pulls.notice(now, sender, delta)
        elif is_news:
            self._copies.effects.append(_carried(delta, is_heard=True))
        if is_news:
            self.tally.news += 1
        else:
            self.tally.known += 1

    def root_heard(self, now: Now, sender: bytes, root: bytes) -> None:
        self._exchanges.root_heard(now, sender, root)

    def compare_anew(self, now: Now, *, wait_ns: int = 0) -> None:
        """With anybody, after a pause: what is known and what is under way may be as old as that."""
        self._exchanges.begin_anew(now, wait_ns)

    # What membership says.

    def joined(self, now: Now, member: bytes, generation: int = LATER) -> None:
        """It is present, and was not known to be; in this generation, whether it was thought over or not."""
        holding = self._copies.admit(member, generation)
        if holding is None:
            return
        self._exchanges.present_now(now, holding)
        for teller, delta in self._waiting.take(member):
            self._hear_news(now, teller, holding, delta)

    def servers_changed(
        self, now: Now, servers: Iterable[bytes], *, is_one: bool = False, leader: bytes = b""
    ) -> None:
        """Those that are present, and who leads them; is this agent one? While there is none, nobody can have
        heard anything new of the store, and its copy stands, as long as that of an agent that failed."""
        word = self._copies.store_word
        was_present, word.servers = word.is_present, frozenset(servers)
        had_leader, word.leader = word.leader, leader
        if leader != had_leader:
            self._exchanges.tell_leader_soon(now)
        word.is_present = is_one or bool(word.servers)
        if word.is_present and not was_present:
            if STORE in self._copies.holdings:
                self._copies.admit(STORE, 0)  # if nothing is new, nobody tells anything of it
            self._hear_of_store(now)
        elif was_present and not word.is_present:
            self._copies.failed(now, STORE)
        if word.doubted:
            self._copies.ask_about_store(now)

    def _hear_of_store(self, now: Now) -> None:
        """What waited for a server, or for its word."""
        for teller, delta in self._waiting.take(STORE):
            holding = self._copies.entry(STORE)
            if holding is not None:
                self._hear_news(now, teller, holding, delta)

    def _take_up_store(self, now: Now, server: bytes, theirs: OwnerStanding) -> None:
        """The news that waited was the beginning of this generation, or else it is fetched."""
        holding = self._copies.entry(STORE)
        front = holding.front if holding is not None else None
        known = (front.generation, front.low_water) if front is not None else (0, 0)
        if known >= (theirs.generation, theirs.low_water):
            self._exchanges.look_again(now)
        else:
            self._exchanges.fetch_store(now, server, theirs)

    def _end_doubt(self, now: Now) -> None:
        word, waiting = self._copies.store_word, self._waiting.take(STORE)
        for teller, delta in waiting:
            holding = self._copies.entry(STORE)
            if holding is not None and word.counts(teller, delta.generation):
                self._hear_news(now, teller, holding, delta)
            else:
                self.tally.drop("in doubt")

    def recall(self, now: Now, owner: bytes, spans: tuple[bytes, ...]) -> None:
        """What this agent's last run knew of a member that has just joined; it may know better since."""
        holding = self._copies.holdings.get(owner)
        if holding is None or holding.state is not None:
            return
        for encoded in spans:
            try:
                delta = self._copies.interner.delta(encoded)
            except BadEncoding:
                self.tally.drop("malformed")
                return
            if delta.owner == owner:
                self._copies.hear(now, owner, holding, delta, is_push=False)

    def recall_store(self, now: Now, told: Delta, age_ns: int) -> None:
        """What this agent's last run knew of it. It had that from a server, and the last one was there so
        long ago."""
        copies = self._copies
        is_over = age_ns >= FAILED_NS and not copies.store_word.is_present
        if told.owner != STORE or copies.publishes_store or is_over:
            return
        copies.store_word.named = max(copies.store_word.named, told.generation)
        holding = copies.admit(STORE, 0)
        if holding is not None and holding.state is None:
            copies.hear(now, STORE, holding, told, is_push=False)
        if not copies.store_word.is_present:
            copies.failed(now._replace(monotonic_ns=now.monotonic_ns - age_ns), STORE)

    def store_gone_ns(self) -> int | None:
        """Since when no server is there; what was recalled counts from its own time."""
        return self._copies.gone_ns(STORE)

    def member_failed(self, now: Now, member: bytes) -> None:
        self._exchanges.absent_now(member)
        self._copies.failed(now, member)

    def member_left(self, now: Now, member: bytes, over: int) -> None:
        """What it published in generations up to this one is not taken any more, should it return."""
        self._exchanges.absent_now(member)
        self._copies.left(now, member, over)

    # Calls.

    def asked(self, now: Now, sender: bytes, method: str, body: bytes) -> bytes:
        if method in (bodies.COMPARE, bodies.CONFIRM, bodies.FETCH):
            return self._serving.asked(now, sender, method, body)
        if method == bodies.ITEMS:
            return self._pulls.asked(body)
        self.tally.drop("unknown method")
        return bodies.REFUSED

    def answered(self, now: Now, ticket: AskTicket, body: bytes | None) -> None:
        """None: the call failed."""
        match ticket.asker:
            case AskingPart.CONFIRMING:
                self._confirming.answered(now, ticket.number, body)
            case AskingPart.PULLS:
                notice = self._pulls.answered(now, ticket.number, body)
                if notice is not None:
                    self._copies.effects.append(_carried(notice, is_heard=True))
            case AskingPart.DOUBTS:
                named = self._doubts.answered(now, ticket.number, body)
                if not self._copies.store_word.doubted:  # also if another server has named it meanwhile
                    self._hear_of_store(now)
                if named is not None:
                    self._take_up_store(now, *named)
            case AskingPart.EXCHANGES:
                self._exchanges.answered(now, ticket.number, body)

    def confirm(self, now: Now, request: int) -> None:
        """Compares our copy with two members; `Confirmed` follows when we have all that they have now."""
        self._confirming.confirm(now, request)

    # Time.

    def deadline(self) -> int | None:
        return self._copies.timers.earliest()

    def tick(self, now: Now) -> None:
        for timer in self._copies.timers.take_due(now.monotonic_ns):
            match timer:
                case ReplicationTimer.PUBLISH, bytes():
                    self._push_store(now)
                case ReplicationTimer.PUBLISH, _:
                    pushes = self.publisher.flush(now.monotonic_ns)
                    self._copies.show_mine(now, self.publisher.state)
                    self._copies.effects += map(_carried, pushes)
                case ReplicationTimer.ASIDE, bytes(owner):
                    self._copies.end_aside(now, owner)
                case ReplicationTimer.COLLECT, bytes(owner):
                    self._copies.collect(now, owner)
                case ReplicationTimer.REAP, _:
                    self._copies.reap(now)
                    self._waiting.sweep()
                    self.publisher.collect(now.monotonic_ns)
                    self._copies.show_mine(now, self.publisher.state)
                case ReplicationTimer.FULL, _:
                    self._exchanges.full(now)
                case ReplicationTimer.LIMIT, _:
                    self._exchanges.overdue(now)
                case ReplicationTimer.TELL, _:
                    self._exchanges.tell_leader(now)
                case ReplicationTimer.CONFIRM, _:
                    self._confirming.tick(now)
                case ReplicationTimer.DOUBT, _:
                    if self._doubts.tick(now):
                        self._end_doubt(now)
                case ReplicationTimer.PULL, (bytes(owner), int(number)):
                    self._pulls.ask((owner, number))

    def take_effects(self) -> list[Effect]:
        copies = self._copies
        if copies.root.total != self._told_root:
            self._told_root = copies.root.total
            copies.effects.append(RootMoved(copies.root.packed))
        effects, copies.effects = copies.effects, []
        return effects


def _carried(delta: Delta, *, is_heard: bool = False) -> CarryThis:
    return CarryThis(delta.key, delta.encoded, delta.is_urgent, is_heard)
