"""What this agent says of itself: from values by name to numbered items, and from items to pushes.

A change that was published less than a second after the last of the same item waits out that second, and
then only the latest value counts: a flapping check costs everybody one push a second and no more. Whatever
waits goes together, in as few payloads as it takes, going-critical first.
"""

from __future__ import annotations

from collections.abc import Hashable

from adsum.catalog.replication import state as states
from adsum.catalog.replication.deltas import Delta
from adsum.catalog.replication.items import NODE_KEY, NODE_NUMBER, NUMBER_MAX, SHORT, VALUE_BYTES_MAX, Item
from adsum.catalog.replication.owner_table import ReplicationTimer
from adsum.catalog.replication.pushes import Pushes, Urgency
from adsum.catalog.replication.state import ITEM_OVERHEAD_BYTES, OWNER_BYTES_MAX, OwnerState
from adsum.catalog.replication.tally import Limit, ReplicationTally
from adsum.frozen import dataclass
from adsum.now import MINUTE, SECOND
from adsum.timers import Timers

NO_NUMBER = -1  # of what has not been published before
ITEM_INTERVAL_NS = SECOND
TOMBSTONE_NS = 10 * MINUTE


class Unpublishable(ValueError):
    """The caller's fault: nothing changed. The message says what to do."""


@dataclass(frozen=True, slots=True)
class OwnIdentity:
    owner: bytes  # the 16 bytes of this node's uuid
    generation: int

    @property
    def short(self) -> bytes:
        return self.owner[:SHORT]


