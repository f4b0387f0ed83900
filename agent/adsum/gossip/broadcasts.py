"""News waiting to be told, and how often each has been.

What is fresh is pushed at once, to a few members (see `eager_push`); what cannot go at once waits here for
the next tick or rides on a probe. What has been told is named in some ticks more by its mark, four bytes by
which whoever lacks it asks for it.

Three classes share a datagram. Membership is served first; while the others have something to say, a
quarter of the room is theirs, so that no flood of one starves another (memberlist#299). In a class the
least told goes first, the newest among equals, and what fits of it. There is one live entry per key: a
newer one replaces the older, so the queue is as long as there are subjects, whatever the churn (serf#606).

Entries sit in buckets by the number of times they were told: no sorting, whatever the length of the queue.
What is not urgent begins in the second bucket, behind what is.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Hashable, Iterable
from itertools import islice

from adsum.gossip import ages
from adsum.gossip.recent_news import mark_of
from adsum.named import NamedTuple

SKIPS_MAX = 8  # entries of one bucket that do not fit before the next is tried
OTHERS_SHARE = 4  # one part in so many is kept for the classes behind membership
# The catalog is told half as often as membership, for an exchange repairs what was missed; but never less
# than this: with the four times that a cluster of 60 would have, one in fifty hears nothing of a change.
CATALOG_TOLD_MIN = 6
CATALOG_TOLD_MARKED_MIN = 4  # where marks tell who has heard nothing
# How often what was pushed is told again. A verdict is worth it, and an event, which no comparison brings to
# whoever missed it; marks tell who lacks the rest.
TOLD_AGAIN_MEMBERSHIP = TOLD_AGAIN_EVENTS = 3
# Ticks that name news, to three members each. Of those whom no push of the catalog has reached one in 10^5
# hears no mark in that time; membership is told again besides.
CATALOG_MARKED_TICKS = 4
MARKED_TICKS = 3
MARKS_MAX = 64  # in one datagram, the newest first
# Of a class, the newest: what more a flood leaves behind nobody would remember when its turn came. Five ticks
# a second name so many within six of the eight seconds for which they are remembered.
MARKED_MAX = 512
HEAD_BYTES = 3  # what CBOR puts before a byte string of a datagram's size; a short one's age is in it


class Class(enum.Enum):
    MEMBERSHIP = "membership"
    CATALOG = "catalog"
    EVENTS = "events"


class QueuedBroadcast:
    __slots__ = ("born_ns", "key", "mark", "marked", "payload", "spared", "told")

    def __init__(self, key: Hashable, payload: bytes, born_ns: int | None, *, told: int, spared: int) -> None:
        self.key = key
        self.payload = payload
        self.born_ns = born_ns  # when it was first told by anybody, if that is known
        self.told = told
        self.spared = spared  # so many times fewer it is told than others
        self.mark = mark_of(payload)
        self.marked = 0  # ticks that named its mark


class Queue:
    """One class. Past its bound the most told entry goes: the others have most likely heard it.

    An entry is in a bucket while it is to be told, and among the marked from its first telling until enough
    ticks have named it; it is forgotten when it is in neither."""

    def __init__(
        self,
        *,
        entries_max: int,
        mult: int,
        pushed_mult: int | None = None,
        told_min: int = 0,
        told_again: int = 0,
        rest_told: int = 0,
        marked_ticks: int = MARKED_TICKS,
    ) -> None:
        self.entries_max = entries_max
        self.dropped = 0
        self.entries: dict[Hashable, QueuedBroadcast] = {}  # by key
        self._mult = mult
        self._pushed_mult = mult if pushed_mult is None else pushed_mult
        self._told_min = told_min
        self._told_again = told_again  # after a push
        self._rest_told = rest_told  # as often as this what is not urgent counts as told from the beginning
        self._marked_ticks = marked_ticks
        self._buckets: list[dict[Hashable, QueuedBroadcast]] = []
        self._marked: dict[Hashable, QueuedBroadcast] = {}

    def __len__(self) -> int:
        return len(self.entries)

    def told_max(self, scale: int) -> int:
        return max(self._told_min, self._mult * scale) + self._rest_told

    def spared(self, scale: int) -> int:
        """Of what is pushed, where a flood leaves it to ticks: marks tell who lacks it. Two thousand flips at
        once among a thousand members are known as soon, for two thirds of the bytes."""
        least = max(self._told_min, self._pushed_mult * scale) + self._rest_told
        return self.told_max(scale) - least

    def put(
        self,
        born_ns: int | None,
        key: Hashable,
        payload: bytes,
        *,
        is_urgent: bool = True,
        spared: int = 0,
    ) -> QueuedBroadcast:
        self.forget(key)
        if len(self.entries) >= self.entries_max:
            self._drop_one()
        told = 0 if is_urgent else self._rest_told
        entry = QueuedBroadcast(key, payload, born_ns, told=told, spared=spared)
        self.entries[key] = self._bucket(entry.told)[key] = entry
        return entry

    def forget(self, key: Hashable) -> None:
        entry = self.entries.pop(key, None)
        if entry is not None:
            self._bucket(entry.told).pop(key, None)
            self._marked.pop(key, None)

    def _drop_one(self) -> None:
        """What was told first, if it is only named by now; or else one of the most told."""
        first = next(iter(self._marked.values()), None)
        if first is None or self.waits(first):
            first = next(iter(next(filter(None, reversed(self._buckets))).values()))
        self.forget(first.key)
        self.dropped += 1

    def waits(self, entry: QueuedBroadcast) -> bool:
        """To be told, and no newer one has taken its place."""
        return self._bucket(entry.told).get(entry.key) is entry

    # Payloads.

    def take(self, room_bytes: int, told_max: int) -> list[QueuedBroadcast]:
        """For one datagram to one member."""
        taken: list[QueuedBroadcast] = []
        if self.entries:
            for bucket in self._buckets:
                if room_bytes <= HEAD_BYTES:
                    break
                if bucket:
                    room_bytes -= fitting(reversed(bucket.values()), room_bytes, taken)
            for entry in taken:
                self._move(entry, entry.told + 1, told_max)
        return taken

    def pushed(self, entry: QueuedBroadcast, told_max: int) -> None:
        """To several at once, which is worth all that it would be told but the last few times."""
        self._move(entry, max(entry.told + 1, told_max - self._told_again), told_max)

    def _move(self, entry: QueuedBroadcast, told: int, told_max: int) -> None:
        self._bucket(entry.told).pop(entry.key, None)
        entry.told = told
        told_max -= entry.spared
        if told < told_max:
            self._bucket(told)[entry.key] = entry
        if entry.marked < self._marked_ticks:
            self._marked[entry.key] = entry
            if len(self._marked) > MARKED_MAX:
                self._unmark(next(iter(self._marked.values())))
        elif told >= told_max:
            del self.entries[entry.key]

    def _bucket(self, told: int) -> dict[Hashable, QueuedBroadcast]:
        while len(self._buckets) <= told:
            self._buckets.append({})
        return self._buckets[told]

    # Marks.

    def take_marks(self, wanted: int) -> list[bytes]:
        """For all that one tick tells."""
        named = list(islice(reversed(self._marked.values()), wanted))
        for entry in named:
            entry.marked += 1
            if entry.marked >= self._marked_ticks:
                self._unmark(entry)
        return [entry.mark for entry in named]

    def _unmark(self, entry: QueuedBroadcast) -> None:
        del self._marked[entry.key]
        if not self.waits(entry):
            del self.entries[entry.key]


def fitting(entries: Iterable[QueuedBroadcast], room_bytes: int, taken: list[QueuedBroadcast]) -> int:
    """Takes those that fit, and says how many bytes they need."""
    used_bytes = skipped = 0
    for entry in entries:
        size_bytes = len(entry.payload) + HEAD_BYTES
        if used_bytes + size_bytes <= room_bytes:
            taken.append(entry)
            used_bytes += size_bytes
        else:
            skipped += 1
            if skipped > SKIPS_MAX:
                break
    return used_bytes


class Taken(NamedTuple):
    """For one datagram."""

    claims: list[bytes]
    ages: list[int]  # of the claims
    carried: list[bytes]
    room_bytes: int  # that is left


class Broadcasts:
    def __init__(self, *, members_max: int, retransmit_mult: int, is_marked: bool = True) -> None:
        marked, catalog_marked = (MARKED_TICKS, CATALOG_MARKED_TICKS) if is_marked else (0, 0)
        self._membership = Queue(
            entries_max=members_max,
            mult=retransmit_mult,
            told_again=TOLD_AGAIN_MEMBERSHIP,
            marked_ticks=marked,
        )
        self._catalog = Queue(
            entries_max=8_192,
            mult=max(1, retransmit_mult // 2),
            pushed_mult=max(1, retransmit_mult // 4),  # half as often: see `spared`
            told_min=CATALOG_TOLD_MARKED_MIN if is_marked else CATALOG_TOLD_MIN,
            rest_told=1,
            marked_ticks=catalog_marked,
        )
        self._events = Queue(
            entries_max=512, mult=retransmit_mult, told_again=TOLD_AGAIN_EVENTS, marked_ticks=marked
        )
        self.queues = {
            Class.MEMBERSHIP: self._membership,
            Class.CATALOG: self._catalog,
            Class.EVENTS: self._events,
        }

    def __bool__(self) -> bool:
        return bool(self._membership.entries or self._catalog.entries or self._events.entries)

    def take(self, now_ns: int, room_bytes: int, members: int) -> Taken:
        """Claims (news and events) and carried payloads for one datagram, at most so many bytes in all."""
        membership, catalog, events = self._membership, self._catalog, self._events
        scale = scale_of(members)
        others_wait = catalog.entries or events.entries
        kept_bytes = room_bytes // OTHERS_SHARE if others_wait else 0
        news = membership.take(room_bytes - kept_bytes, membership.told_max(scale))
        room_bytes -= size_of(news)
        carried: list[QueuedBroadcast] = []
        if others_wait:
            kept_bytes = room_bytes // OTHERS_SHARE if events.entries else 0
            carried = catalog.take(room_bytes - kept_bytes, catalog.told_max(scale))
            room_bytes -= size_of(carried)
            fired = events.take(room_bytes, events.told_max(scale))
            room_bytes -= size_of(fired)
            news += fired
        return Taken(
            [entry.payload for entry in news],
            [ages.coded(now_ns, entry.born_ns) for entry in news],
            [entry.payload for entry in carried],
            room_bytes,
        )

    def take_marks(self) -> bytes:
        """Of what was told of late, for all datagrams of a tick."""
        membership, catalog, events = self._membership, self._catalog, self._events
        others_wait = catalog.entries or events.entries
        marks = membership.take_marks(MARKS_MAX - (MARKS_MAX // OTHERS_SHARE if others_wait else 0))
        room = MARKS_MAX - len(marks)
        marks += catalog.take_marks(room - (room // OTHERS_SHARE if events.entries else 0))
        marks += events.take_marks(MARKS_MAX - len(marks))
        return b"".join(marks)


def scale_of(members: int) -> int:
    """The digits of their number: how often news is told grows with it."""
    return math.ceil(math.log10(members + 1))


def size_of(entries: list[QueuedBroadcast]) -> int:
    return sum(len(entry.payload) for entry in entries) + HEAD_BYTES * len(entries)
