"""When an agent that has joined should ask again whom it was told to join."""

from __future__ import annotations

from adsum.gossip.order import Status
from adsum.gossip.shared_state import Commons
from adsum.now import Now


def is_forgotten(commons: Commons, now: Now) -> bool:
    """Nobody lists it, whomever it lists: all whom it knew may have moved, been replaced, or be forgotten."""
    has_met_somebody = bool(commons.tally.transitions)
    return has_met_somebody and commons.guard.is_forgotten(now.monotonic_ns)


def misses_others(commons: Commons) -> bool:
    """Those who failed may be back elsewhere, and have found each other there. One of all asks at a time."""
    has_failed = commons.roster.counts[Status.FAILED] > 0
    return has_failed and commons.random.random() * commons.members < 1