class Publisher:
    def __init__(
        self,
        identity: OwnIdentity,
        tally: ReplicationTally,
        timers: Timers[tuple[ReplicationTimer, Hashable]],  # `flush` is due when PUBLISH is
    ) -> None:
        self.state = OwnerState(identity.short, identity.generation)
        self._tally = tally
        self._timers = timers
        self._due_ns: int | None = None
        self._numbers: dict[str, int] = {NODE_KEY: NODE_NUMBER}
        self._free: list[int] = []
        self._waiting: dict[int, tuple[bytes | None, Urgency]] = {}  # not yet in the state
        self._waiting_growth: dict[int, int] = {}  # of the state, by each that waits
        self._promised = 0  # version, which somebody was told of
        self._growing_bytes = 0  # by all of them
        self._published_ns: dict[int, int] = {}  # of items that may have to wait
        self._pushes = Pushes(tally)
        self._graves: dict[int, tuple[int, int]] = {}  # number → version and time of its tombstone

    def number(self, key: str) -> int:
        """The item's slot, given out on first sight. Items of one owner may name each other by it: it stays
        while the item does."""
        number = self._numbers.get(key)
        if number is None:
            if len(self._numbers) >= NUMBER_MAX:
                sentence = f"{key!r}: one node may have {NUMBER_MAX} items; deregister some first."
                raise self._unpublishable("items", sentence)
            number = self._free.pop() if self._free else len(self._numbers)
            self._numbers[key] = number
        return number

    def put(self, now_ns: int, key: str, value: bytes | None, urgency: Urgency = Urgency.DEFINITION) -> None:
        """Waits until it is due, unless it is published already."""
        number = self._numbers.get(key, NO_NUMBER)
        known = self.state.items.get(number)
        if known is not None and known.value == value and number not in self._waiting:
            self._tally.coalesced += 1
            return
        growth_bytes = self._growth_bytes(key, number, value) if value is not None else 0
        number = self.number(key)
        before = self._waiting.get(number)
        if before is not None:
            self._tally.coalesced += 1
            urgency = min(urgency, before[1])
        self._growing_bytes += growth_bytes - self._waiting_growth.get(number, 0)
        self._waiting_growth[number] = growth_bytes
        self._waiting[number] = (value, urgency)
        self._set_timer(self._may_go_ns(number, now_ns))

    def remove(self, now_ns: int, key: str) -> None:
        if key in self._numbers:
            self.put(now_ns, key, None, Urgency.PASSING)

    def renew(self, now_ns: int, generation: int) -> None:
        """The same items as another life's; everybody needs all of them."""
        assert generation != self.state.generation
        known = [each._replace(version=version) for version, each in enumerate(self.state.since(0), start=2)]
        nothing = OwnerState(self.state.owner, generation, version=1, low_water=1)  # there is nothing yet
        self.state = states.merged(nothing, known, known[-1].version, 0) if known else nothing
        self._promised = 0
        self._pushes.begin_anew([item.number for item in known])
        removed, self._graves = list(self._graves), {}
        self._release(removed)
        self._set_timer(now_ns)

    def promise(self) -> int:
        """The version of the state when everything that waits is in it. It will be reached, also by what is
        by then as it was before: somebody waits for it."""
        items = self.state.items
        news = [
            number
            for number, (value, _urgency) in self._waiting.items()
            if (items[number].value if number in items else None) != value
        ]
        self._promised = max(self._promised, self.state.version + len(news))
        return self._promised

    # Time.

    def deadline_ns(self, now_ns: int) -> int | None:
        """When something that waits may go."""
        times = [self._may_go_ns(number, now_ns) for number in self._waiting]
        push_ns = self._pushes.due_ns(now_ns)
        return min(times if push_ns is None else [*times, push_ns], default=None)

    def flush(self, now_ns: int) -> list[Delta]:
        """What has waited long enough becomes part of the state; and what may be told of it now."""
        due = [number for number in self._waiting if self._may_go_ns(number, now_ns) <= now_ns]
        due.sort(
            key=lambda number: self._waiting[number][1], reverse=True
        )  # the urgent get the newest versions
        items = list[Item]()
        for number in due:
            value, urgency = self._waiting.pop(number)
            self._growing_bytes -= self._waiting_growth.pop(number)
            known = self.state.items.get(number)
            is_promised = self.state.version + len(items) < self._promised
            if (known.value if known is not None else None) == value and not is_promised:
                self._tally.coalesced += 1
                continue
            items.append(Item(number, self.state.version + len(items) + 1, value))
            self._published_ns[number] = now_ns
            self._pushes.add(number, urgency)
            self._graves.pop(number, None)
            if value is None:
                self._graves[number] = (items[-1].version, now_ns)
        if items:
            self.state = states.merged(self.state, items, items[-1].version, self.state.gc_version)
        pushes = self._pushes.take(now_ns, self.state)
        self._due_ns = None
        self._set_timer(self.deadline_ns(now_ns))
        return pushes

    def collect(self, now_ns: int) -> None:
        """Forgets tombstones that everybody has had the time to hear of; their slots are free again."""
        old = [number for number, (_, at_ns) in self._graves.items() if now_ns - at_ns >= TOMBSTONE_NS]
        if not old:
            return
        self.state = states.collected(self.state, max(self._graves[number][0] for number in old))
        for number in old:
            del self._graves[number]
            self._pushes.forget(number)
        self._release(old)
        floor_ns = now_ns - ITEM_INTERVAL_NS
        self._published_ns = {number: at for number, at in self._published_ns.items() if at > floor_ns}

    # Helpers.

    def _unpublishable(self, limit: Limit, sentence: str) -> Unpublishable:
        self._tally.unpublishable[limit] += 1
        return Unpublishable(sentence)

    def _release(self, numbers: list[int]) -> None:
        keys = {number: key for key, number in self._numbers.items()}
        for number in numbers:
            if number not in self._waiting and number != NODE_NUMBER:
                del self._numbers[keys[number]]
                self._free.append(number)

    def _growth_bytes(self, key: str, number: int, value: bytes) -> int:
        """Of the state by this value, where there is room for it."""
        if len(value) > VALUE_BYTES_MAX:
            sentence = f"{key!r} would take {len(value)} bytes in the catalog; at most {VALUE_BYTES_MAX} fit."
            raise self._unpublishable("item size", f"{sentence} Shorten its meta, tags or notes.")
        known = self.state.items.get(number)
        known_bytes = ITEM_OVERHEAD_BYTES + len(known.value or b"") if known is not None else 0
        # What shrinks the state makes no room before it has.
        growth_bytes = max(0, ITEM_OVERHEAD_BYTES + len(value) - known_bytes)
        waiting_bytes = self._growing_bytes - self._waiting_growth.get(number, 0)
        if self.state.size_bytes + waiting_bytes + growth_bytes > OWNER_BYTES_MAX:
            sentence = f"{key!r}: one node may publish {OWNER_BYTES_MAX} bytes; deregister something first."
            raise self._unpublishable("owner size", sentence)
        return growth_bytes

    def _set_timer(self, due_ns: int | None) -> None:
        if due_ns is not None and (self._due_ns is None or due_ns < self._due_ns):
            self._due_ns = due_ns
            self._timers.set((ReplicationTimer.PUBLISH, None), due_ns)

    def _may_go_ns(self, number: int, now_ns: int) -> int:
        return max(now_ns, self._published_ns.get(number, now_ns - ITEM_INTERVAL_NS) + ITEM_INTERVAL_NS)
