"""User events: small messages for everybody, each heard once.

A Lamport clock orders them and bounds the memory: of each of the last 512 ticks the origins and their
counts are kept, and what is older than that is taken as heard (Serf's rule and its number)."""

from __future__ import annotations

from adsum.gossip.claims import UserEvent

TICKS_KEPT = 512
PER_TICK_MAX = 64


class Events:
    def __init__(self) -> None:
        self.clock = 1
        self.duplicates = 0
        self.dropped = 0
        self._numbers = 0
        self._heard: dict[int, dict[tuple[bytes, int], None]] = {}

    def next_stamp(self) -> tuple[int, int]:
        """Lamport time and number of an event fired here."""
        stamp = self.clock
        self.clock += 1
        self._numbers += 1
        return stamp, self._numbers

    def is_new(self, event: UserEvent) -> bool:
        if event.clock + TICKS_KEPT < self.clock or event.clock > self.clock + (1 << 32):
            self.dropped += 1
            return False
        self.clock = max(self.clock, event.clock + 1)
        tick = self._heard.setdefault(event.clock, {})
        key = (event.subject, event.number)
        if key in tick:
            self.duplicates += 1
            return False
        if len(tick) >= PER_TICK_MAX:
            self.dropped += 1
            return False
        tick[key] = None
        self._forget_old()
        return True

    def _forget_old(self) -> None:
        while len(self._heard) > TICKS_KEPT:
            del self._heard[min(self._heard)]
