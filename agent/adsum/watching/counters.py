from __future__ import annotations

from adsum.mutable import dataclass


@dataclass(slots=True)
class WatchCounters:
    """Of all watches, since start."""

    questions_failed: int = 0
    handled: int = 0
    handlers_failed: int = 0
    handlers_timed_out: int = 0  # of those that failed
