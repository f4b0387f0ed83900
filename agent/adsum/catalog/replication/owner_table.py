"""All owners as this agent has them: the one place where what was heard becomes what is shown.

A newer generation of an owner is built aside, and so is an owner that has to be told from its beginning;
what is shown stays until the new one is complete. A new life gets ten seconds for that and is shown then as
far as it came, for the old one is gone.

Owners come and go with their members: what is said of an owner that is no member is not kept here. Who left
is forgotten at once, who failed after 72 hours; their generations are remembered, and nothing of them opens
again but by a newer one. From half of that time on they are not in the root, so that nobody is told apart
by a clock. The store is an owner and no member: what is heard of it is kept while a server is present, and
after that for as long as what a failed member published.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable
from random import Random

from adsum.catalog.replication.deltas import Delta
from adsum.catalog.replication.effects import Effect, ForeignNews, OwnerChanged
from adsum.catalog.replication.interner import Interner
from adsum.catalog.replication.items import Item
from adsum.catalog.replication.root import Root
from adsum.catalog.replication.state import OwnerState, TooBig, merged
from adsum.catalog.replication.store_news import StoreNews
from adsum.catalog.replication.store_word import StoreWord
from adsum.catalog.replication.tally import ReplicationTally
from adsum.clocks import GENERATION_STEP_MAX, Clocks
from adsum.newest import keep_newest
from adsum.now import HOUR, MILLISECOND, MINUTE, SECOND, Now
from adsum.owners import STORE
from adsum.timers import Timers

OWNERS_MAX = 16_384
NEWS_EVERY_NS = 20 * MILLISECOND  # of one owner by push: ten times what any publishes
NEWS_BURST_NS = 200 * NEWS_EVERY_NS
AHEAD_MAX = 1 << 20  # versions that pushes may have been missed: days of changes
ASIDE_NS = 10 * SECOND
TOMBSTONE_NS = 10 * MINUTE
FAILED_NS = 72 * HOUR
LEFT_NS = 24 * HOUR
DOUBT_WITHIN_NS = 50 * MILLISECOND  # lest all ask at once
GRAVES_MAX = 500  # of owners reaped after they failed, and longer than their time; the oldest goes


class ReplicationTimer(enum.Enum):
    PUBLISH = "publish"
    ASIDE = "aside"
    COLLECT = "collect"
    REAP = "reap"
    FULL = "full"
    LIMIT = "limit"
    TELL = "tell"
    PULL = "pull"
    CONFIRM = "confirm"
    DOUBT = "doubt"


class OwnerEntry:
    __slots__ = ("aside", "changed_ns", "confirmed_ns", "heard_ns", "owner", "place", "state")

    def __init__(self, owner: bytes) -> None:
        self.owner = owner
        self.state: OwnerState | None = None  # what is shown; of others with a version above 0
        self.aside: OwnerState | None = None  # what replaces it when it is complete
        self.changed_ns = 0
        self.confirmed_ns = -1  # when it was last known to be complete
        self.place = -1  # among those present, see `exchanges`
        self.heard_ns = 0  # up to when news of it by push are paid for

    @property
    def front(self) -> OwnerState | None:
        """Where an exchange goes on."""
        return self.aside or self.state


class OwnerTable:
    def __init__(
        self,
        now: Now,
        own: bytes,
        random: Random,
        interner: Interner,
        tally: ReplicationTally,
        clocks: Clocks,
    ) -> None:
        self.own = own
        self._clocks = clocks
        self.random = random
        self.interner = interner
        self.tally = tally
        self.root = Root()
        self.timers: Timers[tuple[ReplicationTimer, Hashable]] = Timers()
        self.effects: list[Effect] = []
        self.holdings: dict[bytes, OwnerEntry] = {own: OwnerEntry(own)}
        self.own_holding = self.holdings[own]
        self.store_word = StoreWord()
        self.publishes_store = False  # this agent is such a server
        self._store_told = (0, 0)  # the greatest generation and version of the store that others have
        self._uncounted: dict[bytes, None] = {}  # known, and not in the root
        self._gone_ns: dict[bytes, int] = {}  # who failed, and when
        self._graves: dict[bytes, tuple[int, int]] = {}  # owner → generation that is over, until when
        self._tombs: dict[bytes, list[tuple[int, int]]] = {}  # owner → times and versions to collect
        self._foreign = (0, 0)  # the greatest generation and version that was told of us
        self.timers.set((ReplicationTimer.REAP, None), now.monotonic_ns + MINUTE)

    # Who there is.

    def entry(self, owner: bytes) -> OwnerEntry | None:
        """None: of whom nobody said that it is there. The store's is made when something of it is heard."""
        holding = self.holdings.get(owner)
        if owner == STORE and self.store_word.is_present and (holding is None or owner in self._gone_ns):
            return self.admit(owner, 0)
        return holding

    def state(self, owner: bytes) -> OwnerState | None:
        holding = self.holdings.get(owner)
        return holding.state if holding is not None else None

    @property
    def store_told(self) -> tuple[int, int]:
        """Generation and version of the store that somebody else has, or had; the greatest that was heard."""
        state = self.state(STORE) if not self.publishes_store else None
        return max(self._store_told, (state.generation, state.version) if state is not None else (0, 0))

    def admit(self, owner: bytes, generation: int) -> OwnerEntry | None:
        """The roll knows it, or knows it to be back, in this generation."""
        self._gone_ns.pop(owner, None)
        if owner in self._graves and self._graves[owner][0] >= generation:
            del self._graves[owner]
        holding = self.holdings.get(owner)
        if holding is None:
            if len(self.holdings) >= OWNERS_MAX:
                self.tally.drop("too many owners")
                return None
            holding = self.holdings[owner] = OwnerEntry(owner)
        if owner in self._uncounted:
            del self._uncounted[owner]
            if holding.state is not None:
                self.root.move(owner, holding.state.share)
        return holding

    def failed(self, now: Now, owner: bytes) -> None:
        """Hidden by whoever derives liveness; kept here, for most of those come back."""
        if owner in self.holdings and not self._is_mine(owner):
            self._gone_ns.setdefault(owner, now.monotonic_ns)

    def gone_ns(self, owner: bytes) -> int | None:
        """When it failed, if it is kept all the same."""
        return self._gone_ns.get(owner)

    def left(self, now: Now, owner: bytes, over: int) -> None:
        if owner != self.own:
            self._bury(owner, now.monotonic_ns + LEFT_NS, over)

    def reap(self, now: Now) -> None:
        now_ns = now.monotonic_ns
        for owner, gone_ns in list(self._gone_ns.items()):
            if now_ns - gone_ns >= FAILED_NS:
                front = self.holdings[owner].front
                self._bury(owner, now_ns, front.generation if front is not None else 0)
            elif now_ns - gone_ns >= FAILED_NS // 2 and owner not in self._uncounted:
                self._uncounted[owner] = None
                state = self.holdings[owner].state
                if state is not None:
                    self.root.move(owner, state.share)
        over = [owner for owner, (_, until_ns) in self._graves.items() if until_ns <= now_ns]
        for owner in over[: max(0, len(self._graves) - GRAVES_MAX)]:
            del self._graves[owner]
        self.timers.set((ReplicationTimer.REAP, None), now_ns + MINUTE)

    def counts(self, owner: bytes) -> bool:
        return owner not in self._uncounted

    def _is_mine(self, owner: bytes) -> bool:
        return owner == self.own or (self.publishes_store and owner == STORE)

    def _bury(self, owner: bytes, until_ns: int, over: int) -> None:
        self._gone_ns.pop(owner, None)
        holding = self.holdings.pop(owner, None)
        if holding is None:
            return
        if over:
            keep_newest(self._graves, owner, (over, until_ns), OWNERS_MAX)
        if holding.state is not None:
            if owner not in self._uncounted:
                self.root.move(owner, holding.state.share)
            self.effects.append(OwnerChanged(owner, holding.state, None))
            self.tally.reaped += 1
        self._uncounted.pop(owner, None)
        self._tombs.pop(owner, None)
        self.timers.cancel((ReplicationTimer.ASIDE, owner))
        self.timers.cancel((ReplicationTimer.COLLECT, owner))

    # What is heard of them.

    def hear(self, now: Now, teller: bytes, holding: OwnerEntry, delta: Delta, *, is_push: bool) -> bool:
        """Whether it changed anything here."""
        front = holding.front
        if self._is_refused(now, teller, holding, delta, is_push=is_push):
            return False
        if front is None:
            return self._begin(now, holding, delta)
        is_whole = delta.through is not None and delta.since == 0
        is_new_life = delta.generation > front.generation
        begins_again = is_whole and holding.aside is None and front.low_water > 0
        if begins_again and not is_new_life and delta.version <= front.low_water:
            return False
        base = self.interner.fresh(holding.owner, delta.generation) if is_new_life or begins_again else front
        try:
            after = self.interner.applied(base, delta)
            if after is base or (is_push and not self._is_paid(now, holding)):
                return False
            self._mind_tombstones(now, delta.owner, delta.items)
            if base is front and holding.aside is None:
                self._show(now, holding, after)
            else:
                self._build_aside(now, holding, delta, after, is_begun=base is front)
        except TooBig:
            self.tally.drop("too big")
            return False
        return True

    def _is_refused(
        self, now: Now, teller: bytes, holding: OwnerEntry, delta: Delta, *, is_push: bool
    ) -> bool:
        front = holding.front
        if holding.owner != STORE and self.is_wild(now, delta.generation, front):
            self.tally.drop("generation ahead")
            return True
        if self.publishes_store and holding.owner == STORE:
            self.others_have(delta.generation, delta.version)
            return True
        if holding.owner == STORE and self.is_in_doubt(now, teller, delta.generation, delta.version):
            self.tally.drop("in doubt")
            return True
        if holding is self.own_holding:
            if front is not None and (delta.generation, delta.version) > (front.generation, front.version):
                self.foreign(teller, delta.generation, delta.version)
            return True
        if front is None:
            return False
        if delta.generation < front.generation:
            self.tally.drop("older generation")
            return True
        if is_push and delta.generation == front.generation and delta.version > front.version + AHEAD_MAX:
            self.tally.drop("version ahead")
            return True
        return False

    def is_wild(self, now: Now, generation: int, known: OwnerState | None) -> bool:
        """By a clock that is days ahead, or made up, as membership judges it. Whoever believed it could never
        be told anything by the owner again. Only of agents: the store's servers outdo whatever is said."""
        if known is not None and generation <= known.generation + GENERATION_STEP_MAX:
            return False  # it may have outdone somebody's mistake
        return self._clocks.is_ahead(now, generation)

    def is_in_doubt(self, now: Now, teller: bytes, generation: int, version: int) -> bool:
        """Of the store: no server has told of this generation, and this teller is none. Servers are asked."""
        word = self.store_word
        if self.publishes_store or word.counts(teller, generation):
            return False
        self.others_have(generation, version)
        word.doubted = max(word.doubted, generation)
        self.ask_about_store(now)
        return True

    def ask_about_store(self, now: Now) -> None:
        if self.store_word.servers and (ReplicationTimer.DOUBT, STORE) not in self.timers:
            asked_ns = now.monotonic_ns + int(self.random.random() * DOUBT_WITHIN_NS)
            self.timers.set((ReplicationTimer.DOUBT, STORE), max(asked_ns, self.store_word.rests_until_ns))

    def others_have(self, generation: int, version: int) -> None:
        """Of the store, as somebody told a server that publishes it."""
        self._store_told = max(self._store_told, (generation, version))

    def foreign(self, teller: bytes, generation: int, version: int) -> None:
        """Said once for each step that it grows: whoever repeats it tells us nothing."""
        self.tally.drop("foreign")
        if (generation, version) > self._foreign:
            self._foreign = (generation, version)
            self.effects.append(ForeignNews(teller, generation, version))

    def _begin(self, now: Now, holding: OwnerEntry, delta: Delta) -> bool:
        grave = self._graves.get(holding.owner)
        if grave is not None:
            if delta.generation <= grave[0]:
                self.tally.drop("buried")
                return False
            del self._graves[holding.owner]
        fresh = self.interner.fresh(holding.owner, delta.generation)
        try:
            state = self.interner.applied(fresh, delta)
        except TooBig:
            self.tally.drop("too big")
            return False
        self._show(now, holding, state)
        self._mind_tombstones(now, delta.owner, delta.items)
        return True

    def _build_aside(
        self, now: Now, holding: OwnerEntry, delta: Delta, after: OwnerState, *, is_begun: bool
    ) -> None:
        """What replaces the state that is shown; that goes on with the news meanwhile, if it is of the same
        life."""
        holding.aside = after
        shown = holding.state
        if not is_begun:
            self.timers.set((ReplicationTimer.ASIDE, holding.owner), now.monotonic_ns + ASIDE_NS)
        elif shown is not None and shown.generation == delta.generation:
            self._show(now, holding, self.interner.applied(shown, delta), is_repaired=True)
        # Complete as of a while ago is not better than what is shown; the next partner may know more.
        shown = holding.state
        is_back = shown is not None and (after.generation, after.version) < (shown.generation, shown.version)
        if after.is_complete and not is_back:
            self._swap(now, holding)
        elif after.is_torn:
            holding.aside = self.interner.fresh(holding.owner, after.generation)

    def _is_paid(self, now: Now, holding: OwnerEntry) -> bool:
        paid_ns = max(holding.heard_ns, now.monotonic_ns)
        if paid_ns - now.monotonic_ns >= NEWS_BURST_NS:
            self.tally.drop("flood")
            return False
        holding.heard_ns = paid_ns + NEWS_EVERY_NS
        return True

    def _show(self, now: Now, holding: OwnerEntry, after: OwnerState, *, is_repaired: bool = False) -> None:
        before = holding.state
        if after is before:
            return
        holding.state = after
        holding.changed_ns = now.monotonic_ns
        if holding.owner not in self._uncounted:
            if before is not None:
                self.root.move(holding.owner, before.share)
            self.root.move(holding.owner, after.share)
        if after.is_complete:
            holding.confirmed_ns = now.monotonic_ns
        elif after.is_torn and not is_repaired:
            self.timers.set((ReplicationTimer.ASIDE, holding.owner), now.monotonic_ns + ASIDE_NS)
            holding.aside = self.interner.fresh(holding.owner, after.generation)
        else:
            self.tally.gaps += 1
        self.effects.append(OwnerChanged(holding.owner, before, after))

    def show_mine(self, now: Now, state: OwnerState) -> None:
        """My own needs no telling to myself; as long as there is nothing of it, it counts nowhere."""
        holding = self.own_holding
        if state is holding.state:
            return
        for each in (holding.state, state):
            if each is not None and each.version:
                self.root.move(self.own, each.share)
        holding.state = state
        holding.changed_ns = holding.confirmed_ns = now.monotonic_ns

    def show_store(self, now: Now, news: StoreNews) -> None:
        self.publishes_store = True
        holding = self.admit(STORE, 0)
        if holding is None:
            return
        state, holding.aside = holding.state, None
        self.timers.cancel((ReplicationTimer.ASIDE, STORE))
        if news.is_whole or state is None:
            # What was removed before is not remembered: whoever has less is told all.
            state = OwnerState(STORE, news.generation, gc_version=news.version)
        try:
            after = merged(state, list(news.items), news.version, state.gc_version)
        except TooBig:
            self.tally.drop("too big")
            return
        self._mind_tombstones(now, STORE, news.items)
        self._show(now, holding, after)

    def end_aside(self, now: Now, owner: bytes) -> None:
        """It was not complete in time. A later life is shown all the same, if anything of it is known."""
        holding = self.holdings[owner]
        aside, shown = holding.aside, holding.state
        if aside is None or shown is None:
            return
        if aside.generation > shown.generation and aside.version:
            self.tally.swaps_incomplete += 1
            self._swap(now, holding)
        elif shown.is_torn:  # there is no other way to mend it
            self.timers.set((ReplicationTimer.ASIDE, owner), now.monotonic_ns + ASIDE_NS)
        else:
            holding.aside = None

    def _swap(self, now: Now, holding: OwnerEntry) -> None:
        aside, holding.aside = holding.aside, None
        assert aside is not None
        self.tally.swaps += 1
        self.timers.cancel((ReplicationTimer.ASIDE, holding.owner))
        self._show(now, holding, aside)

    # Tombstones.

    def _mind_tombstones(self, now: Now, owner: bytes, items: Iterable[Item]) -> None:
        latest = max((item.version for item in items if item.value is None), default=0)
        if not latest:
            return
        due_ns = now.monotonic_ns + TOMBSTONE_NS
        waiting = self._tombs.setdefault(owner, [])
        waiting.append((due_ns, latest))
        if (ReplicationTimer.COLLECT, owner) not in self.timers:
            self.timers.set((ReplicationTimer.COLLECT, owner), due_ns)

    def collect(self, now: Now, owner: bytes) -> None:
        waiting = self._tombs.pop(owner, [])
        due = [version for due_ns, version in waiting if due_ns <= now.monotonic_ns]
        later = [(due_ns, version) for due_ns, version in waiting if due_ns > now.monotonic_ns]
        if later:
            self._tombs[owner] = later
            self.timers.set((ReplicationTimer.COLLECT, owner), later[0][0])
        holding = self.holdings[owner]
        if due and holding.state is not None:
            self.tally.collected += 1
            holding.state = self.interner.collected(holding.state, max(due))
