"""What somebody else's question may cost before it is refused.

Counted, not timed: the same question about the same rows costs the same on every host and in every run. The
prices are nanoseconds of the worst case, measured on one core of a machine of 2026 (CPython 3.11, RE2 of
November 2025); most of what is paid for costs a fraction of that.
"""

from __future__ import annotations


class TooMuchWork(Exception):
    """What was granted is used up."""


class Work:
    __slots__ = ("_granted_ns", "_left_ns")

    def __init__(self, granted_ns: int) -> None:
        self._granted_ns = self._left_ns = granted_ns

    @property
    def spent_ns(self) -> int:
        return self._granted_ns - self._left_ns

    def grant(self, more_ns: int) -> None:
        self._granted_ns += more_ns
        self._left_ns += more_ns

    def spend(self, cost_ns: int) -> None:
        self._left_ns -= cost_ns
        if self._left_ns < 0:
            raise TooMuchWork
