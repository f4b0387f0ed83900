"""Where two holders are with an owner, and what one hands to the other: the part of an exchange that is the
same on both sides."""

from __future__ import annotations

from collections.abc import Iterable

from adsum.catalog.replication.bodies import AGE_MAX, AGE_NS, WANTED_MAX, OwnerStanding, Ranges
from adsum.catalog.replication.owner_table import OwnerEntry, OwnerTable
from adsum.catalog.replication.state import OwnerState
from adsum.cbor import BadEncoding
from adsum.now import Now


def take(copies: OwnerTable, now: Now, teller: bytes, ranges: Ranges) -> bool:
    """Applies what was handed over; whether an owner changed."""
    has_changed = False
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
            has_changed = True
    return has_changed


def still_missing(copies: OwnerTable, wants: dict[bytes, OwnerStanding]) -> dict[bytes, OwnerStanding]:
    """Without those that are reached by now, or gone."""
    missing = {}
    for owner, theirs in wants.items():
        holding = copies.holdings.get(owner)
        front = holding.front if holding is not None else None
        is_reached = front and (front.generation, front.low_water) >= (theirs.generation, theirs.low_water)
        if holding is not None and not is_reached:
            missing[owner] = theirs
    return missing


def span_for(copies: OwnerTable, theirs: OwnerStanding, room_bytes: int) -> tuple[bytes, bool]:
    """What they lack of an owner, and whether that is all; nothing when they are not behind us."""
    state = copies.state(theirs.owner)
    told = theirs.generation, theirs.low_water
    if state is None or not state.version or told >= (state.generation, state.version):
        return b"", True
    is_below = theirs.low_water < state.gc_version and theirs.gc_version < state.gc_version
    begins = theirs.generation < state.generation or is_below
    return copies.interner.span(state, 0 if begins else theirs.low_water, room_bytes)


def in_order(copies: OwnerTable, wanted: Iterable[OwnerStanding]) -> list[OwnerStanding]:
    """Whom they do not know first and the small before the big, then who is most behind."""

    def order(theirs: OwnerStanding) -> tuple[int, int]:
        state = copies.state(theirs.owner)
        if state is None:
            return 2, 0
        if theirs.low_water == 0 or theirs.generation < state.generation:
            return 0, state.size_bytes
        return 1, theirs.low_water - state.version

    return sorted(wanted, key=order)


def positions(copies: OwnerTable, wants: Iterable[bytes]) -> list[OwnerStanding]:
    """Where we are with the first that we want."""
    holdings = [copies.holdings[owner] for owner in list(wants)[:WANTED_MAX]]
    return [_standing(each.owner, each.front, age=0) for each in holdings]


def standing_of(now: Now, holding: OwnerEntry) -> OwnerStanding:
    front = holding.front
    if front is None or not front.version:
        return _standing(holding.owner, None, AGE_MAX)
    return _standing(holding.owner, front, age_of(now, holding))


def _standing(owner: bytes, front: OwnerState | None, age: int) -> OwnerStanding:
    if front is None:
        return OwnerStanding(owner, 0, 0, 0, 0, age)
    return OwnerStanding(owner, front.generation, front.low_water, front.gc_version, mark(front), age)


def mark(state: OwnerState) -> int:
    return state.share & 0xFFFFFFFF


def age_of(now: Now, holding: OwnerEntry) -> int:
    return min(AGE_MAX, (now.monotonic_ns - holding.changed_ns) // AGE_NS)
