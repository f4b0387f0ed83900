"""How often the log speaks of one check. Each change is worth a line; the thousandth in a minute is not.

A service can report to its TTL check six thousand times a second, and every other time otherwise than before.
Checks are counted one by one, so that the fall of two thousand at once is told in full.
"""

from __future__ import annotations

from adsum.now import MINUTE

LINES_PER_MINUTE_MAX = 10


class Flapping:
    __slots__ = ("_lines", "_minute_ends_ns", "_untold")

    def __init__(self) -> None:
        self._minute_ends_ns = 0
        self._lines = 0
        self._untold = 0

    def admits(self, monotonic_ns: int) -> bool:
        if monotonic_ns >= self._minute_ends_ns:
            self._minute_ends_ns = monotonic_ns + MINUTE
            self._lines = 0
        self._lines += 1
        if self._lines <= LINES_PER_MINUTE_MAX:
            return True
        self._untold += 1
        return False

    def take_untold(self) -> int:
        """Changes left out since the last line."""
        untold, self._untold = self._untold, 0
        return untold
