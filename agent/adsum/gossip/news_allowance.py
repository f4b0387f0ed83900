"""How many bytes of news an agent sends in a second.

Ticks and probes take what they need, which is bounded by their number and size, and are counted. Pushes, and
answers to who asks, take what those leave. So in a flood an agent sends hardly more than its ticks alone, and
without one nearly all is for pushes.
"""

from __future__ import annotations

from adsum.allowance import Allowance

# Twenty changes a second in a cluster of any size are 14 KB. Ticks send up to 20 KB.
BYTES_A_SECOND = 24 * 1024
AT_ONCE = 8 * 1024  # one full datagram to each of five
# Where what arises here goes to everybody: two changes among 64, or twenty among 40.
SMALL_AT_ONCE = 64 * 1024


class NewsAllowance:
    def __init__(self) -> None:
        self._bytes = Allowance(a_second=BYTES_A_SECOND, at_once=AT_ONCE)
        self._small = Allowance(a_second=BYTES_A_SECOND, at_once=SMALL_AT_ONCE)

    def charge(self, now_ns: int, bytes_: int) -> None:
        self._bytes.charge(now_ns, bytes_)
        self._small.charge(now_ns, bytes_)

    def of(self, *, is_small: bool) -> Allowance:
        """For a cluster where what arises here is pushed to all, or a larger one; to be charged here."""
        return self._small if is_small else self._bytes
