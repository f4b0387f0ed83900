from __future__ import annotations

from dataclasses import field

from adsum.mutable import dataclass
from adsum.sockets.accepting import AcceptCounters


@dataclass(slots=True)
class YieldingCounters:
    held: int = 0
    displaced: int = 0  # closed to make room for others
    turned_away: int = 0  # because all were being worked for


@dataclass(slots=True)
class StreamCounters:
    accepting: AcceptCounters = field(default_factory=AcceptCounters)
    # Whose peers have not said yet who they are, or have not begun their exchange.
    openings: YieldingCounters = field(default_factory=YieldingCounters)
    syncs: YieldingCounters = field(default_factory=YieldingCounters)  # that were begun
    open: int = 0
    turned_away: int = 0  # because too many were open, in all or of one host
    busy: int = 0  # because as many were served for the same purpose as may be
    pings_answered: int = 0
    syncs_served: int = 0
    syncs_failed: int = 0
