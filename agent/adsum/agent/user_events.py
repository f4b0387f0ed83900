"""User events: what a client has to say to the whole cluster, and the newest of them heard here.

Gossip carries an event as a name and opaque bytes; in them are its id, its payload and for whom it is meant.
That is decided where it arrives: each agent knows its own name and services best. What is not for this agent
is not listed on it.

For whom an event is meant may be said by regular expressions, and whoever fires it has all agents search with
them. So they are looked at when somebody here reads events, not when they come, and within so much work a
second: what a flood leaves undecided is listed by later reads, behind what came meanwhile. On an agent whose
events nobody reads they cost nothing.

Consul keeps 256 of them, and so do we; an older one is forgotten. Watchers sleep on
their topic.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from adsum import frozen, mutable
from adsum.allowance import Allowance
from adsum.catalog.pattern import BadPattern, Pattern
from adsum.catalog.view import View
from adsum.catalog.work import Work
from adsum.cbor import BadEncoding, canonical_array
from adsum.gossip.claims import UserEvent
from adsum.now import MILLISECOND, Now
from adsum.rows import RowCodec, exactly, octets, text
from adsum.topics import Topic

TOPIC = Topic("events")
EVENTS_MAX = 256
UNDECIDED_MAX = 256
# What finding out whom one event is meant for may cost, and all of them a second, at the prices of `Work`: an
# expression of 20 instructions over a thousand services is 3 ms, a plain name a microsecond.
DECIDING_NS_MAX = 5 * MILLISECOND
DECIDING_NS_AT_ONCE = 20 * MILLISECOND
DECIDING_NS_A_SECOND = 200 * MILLISECOND
ID_BYTES = 16
# What Consul allows, measured on 1.8.7: 512 bytes as it encodes an event, in which the name stands twice and
# a filter has its key. Ours is smaller on the wire, and so fits whenever Consul's does.
SIZE_MAX = 512
FIXED_SIZE = 96
FILTER_SIZE = 4


class BadEvent(ValueError):
    """Whoever fires it is at fault; nobody heard of it."""


@frozen.dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    event_id: bytes
    name: str
    payload: bytes = b""
    # Regular expressions; empty ones let everybody in.
    node: str = ""
    service: str = ""  # matches ids of services, as in Consul
    tag: str = ""  # of such a service
    clock: int = 0  # Lamport time; 0 until it was told

    @property
    def is_for_all(self) -> bool:
        return not (self.node or self.service)


def encode(event: Event) -> bytes:
    """As the payload of gossip. Fields that a later version appends are ignored."""
    return _CARRIED.encode(event)


def decode(carried: UserEvent) -> Event | None:
    """None when it makes no sense here: of a later version, or no event of ours."""
    try:
        fields = _CARRIED.decode(canonical_array(carried.payload))
    except BadEncoding:
        return None
    return Event(name=carried.name, clock=carried.clock, **fields)


_CARRIED: RowCodec[Any] = RowCodec(
    *(dict, exactly("event_id", ID_BYTES), octets("payload"), text("node"), text("service"), text("tag")),
    by_name=True,
)


def check(event: Event) -> None:
    """Raises `BadEvent`, in Consul's words."""
    if event.tag and not event.service:
        raise BadEvent("Cannot provide tag filter without service filter")
    filters = {"node": event.node, "service": event.service, "tag": event.tag}
    for kind, pattern in filters.items():
        try:
            Pattern(pattern)
        except BadPattern as bad:
            raise BadEvent(f"Invalid {kind} filter: {bad}") from None
    given = [len(each.encode()) + FILTER_SIZE for each in filters.values() if each]
    if FIXED_SIZE + 2 * len(event.name.encode()) + len(event.payload) + sum(given) > SIZE_MAX:
        sentence = f"user event exceeds configured limit of {SIZE_MAX} bytes before encoding"
        raise BadEvent(f'1 error occurred:\n\t* error broadcasting event to segment "": {sentence}\n\n')


@mutable.dataclass(slots=True)
class EventCounters:
    """Of events that came here, our own among them; those with filters are counted when they are decided."""

    listed: int = 0
    for_others: int = 0
    unreadable: int = 0
    undecided_dropped: int = 0  # nobody read events for too long, or others fired too many


class UserEvents:
    def __init__(self, view: View, node_name: str) -> None:
        self.counters = EventCounters()
        self.has_moved = False  # those who wait do not know yet
        self._view = view
        self._node_name = node_name
        self._listed: deque[Event] = deque(maxlen=EVENTS_MAX)  # the newest last
        self._undecided: deque[Event] = deque(maxlen=UNDECIDED_MAX)
        self._deciding = Allowance(a_second=DECIDING_NS_A_SECOND, at_once=DECIDING_NS_AT_ONCE)

    @property
    def has_undecided(self) -> bool:
        return bool(self._undecided)

    def take_moved(self) -> tuple[Topic, ...]:
        has_moved, self.has_moved = self.has_moved, False
        return (TOPIC,) if has_moved else ()

    def heard(self, carried: UserEvent) -> None:
        event = decode(carried)
        if event is None:
            self.counters.unreadable += 1
            return
        if event.is_for_all:
            self._list(event)
        else:
            self.counters.undecided_dropped += len(self._undecided) == UNDECIDED_MAX
            self._undecided.append(event)
        self.has_moved = True

    def recent(self, now: Now) -> list[Event]:
        """Those for this agent, as far as it was decided, the one listed last at the end."""
        while self._undecided and self._deciding.is_left(now.monotonic_ns):
            event, work = self._undecided.popleft(), Work(DECIDING_NS_MAX)
            try:
                if self._is_for_us(event, work):
                    self._list(event)
                else:
                    self.counters.for_others += 1
            except BadPattern:  # made elsewhere, or too costly against what we have
                self.counters.unreadable += 1
            self._deciding.charge(now.monotonic_ns, min(work.spent_ns, DECIDING_NS_MAX))
        return list(self._listed)

    def _list(self, event: Event) -> None:
        self.counters.listed += 1
        self._listed.append(event)

    def _is_for_us(self, event: Event, work: Work) -> bool:
        if event.node and not Pattern(event.node, work).occurs_in(self._node_name):
            return False
        if not event.service:
            return True
        host = self._view.node(self._node_name)
        is_id, is_tag = Pattern(event.service, work), Pattern(event.tag, work)
        for instance in host.instances if host is not None else ():
            service = instance.service.value
            if is_id.occurs_in(service.service_id) and (
                not event.tag or any(map(is_tag.occurs_in, service.tags))
            ):
                return True
        return False
