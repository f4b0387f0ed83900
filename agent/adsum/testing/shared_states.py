"""What a thousand simulated agents know of owners, kept once.

They share what comes of applying a delta: a change then costs one new state and not a thousand, and equal
states that were reached in different ways become one again as soon as they are complete.
"""

from __future__ import annotations

from adsum.catalog.replication import state as states
from adsum.catalog.replication.deltas import RANGE_BYTES_MAX, Delta
from adsum.catalog.replication.interner import Halves, Interner
from adsum.catalog.replication.state import OwnerState

SHARED_MAX = 16_384


class SharedStates(Interner):
    """For many holders in one process. States are compared by identity, so the memory keeps them alive."""

    def __init__(self) -> None:
        super().__init__(SHARED_MAX, kept_bytes_max=RANGE_BYTES_MAX)
        self._applied: Halves[tuple[OwnerState, Delta], OwnerState] = Halves(SHARED_MAX)
        self._complete: Halves[tuple[bytes, int, int, int], OwnerState] = Halves(SHARED_MAX)
        self._collected: Halves[tuple[OwnerState, int], OwnerState] = Halves(SHARED_MAX)
        self._spans: Halves[tuple[OwnerState, int], tuple[bytes, bool]] = Halves(SHARED_MAX)

    def applied(self, state: OwnerState, delta: Delta) -> OwnerState:
        result = self._applied.get((state, delta))
        if result is None:
            result = states.applied(state, delta)
            if result.is_complete:
                result = self._canonical(result)
            self._applied.put((state, delta), result)
        return result

    def fresh(self, owner: bytes, generation: int) -> OwnerState:
        return self._canonical(OwnerState(owner, generation))

    def span(self, state: OwnerState, since: int, room_bytes: int) -> tuple[bytes, bool]:
        found = self._spans.get((state, since))
        if found is None or len(found[0]) > room_bytes:
            found = states.span_of(state, since, room_bytes)
            if found[1]:
                self._spans.put((state, since), found)
        return found

    def collected(self, state: OwnerState, version: int) -> OwnerState:
        result = self._collected.get((state, version))
        if result is None:
            result = states.collected(state, version)
            self._collected.put((state, version), result)
        return result

    def _canonical(self, state: OwnerState) -> OwnerState:
        """Complete states of one version differ in their tombstones at most, which any holder may lack."""
        key = (state.owner, state.generation, state.version, state.digest)
        known = self._complete.get(key)
        if known is None:
            self._complete.put(key, state)
            return state
        return known
