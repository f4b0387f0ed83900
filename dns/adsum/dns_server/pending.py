"""Packets of one socket that wait for their turn, because they were not known by their bytes.

Two sorts wait. Late ones came when the pass over the socket had lasted long enough, and go on where it ended.
Unusual ones are not in the common form. They come after all others, and as a packet that is costly to answer
is cheap to make, all of them together may take so much of the loop's time. Past that they are dropped.
"""

from __future__ import annotations

from collections import deque

from adsum.allowance import Allowance
from adsum.dns.answers import Transport
from adsum.dns.limits import DnsLimits
from adsum.dns_server.counters import DnsCounters
from adsum.dns_server.datagrams import Origin
from adsum.named import NamedTuple


class Waiting(NamedTuple):
    packet: bytes
    origin: Origin
    transport: Transport


def unusual_allowance(limits: DnsLimits) -> Allowance:
    """In nanoseconds of the loop's time."""
    return Allowance(a_second=limits.unusual_ns_a_second, at_once=limits.unusual_ns_at_once)


class Pending:
    def __init__(self, limits: DnsLimits, counters: DnsCounters, allowance: Allowance) -> None:
        self._late: deque[Waiting] = deque()
        self._unusual: deque[Waiting] = deque()
        self._late_max = limits.late_max
        self._unusual_max = limits.unusual_max
        self._counters = counters
        self._allowance = allowance

    def __len__(self) -> int:
        return len(self._late) + len(self._unusual)

    @property
    def has_late(self) -> bool:
        return bool(self._late)

    def put_late(self, waiting: Waiting) -> None:
        if len(self._late) >= self._late_max:
            self._counters.late_dropped += 1
            return
        self._late.append(waiting)

    def put_unusual(self, waiting: Waiting) -> None:
        if len(self._unusual) >= self._unusual_max:
            self._counters.unusual_dropped += 1
            return
        self._unusual.append(waiting)

    def next_late(self) -> Waiting | None:
        return self._late.popleft() if self._late else None

    def next_unusual(self, now_ns: int) -> Waiting | None:
        if not self._allowance.is_left(now_ns):
            self._counters.unusual_dropped += len(self._unusual)
            self._unusual.clear()
        return self._unusual.popleft() if self._unusual else None

    def charge_unusual(self, now_ns: int, took_ns: int) -> None:
        self._allowance.charge(now_ns, took_ns)
