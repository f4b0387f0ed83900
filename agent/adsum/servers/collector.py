"""What the store keeps is kept from Python's garbage collector, which would walk all of it each time that it
looks at old objects: 44 ms for a million keys, during which nobody is answered.

The table's blocks have no cycles, so nothing is lost by never looking at them. What else lives at that moment
is never looked at again either: that is why the young are looked at first, and why it is not done more often
than the table grows by a quarter.
"""

from __future__ import annotations

import gc

KEYS_MIN = 10_000  # fewer are walked in half a millisecond


class KeptFromCollector:
    def __init__(self) -> None:
        self._keys = 0  # when it was done last

    def grown(self, keys: int) -> None:
        if keys >= max(KEYS_MIN, self._keys + self._keys // 4):
            self._keys = keys
            gc.collect(1)
            gc.freeze()
