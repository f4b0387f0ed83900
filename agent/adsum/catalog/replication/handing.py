"""Where two holders are with an owner, and what one hands to the other: the part of an exchange that is the
same on both sides."""

from __future__ import annotations

from adsum.catalog.replication.bodies import AGE_MAX, AGE_NS, OwnerStanding, Ranges
from adsum.catalog.replication.owner_table import OwnerEntry, OwnerTable
from adsum.catalog.replication.state import OwnerState
from adsum.cbor import BadEncoding
from adsum.now import Now


class Handing:
    def __init__(self, copies: OwnerTable) -> None:
        self._copies = copies

    def take(self, now: Now, teller: bytes, ranges: Ranges) -> list[bytes]:
        """Applies what was handed over; the owners that changed."""
        copies, changed = self._copies, list[bytes]()
        for encoded in ranges:
            try:
                delta = copies.interner.delta(encoded)
            except BadEncoding:
                copies.tally.drop("malformed")
                continue
            holding = copies.holdings.get(delta.owner)
            if holding is None:
                copies.tally.drop("unknown owner")
            elif copies.hear(now, teller, holding, delta, is_push=False):
                copies.tally.owners_fetched += 1
                changed.append(delta.owner)
        return changed

    def span(self, owner: bytes, theirs: OwnerStanding, room_bytes: int) -> tuple[bytes, bool]:
        """What they lack of an owner; nothing when they are not behind us."""
        holding = self._copies.holdings.get(owner)
        state = holding.state if holding is not None else None
        if (
            state is None
            or not state.version
            or (theirs.generation, theirs.low_water) >= (state.generation, state.version)
        ):
            return b"", True
        is_below = theirs.low_water < state.gc_version and theirs.gc_version < state.gc_version
        begins = theirs.generation < state.generation or is_below
        return self._copies.interner.span(state, 0 if begins else theirs.low_water, room_bytes)

    def order(self, wanted: OwnerStanding) -> tuple[int, int]:
        """Whom they do not know first and the small before the big, then who is most behind."""
        holding = self._copies.holdings.get(wanted.owner)
        state = holding.state if holding is not None else None
        if state is None:
            return 2, 0
        if wanted.low_water == 0 or wanted.generation < state.generation:
            return 0, state.size_bytes
        return 1, wanted.low_water - state.version

    def position(self, owner: bytes) -> OwnerStanding:
        holding = self._copies.holdings[owner]
        front = holding.front
        if front is None:
            return OwnerStanding(owner, 0, 0, 0, 0, 0)
        return OwnerStanding(owner, front.generation, front.low_water, front.gc_version, mark(front), 0)


def mark(state: OwnerState) -> int:
    return state.share & 0xFFFFFFFF


def is_one_step(theirs: OwnerStanding, mine: OwnerState) -> bool:
    """One push apart, which may be on its way. Two, or with a gap that shows: one has been missed."""
    steps = abs(theirs.low_water - mine.low_water)
    return theirs.generation == mine.generation and steps <= 1 and mine.is_complete


def age_of(now: Now, holding: OwnerEntry) -> int:
    return min(AGE_MAX, (now.monotonic_ns - holding.changed_ns) // AGE_NS)


def standing_of(now: Now, holding: OwnerEntry) -> OwnerStanding:
    state = holding.front
    if state is None or not state.version:
        return OwnerStanding(holding.owner, 0, 0, 0, 0, AGE_MAX)
    age = age_of(now, holding)
    return OwnerStanding(holding.owner, state.generation, state.low_water, state.gc_version, mark(state), age)


def is_reached(front: OwnerState | None, theirs: OwnerStanding) -> bool:
    return front is not None and (front.generation, front.low_water) >= (theirs.generation, theirs.low_water)
