"""Keys that nobody may acquire yet, because their holder's session ended, in one keyspace.

Until when is cluster time, which every entry carries: so no clock of a server, no restart and no change of
the leader shortens a delay. None is put out before it is over; what is over is put out in turns.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from zlib import crc32

PUT_OUT_MAX = 128  # with one entry: as many as a transaction locks, so they never grow faster than they go
MASK = 0xFFFFFFFF  # a checksum starts from 32 bits


class LockDelays:
    def __init__(self) -> None:
        self._until: dict[bytes, int] = {}  # cluster time in ms
        self.ends: list[tuple[int, bytes]] = []  # a heap; with some that do not count any more
        self._sum = 0

    def __len__(self) -> int:
        return len(self._until)

    @property
    def standing(self) -> tuple[int, int]:
        return len(self._until), self._sum

    def start(self, keys: list[bytes], until_ms: int) -> None:
        for key in keys:
            if key in self._until:
                self._take(key)
            self._until[key] = until_ms
            self._sum += crc32(key, until_ms & MASK)
            heappush(self.ends, (until_ms, key))

    def left_ms(self, key: bytes, cluster_ms: int) -> int:
        return max(self._until.get(key, 0) - cluster_ms, 0)

    def put_out(self, cluster_ms: int) -> None:
        """What is over, with each entry so many: all servers have put out the same."""
        left = PUT_OUT_MAX
        while left and self.ends and self.ends[0][0] <= cluster_ms:
            until_ms, key = heappop(self.ends)
            if self._until.get(key) == until_ms:
                self._take(key)
                left -= 1

    def all(self) -> list[tuple[bytes, int]]:
        return list(self._until.items())

    def load(self, delays: list[tuple[bytes, int]]) -> None:
        for key, until_ms in delays:
            self._until[key] = until_ms
            self._sum += crc32(key, until_ms & MASK)
            self.ends.append((until_ms, key))
        heapify(self.ends)

    def _take(self, key: bytes) -> None:
        until_ms = self._until.pop(key, None)
        if until_ms is not None:
            self._sum -= crc32(key, until_ms & MASK)
