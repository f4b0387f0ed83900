"""What the store keeps is kept from Python's garbage collector, which would walk all of it each time that it
looks at old objects: 44 ms for a million keys, during which nobody is answered.

The table's blocks have no cycles, so nothing is lost by never looking at them. What else lives at that moment
is never looked at again either: that is why all the rest is looked at first, and why requests, calls and
connections make no cycles, as a test of each sees.

Python's own count of what is young is of objects that were made and not freed. Where each change puts an old
one out of the history, and each block that is copied while a snapshot is written frees one, the count stays
low while the young become tens of thousands, and all are looked at in one go. So they are looked at here
while they are few, and blocks are kept from it for good before they are many.
"""

from __future__ import annotations

import gc

KEYS_MIN = 10_000  # fewer are walked in half a millisecond
COPIES_AT_ONCE = 64  # blocks, of up to 256 keys: four milliseconds where they lie all over the memory
COPIES_KEPT = 256  # before they are kept from it
ENTRIES_AT_ONCE = 1_000  # applied; one makes some five young objects


class KeptFromCollector:
    def __init__(self) -> None:
        self._keys = 0  # when the table was found grown last
        self._copies = 0  # of blocks, that were looked at
        self._copies_kept = 0  # of those, from the collector
        self._applied = 0  # entries, when the young were looked at last

    def changed(self, applied: int, keys: int, copies: int) -> None:
        """`copies` of blocks since the table was made; a restored one is another."""
        is_larger = keys >= max(KEYS_MIN, self._keys + self._keys // 4)
        are_copied = not 0 <= copies - self._copies < COPIES_AT_ONCE
        are_applied = not 0 <= applied - self._applied < ENTRIES_AT_ONCE
        if not (is_larger or are_copied or are_applied):
            return
        self._applied, self._copies = applied, copies
        if is_larger:
            self._keys = keys
        if is_larger or (keys >= KEYS_MIN and not 0 <= copies - self._copies_kept < COPIES_KEPT):
            self._copies_kept = copies
            gc.collect()
            gc.freeze()
        else:
            gc.collect(1)
