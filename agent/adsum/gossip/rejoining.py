"""When an agent that has joined should ask again whom it was told to join."""

from __future__ import annotations

from adsum.gossip.order import MemberStatus
from adsum.gossip.shared_state import SharedState
from adsum.now import Now


def is_forgotten(shared: SharedState, now: Now) -> bool:
    """Nobody lists it, whomever it lists: all whom it knew may have moved, been replaced, or be forgotten."""
    has_met_somebody = bool(shared.tally.transitions)
    return has_met_somebody and shared.guard.is_forgotten(now.monotonic_ns)


def misses_others(shared: SharedState) -> bool:
    """Those who failed may be back elsewhere, and have found each other there. One of all asks at a time."""
    has_failed = shared.roster.counts[MemberStatus.FAILED] > 0
    return has_failed and shared.random.random() * shared.members < 1
