"""How much of something others may cause: so much at once, and so much a second in the long run.

Each allowance is one virtual clock (the generic cell rate algorithm, ITU-T I.371): what is taken moves it
forward, and it may run ahead of the real one by what is allowed at once. So nothing needs to be refilled, and
an allowance that is not used costs nothing. Amounts are in any unit: requests, bytes, nanoseconds of work.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Generic, TypeVar

from adsum.now import SECOND

Key = TypeVar("Key", bound=Hashable)


class Allowance:
    __slots__ = ("_at_once_ns", "_cost_ns", "_paid_until_ns")

    def __init__(self, *, a_second: float, at_once: float) -> None:
        self._cost_ns = SECOND / a_second
        self._at_once_ns = self._cost_ns * at_once
        self._paid_until_ns = 0.0

    def take(self, now_ns: int, amount: float = 1) -> bool:
        """All of the amount, or nothing of it."""
        after_ns = max(self._paid_until_ns, now_ns) + amount * self._cost_ns
        if after_ns - now_ns > self._at_once_ns:
            return False
        self._paid_until_ns = after_ns
        return True

    def can_take(self, now_ns: int, amount: float = 1) -> bool:
        after_ns = max(self._paid_until_ns, now_ns) + amount * self._cost_ns
        return after_ns - now_ns <= self._at_once_ns

    def can_take_from_ns(self, amount: float = 1) -> int:
        """From when on that much can be taken, or since when."""
        return math.ceil(self._paid_until_ns + amount * self._cost_ns - self._at_once_ns)

    def is_left(self, now_ns: int) -> bool:
        """Whether anything is: for work whose amount is known afterwards, see `charge`."""
        return self._paid_until_ns - now_ns < self._at_once_ns

    def left_in_ns(self, now_ns: int) -> int:
        """How long until there is; 0 when there is now."""
        return max(0, math.floor(self._paid_until_ns - now_ns - self._at_once_ns) + 1)

    def charge(self, now_ns: int, amount: float) -> None:
        """Also more than is left, and more than is allowed at once: the rest is a debt, paid off by time."""
        self._paid_until_ns = max(self._paid_until_ns, now_ns) + amount * self._cost_ns

    def is_unused(self, now_ns: int) -> bool:
        """All that is allowed at once is there to be taken."""
        return self._paid_until_ns <= now_ns


class Allowances(Generic[Key]):
    """One for each source. When there are too many sources, those that owe nothing are forgotten, which
    changes nothing for them; if all owe, all are: made-up sources must not lock out real ones."""

    def __init__(self, *, a_second: float, at_once: float, sources_max: int) -> None:
        self._a_second = a_second
        self._at_once = at_once
        self._sources_max = sources_max
        self._by_source: dict[Key, Allowance] = {}

    def __len__(self) -> int:
        return len(self._by_source)

    def take(self, now_ns: int, source: Key, amount: float = 1) -> bool:
        allowance = self._by_source.get(source)
        if allowance is None:
            if len(self._by_source) >= self._sources_max:
                owing = {key: each for key, each in self._by_source.items() if not each.is_unused(now_ns)}
                self._by_source = owing if len(owing) < self._sources_max else {}
            allowance = self._by_source[source] = Allowance(a_second=self._a_second, at_once=self._at_once)
        return allowance.take(now_ns, amount)
