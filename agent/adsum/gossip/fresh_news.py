"""News that no push has told yet, in the order in which it goes out: the newest of each tier first.

What its queue has dropped, replaced or told often enough meanwhile is passed over. Beyond a bound the oldest
is left to the ticks, which tell it anyway.
"""

from __future__ import annotations

from collections.abc import Hashable

from adsum.gossip.broadcasts import HEAD_BYTES, SKIPS_MAX, Class, Queue, QueuedBroadcast

# Membership first, critical before passing.
TIERS = ((Class.MEMBERSHIP, True), (Class.CATALOG, True), (Class.EVENTS, True), (Class.CATALOG, False))
FRESH_MAX = 4_096  # in each tier; a rack that comes back has half as many checks


class FreshNews:
    def __init__(self, queues: dict[Class, Queue]) -> None:
        self._queues = queues
        self._tiers: dict[tuple[Class, bool], dict[Hashable, QueuedBroadcast]] = {tier: {} for tier in TIERS}

    @property
    def tier(self) -> int:
        """Of what goes next; behind all when there is nothing."""
        for place, ((kind, _is_urgent), entries) in enumerate(self._tiers.items()):
            while entries:
                if self._queues[kind].waits(next(reversed(entries.values()))):
                    return place
                entries.popitem()
        return len(TIERS)

    def add(self, kind: Class, entry: QueuedBroadcast, *, is_urgent: bool) -> bool:
        """False when an older one had to give way."""
        entries = self._tiers[kind, is_urgent]
        entries.pop(entry.key, None)
        is_full = len(entries) >= FRESH_MAX
        if is_full:
            del entries[next(iter(entries))]
        entries[entry.key] = entry
        return not is_full

    def clear(self) -> None:
        for entries in self._tiers.values():
            entries.clear()

    def take(self, room_bytes: int) -> list[tuple[Class, QueuedBroadcast]]:
        """For one datagram."""
        taken: list[tuple[Class, QueuedBroadcast]] = []
        for (kind, _is_urgent), entries in self._tiers.items():
            too_big: list[QueuedBroadcast] = []
            while entries and room_bytes > HEAD_BYTES and len(too_big) < SKIPS_MAX:
                _key, entry = entries.popitem()
                size_bytes = len(entry.payload) + HEAD_BYTES
                if not self._queues[kind].waits(entry):
                    continue
                if size_bytes > room_bytes:
                    too_big.append(entry)
                else:
                    taken.append((kind, entry))
                    room_bytes -= size_bytes
            entries.update((entry.key, entry) for entry in reversed(too_big))
        return taken
