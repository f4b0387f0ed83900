"""One owner's items as one holder has them: immutable, so that answers, waiters and a thousand simulated
holders share them.

Push may skip: a delta that came is visible at once, whatever was missed before it. What is complete is known
by the owner's digest, which every delta carries: when ours equals the newest one heard, nothing is missing,
and `low_water` is that version. Else it stays where it was, and the next exchange asks from there.

Whatever has a version up to `low_water` is not news, known or not: what we do not have of it was removed.
The same goes up to `gc_version`, below which tombstones are forgotten; who is below that of its partner in
an exchange is given the whole owner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from adsum.catalog.replication.deltas import Delta, span
from adsum.catalog.replication.items import NUMBER_MAX, Item, share, term

OWNER_BYTES_MAX = 64 * 1024 * 1024
ITEM_OVERHEAD_BYTES = 16  # what an item costs in an exchange besides its value
_NOTHING: Mapping[int, Item] = {}


class TooBig(ValueError):
    """The owner's fault: nothing was applied."""


class OwnerState:
    """Compared by identity: who holds the same one holds the same."""

    __slots__ = (
        "claimed",
        "digest",
        "gc_version",
        "generation",
        "items",
        "low_water",
        "owner",
        "share",
        "size_bytes",
        "version",
    )

    def __init__(
        self,
        owner: bytes,
        generation: int,
        *,
        version: int = 0,
        claimed: int = 0,
        low_water: int = 0,
        gc_version: int = 0,
        items: Mapping[int, Item] = _NOTHING,
        digest: int = 0,
        size_bytes: int = 0,
    ) -> None:
        assert low_water <= version
        self.owner = owner
        self.generation = generation
        self.version = version  # the newest heard of
        self.claimed = claimed  # the owner's digest at that version
        self.low_water = low_water  # everything up to here is known
        self.gc_version = gc_version
        self.items = items  # with tombstones, until they are collected
        self.digest = digest
        self.size_bytes = size_bytes
        self.share = share(owner, generation, low_water, digest)

    @property
    def is_complete(self) -> bool:
        return self.low_water == self.version > 0 and self.digest == self.claimed

    @property
    def is_torn(self) -> bool:
        """We were told everything and it does not add up: who told us had never heard of some removal."""
        return self.low_water == self.version and self.digest != self.claimed

    def live(self) -> Iterator[Item]:
        return (item for item in self.items.values() if item.value is not None)

    def since(self, version: int) -> list[Item]:
        """Oldest first, so that whoever stops in the middle knows where to go on."""
        wanted = [item for item in self.items.values() if item.version > version] if version else self.live()
        return sorted(wanted, key=lambda item: item.version)


def span_of(state: OwnerState, since: int, room_bytes: int) -> tuple[bytes, bool]:
    """All there is after a version, or as much of it as fits, one item at least; and whether that was all."""
    items, is_all = state.since(since), True
    for place, item in enumerate(items):
        room_bytes -= _size_bytes(item)
        if room_bytes < 0 and place:
            items, is_all = items[:place], False
            break
    through = state.low_water if is_all else min(items[-1].version, state.low_water)
    # A whole owner is told without its tombstones: for whoever gets it, they are as good as collected.
    graves = () if since else (item.version for item in state.items.values() if item.value is None)
    encoded = span(
        state.owner,
        state.generation,
        state.version,
        state.claimed,
        items,
        since=since,
        through=max(since, through),
        gc_version=max(state.gc_version, *graves, 0),
    )
    return encoded, is_all


def applied(state: OwnerState, delta: Delta) -> OwnerState:
    """The state with what the delta brings; the very same one if that is nothing. Of one generation."""
    assert (delta.owner, delta.generation) == (state.owner, state.generation)
    low_water, gc_version = state.low_water, state.gc_version
    if delta.through is not None and delta.since <= low_water:
        fresh = [item for item in delta.items if _is_news(state, item, low_water)]
        gc_version = max(gc_version, delta.gc_version) if low_water == 0 else gc_version
        low_water = max(low_water, delta.through)
    else:
        fresh = [item for item in delta.items if _is_news(state, item, gc_version)]
    if not fresh and low_water == state.low_water and delta.version <= state.version:
        return state
    version, claimed = state.version, state.claimed
    if delta.version > version:
        version, claimed = delta.version, delta.digest
    return merged(state, fresh, version, gc_version, claimed=claimed, low_water=low_water)


def _is_news(state: OwnerState, item: Item, removed_until: int) -> bool:
    if item.version <= state.low_water:
        return False
    known = state.items.get(item.number)
    return item.version > (removed_until if known is None else known.version)


def merged(
    state: OwnerState,
    fresh: list[Item],
    version: int,
    gc_version: int,
    *,
    claimed: int | None = None,
    low_water: int = 0,
) -> OwnerState:
    """With the fresh ones. Without a claimed digest the owner itself adds them: what comes of it is right."""
    items, digest, size_bytes = dict(state.items), state.digest, state.size_bytes
    for item in fresh:
        before = items.get(item.number)
        if before is not None:
            digest ^= term(before)
            size_bytes -= _size_bytes(before)
        digest ^= term(item)
        size_bytes += _size_bytes(item)
        items[item.number] = item
    if len(items) > NUMBER_MAX or size_bytes > OWNER_BYTES_MAX:
        raise TooBig(f"{len(items)} items in {size_bytes} bytes")
    claimed = digest if claimed is None else claimed
    return OwnerState(
        state.owner,
        state.generation,
        version=version,
        claimed=claimed,
        low_water=version if digest == claimed else low_water,
        gc_version=gc_version,
        items=items if fresh else state.items,
        digest=digest,
        size_bytes=size_bytes,
    )


def _size_bytes(item: Item) -> int:
    return ITEM_OVERHEAD_BYTES + len(item.value or b"")


def collected(state: OwnerState, version: int) -> OwnerState:
    """Without the tombstones up to that version."""
    gone = [item for item in state.items.values() if item.value is None and item.version <= version]
    if not gone:
        return state
    numbers = dict.fromkeys(item.number for item in gone)
    return OwnerState(
        state.owner,
        state.generation,
        version=state.version,
        claimed=state.claimed,
        low_water=state.low_water,
        gc_version=max(state.gc_version, *(item.version for item in gone)),
        items={number: item for number, item in state.items.items() if number not in numbers},
        digest=state.digest,
        size_bytes=state.size_bytes - ITEM_OVERHEAD_BYTES * len(gone),
    )


def changes(before: OwnerState | None, after: OwnerState | None) -> list[tuple[Item | None, Item | None]]:
    """What a reader has to redo: items as they were and as they are; None where there is none."""
    old: Mapping[int, Item] = before.items if before is not None else {}
    new: Mapping[int, Item] = after.items if after is not None else {}
    pairs = [
        (_alive(old.get(number)), _alive(item)) for number, item in new.items() if old.get(number) is not item
    ]
    pairs += [(_alive(item), None) for number, item in old.items() if number not in new]
    return [(was, now) for was, now in pairs if was is not None or now is not None]


def _alive(item: Item | None) -> Item | None:
    return item if item is not None and item.value is not None else None
