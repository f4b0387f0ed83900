"""What the store keeps is kept from Python's garbage collector, which would walk all of it each time that it
looks at old objects: 44 ms for a million keys, during which nobody is answered.

The table's blocks have no cycles, so nothing is lost by never looking at them. What else lives at that moment
is never looked at again either: that is why the young are looked at first, and why it is not done more often
than the table grows by a quarter.

While a snapshot is written, blocks are copied and as many are freed, so Python's own count of what is young
stays low: of a million keys all blocks would be looked at in one go. So they are looked at while they are
few.
"""

from __future__ import annotations

import gc

KEYS_MIN = 10_000  # fewer are walked in half a millisecond
COPIES_AT_ONCE = 256  # blocks, of up to 256 keys: some two milliseconds


class KeptFromCollector:
    def __init__(self) -> None:
        self._keys = 0  # when it was done last
        self._copies = 0  # of blocks, that were looked at

    def changed(self, keys: int, copies: int) -> None:
        """`copies` of blocks since the table was made; a restored one is another."""
        is_larger = keys >= max(KEYS_MIN, self._keys + self._keys // 4)
        if is_larger or not 0 <= copies - self._copies < COPIES_AT_ONCE:
            self._copies = copies
            gc.collect(1)
        if is_larger:
            self._keys = keys
            gc.freeze()
