"""News waiting to be told, and how often each has been.

Three classes share a datagram. Membership is served first; while the others have something to say, a
quarter of the room is theirs, so that no flood of one starves another (memberlist#299). In a class the
least told goes first, the newest among equals, and what fits of it. There is one live entry per key: a
newer one replaces the older, so the queue is as long as there are subjects, whatever the churn (serf#606).

Entries sit in buckets by the number of times they were told: no sorting, whatever the length of the queue.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Hashable
from typing import NamedTuple

from adsum.gossip import ages

SKIPS_MAX = 8  # entries of one bucket that do not fit before the next is tried
OTHERS_SHARE = 4  # one part in so many is kept for the classes behind membership
# The catalog is told half as often as membership, for an exchange repairs what was missed; but never less
# than this: with the four times that a cluster of 60 would have, one in fifty hears nothing of a change.
CATALOG_TOLD_MIN = 6
HEAD_BYTES = 3  # what CBOR puts before a byte string of a datagram's size; a short one's age is in it


class Class(enum.Enum):
    MEMBERSHIP = "membership"
    CATALOG = "catalog"
    EVENTS = "events"


class QueuedBroadcast:
    __slots__ = ("born_ns", "key", "payload", "told")

    def __init__(self, key: Hashable, payload: bytes, born_ns: int | None) -> None:
        self.key = key
        self.payload = payload
        self.born_ns = born_ns  # when it was first told by anybody, if that is known
        self.told = 0


class Queue:
    """One class. Past its bound the most told entry goes: the others have most likely heard it."""

    def __init__(self, *, entries_max: int, mult: int) -> None:
        self.entries_max = entries_max
        self.mult = mult
        self.dropped = 0
        self.entries: dict[Hashable, QueuedBroadcast] = {}  # by key
        self._buckets: list[dict[Hashable, QueuedBroadcast]] = []

    def __len__(self) -> int:
        return len(self.entries)

    def put(self, born_ns: int | None, key: Hashable, payload: bytes, *, told: int = 0) -> None:
        self.forget(key)
        if len(self.entries) >= self.entries_max:
            fullest = next(filter(None, reversed(self._buckets)))
            self.forget(next(iter(fullest)))
            self.dropped += 1
        entry = QueuedBroadcast(key, payload, born_ns)
        entry.told = told
        self.entries[key] = entry
        self._bucket(told)[key] = entry

    def forget(self, key: Hashable) -> None:
        entry = self.entries.pop(key, None)
        if entry is not None:
            del self._buckets[entry.told][key]

    def take(self, room_bytes: int, told_max: int) -> list[QueuedBroadcast]:
        if not self.entries:
            return []
        taken: list[QueuedBroadcast] = []
        for bucket in self._buckets:
            if room_bytes <= HEAD_BYTES:
                break
            if bucket:
                room_bytes -= self._take_from(bucket, room_bytes, taken)
        for entry in taken:
            del self._buckets[entry.told][entry.key]
            entry.told += 1
            if entry.told >= told_max:
                del self.entries[entry.key]
            else:
                self._bucket(entry.told)[entry.key] = entry
        return taken

    def _take_from(
        self, bucket: dict[Hashable, QueuedBroadcast], room_bytes: int, taken: list[QueuedBroadcast]
    ) -> int:
        used_bytes = skipped = 0
        for entry in reversed(bucket.values()):
            size_bytes = len(entry.payload) + HEAD_BYTES
            if used_bytes + size_bytes <= room_bytes:
                taken.append(entry)
                used_bytes += size_bytes
            else:
                skipped += 1
                if skipped > SKIPS_MAX:
                    break
        return used_bytes

    def _bucket(self, told: int) -> dict[Hashable, QueuedBroadcast]:
        while len(self._buckets) <= told:
            self._buckets.append({})
        return self._buckets[told]


class Taken(NamedTuple):
    """For one datagram."""

    claims: list[bytes]
    ages: list[int]  # of the claims
    carried: list[bytes]
    room_bytes: int  # that is left


class Broadcasts:
    def __init__(self, *, members_max: int, retransmit_mult: int) -> None:
        self.queues = {
            Class.MEMBERSHIP: Queue(entries_max=members_max, mult=retransmit_mult),
            Class.CATALOG: Queue(entries_max=8_192, mult=max(1, retransmit_mult // 2)),
            Class.EVENTS: Queue(entries_max=512, mult=retransmit_mult),
        }
        self._membership = self.queues[Class.MEMBERSHIP]
        self._catalog = self.queues[Class.CATALOG]
        self._events = self.queues[Class.EVENTS]

    def __bool__(self) -> bool:
        return bool(self._membership.entries or self._catalog.entries or self._events.entries)

    def take(self, now_ns: int, room_bytes: int, members: int) -> Taken:
        """Claims (news and events) and carried payloads for one datagram, at most so many bytes in all."""
        scale = math.ceil(math.log10(members + 1))
        others_wait = self._catalog.entries or self._events.entries
        kept_bytes = room_bytes // OTHERS_SHARE if others_wait else 0
        news = self._membership.take(room_bytes - kept_bytes, self._membership.mult * scale)
        room_bytes -= _size(news)
        carried: list[QueuedBroadcast] = []
        if others_wait:
            kept_bytes = room_bytes // OTHERS_SHARE if self._events.entries else 0
            told_max = max(CATALOG_TOLD_MIN, self._catalog.mult * scale)
            carried = self._catalog.take(room_bytes - kept_bytes, told_max)
            room_bytes -= _size(carried)
            events = self._events.take(room_bytes, self._events.mult * scale)
            room_bytes -= _size(events)
            news += events
        return Taken(
            [entry.payload for entry in news],
            [ages.coded(now_ns, entry.born_ns) for entry in news],
            [entry.payload for entry in carried],
            room_bytes,
        )


def _size(entries: list[QueuedBroadcast]) -> int:
    return sum(len(entry.payload) for entry in entries) + HEAD_BYTES * len(entries)
