"""Which numbers of a counter have been seen: each is let in once, and those too far behind never."""

from __future__ import annotations

WINDOW = 1_024  # how far the network may reorder what one sender sent; IPsec's is of this order
_MASK = (1 << WINDOW) - 1


class Window:
    __slots__ = ("_highest", "_seen")

    def __init__(self) -> None:
        self._highest = -1
        self._seen = 0  # bit n is the number `highest - n`

    def is_new(self, number: int) -> bool:
        behind = self._highest - number
        return behind < 0 or (behind < WINDOW and not self._seen >> behind & 1)

    def add(self, number: int) -> None:
        ahead = number - self._highest
        if ahead <= 0:
            self._seen |= 1 << -ahead
            return
        # A jump is as wide as the sender likes; the shift must not be.
        self._seen = (self._seen << ahead & _MASK) | 1 if ahead < WINDOW else 1
        self._highest = number
