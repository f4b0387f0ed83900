"""User events: small messages for everybody, each heard once.

A Lamport clock orders them and bounds the memory: of each of the last 512 ticks the origins and their
counts are kept, and what is older than that is taken as heard (Serf's rule and its number). Each origin may
fire so many at once and a second, and all together some more; what is beyond is neither heard nor told on."""

from __future__ import annotations

from adsum.allowance import Allowance, Allowances
from adsum.gossip.claims import UserEvent
from adsum.now import Now

TICKS_KEPT = 512
PER_TICK_MAX = 64

# Serf's events are for deployments, not for traffic; an agent refuses its own clients somewhat earlier, so
# that what it takes, others take as well.
OWN_AT_ONCE, OWN_A_SECOND = 96, 12
ORIGIN_AT_ONCE, ORIGIN_A_SECOND = 128, 16
ALL_AT_ONCE, ALL_A_SECOND = 512, 64
ORIGINS_MAX = 1_024


class GossipEvents:
    def __init__(self) -> None:
        self.clock = 1
        self.dropped = 0
        self._numbers = 0
        self._heard: dict[int, dict[tuple[bytes, int], None]] = {}
        self._own = Allowance(a_second=OWN_A_SECOND, at_once=OWN_AT_ONCE)
        self._all = Allowance(a_second=ALL_A_SECOND, at_once=ALL_AT_ONCE)
        self._origins: Allowances[bytes] = Allowances(
            a_second=ORIGIN_A_SECOND, at_once=ORIGIN_AT_ONCE, sources_max=ORIGINS_MAX
        )

    def may_fire(self, now: Now) -> bool:
        return self._own.take(now.monotonic_ns)

    def next_stamp(self) -> tuple[int, int]:
        """Lamport time and number of an event fired here."""
        stamp = self.clock
        self.clock += 1
        self._numbers += 1
        return stamp, self._numbers

    def is_new(self, now: Now, event: UserEvent) -> bool:
        if event.clock + TICKS_KEPT < self.clock or event.clock > self.clock + (1 << 32):
            self.dropped += 1
            return False
        key = (event.subject, event.number)
        tick = self._heard.get(event.clock, {})
        if key in tick:
            return False
        now_ns = now.monotonic_ns
        # What is refused for want of the one allowance must not use up the other.
        is_full = len(tick) >= PER_TICK_MAX or not self._all.can_take(now_ns)
        if is_full or not self._origins.take(now_ns, event.subject):
            self.dropped += 1
            return False
        self._all.take(now_ns)
        self.clock = max(self.clock, event.clock + 1)
        tick[key] = None
        self._heard[event.clock] = tick
        while len(self._heard) > TICKS_KEPT:
            del self._heard[min(self._heard)]
        return True
