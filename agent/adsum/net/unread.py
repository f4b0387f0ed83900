"""Bytes that other agents sent and that wait here: half a frame, half a roster, a question in hand.

One budget for all streams, of which one host may hold a part, so that neither many halves nor one host fill
the memory. Whoever would hold more is cut off. Nobody holds any for long: a frame that has begun must end
within `channel.FRAME_TIMEOUT_S`, an exchange within `streams.SYNC_S`, a question within its deadline.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field

from adsum.mutable import dataclass
from adsum.net.errors import NoRoomForPeer

UNREAD_BYTES_MAX = 32 * 1024 * 1024
UNREAD_PER_HOST_BYTES_MAX = 10 * 1024 * 1024  # one frame of the longest, which has 9 MiB
REASONS = ("all", "host", "length")


@dataclass(slots=True)
class UnreadCounters:
    held_bytes: int = 0
    # all: the budget was used up; host: its part for one host was; length: longer than its sender may send
    refused: Counter[str] = field(default_factory=Counter)


class UnreadBytes:
    def __init__(
        self, *, bytes_max: int = UNREAD_BYTES_MAX, per_host_bytes_max: int = UNREAD_PER_HOST_BYTES_MAX
    ) -> None:
        self.counters = UnreadCounters()
        self._bytes_max = bytes_max
        self._per_host_bytes_max = per_host_bytes_max
        self._by_host: Counter[str] = Counter()

    def share(self, host: str) -> Share:
        return Share(self, host)

    def take(self, host: str, size: int) -> None:
        if self._by_host[host] + size > self._per_host_bytes_max:
            self._refuse("host", "its host sent more than is held for one host")
        if self.counters.held_bytes + size > self._bytes_max:
            self._refuse("all", "more was sent by all than is held")
        self.counters.held_bytes += size
        self._by_host[host] += size

    def give_back(self, host: str, size: int) -> None:
        self.counters.held_bytes -= size
        self._by_host[host] -= size
        if not self._by_host[host]:
            del self._by_host[host]

    def _refuse(self, reason: str, sentence: str) -> None:
        self.counters.refused[reason] += 1
        raise NoRoomForPeer(sentence)


class Share:
    """What one stream holds of it."""

    __slots__ = ("_bytes", "_host", "_unread")

    def __init__(self, unread: UnreadBytes, host: str) -> None:
        self._unread = unread
        self._host = host
        self._bytes = 0

    def hold(self, size: int) -> None:
        """So much more; raises NoRoom when it is too much."""
        self._unread.take(self._host, size)
        self._bytes += size

    def free(self, size: int) -> None:
        self._unread.give_back(self._host, size)
        self._bytes -= size

    def close(self) -> None:
        self.free(self._bytes)

    def refuse_length(self) -> None:
        self._unread.counters.refused["length"] += 1
