from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class StreamCounters:
    opening: int = 0  # whose peers have not said yet who they are
    displaced: int = 0  # of these, closed to make room for others
    open: int = 0
    turned_away: int = 0  # because too many were open, in all or of one host
    busy: int = 0  # because as many were served for the same purpose as may be
    pings_answered: int = 0
    syncs_served: int = 0
    syncs_failed: int = 0
