"""What the store keeps is kept from Python's garbage collector, which would walk all of it each time that it
looks at old objects: 44 ms for a million keys, during which nobody is answered.

The table's blocks have no cycles, so nothing is lost by never looking at them. What else lives at that moment
is never looked at again either, be it garbage or not: that is why the young are looked at first, and why
requests, calls and connections make no cycles, as a test of each sees. To look at all of the rest would take
as long as the blocks do: requests that are known are kept by the ten thousand.

Python's own count of what is young is of objects that were made and not freed. Where each change puts an old
one out of the history, and each block that is copied while a snapshot is written frees one, the count stays
low while the young become tens of thousands, and all are looked at in one go. So they are looked at here
while they are few, and blocks are kept from it for good before they are many.
"""

from __future__ import annotations

import gc

KEYS_MIN = 10_000  # fewer are walked in half a millisecond
BLOCKS_AT_ONCE = 64  # of up to 256 keys: four milliseconds where they lie all over the memory
BLOCKS_KEPT = 256  # before they are kept from it
ENTRIES_AT_ONCE = 1_000  # applied; one makes some five young objects


class KeptFromCollector:
    def __init__(self) -> None:
        self._applied = 0  # entries, when the young were looked at last
        self._made = 0  # blocks, at that time
        self._kept = 0  # of those, from the collector

    def changed(self, applied: int, keys: int, made: int) -> None:
        """`made`, new or copied, since the table was; a restored one is another."""
        are_new = not 0 <= made - self._made < BLOCKS_AT_ONCE
        if not are_new and 0 <= applied - self._applied < ENTRIES_AT_ONCE:
            return
        self._applied, self._made = applied, made
        gc.collect(1)
        if keys >= KEYS_MIN and not 0 <= made - self._kept < BLOCKS_KEPT:
            self._kept = made
            gc.freeze()
