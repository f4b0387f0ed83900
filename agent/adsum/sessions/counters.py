"""What a keeper of sessions counts."""

from __future__ import annotations

from adsum.mutable import dataclass


@dataclass(slots=True)
class KeeperCounters:
    renewed: int = 0
    not_found: int = 0  # renewals of what is gone
    refused: int = 0  # renewals, for want of leadership
    refused_full: int = 0  # renewals, for want of room
    expiries: int = 0  # entries with sessions that nobody renewed
    invalidations: int = 0  # entries with sessions of which a node or check failed
    notes: int = 0  # entries with what is left of long sessions
    notes_taken_back: int = 0  # entries, for renewals
    verdicts_asked: int = 0
    verdicts_unlike: int = 0  # the other server did not say the same, or nothing
    lines_dropped: int = 0  # of the log, about ends
