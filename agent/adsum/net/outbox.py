"""What waits to be sent on one connection: bounded in bytes, sent in pieces as large as are waiting.

While one piece is on its way the next ones gather, so a busy connection needs few system calls and an idle
one none of the waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import trio

from adsum.net.channel import Channel

BYTES_MAX = 32 * 1024 * 1024  # four times what Raft has on its way to one follower
PIECE_BYTES = 256 * 1024

Letter = tuple[bytes, Callable[[], bool] | None]  # a frame, and who knows when it leaves whether it should


class Outbox:
    __slots__ = ("_has_rest", "_letters", "_news", "_room", "bytes", "bytes_max")

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self.bytes = 0
        self.bytes_max = bytes_max
        self._letters: deque[Letter] = deque()
        self._has_rest = False
        self._news = trio.lowlevel.ParkingLot()
        self._room = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        return len(self._letters)

    def put(self, frame: bytes, leaves: Callable[[], bool] | None = None) -> bool:
        """False when it is full: nothing was queued."""
        if self.bytes + len(frame) > self.bytes_max:
            return False
        self.put_anyway(frame, leaves)
        return True

    def put_anyway(self, frame: bytes, leaves: Callable[[], bool] | None = None) -> None:
        """Past the limit too: for what is bounded already by the calls it answers."""
        self._letters.append((frame, leaves))
        self.bytes += len(frame)
        if self._news:
            self._news.unpark()

    def clear(self) -> int:
        """How many were thrown away that nobody is asked about."""
        thrown = sum(leaves is None for _, leaves in self._letters)
        self._letters.clear()
        self._emptied(self.bytes)
        return thrown

    def mind_rest(self) -> None:
        """The channel has some left of what was sent past this, and nobody waits for it."""
        self._has_rest = True
        self._news.unpark()

    async def wait(self) -> None:
        while not self._letters and not self._has_rest:
            await self._news.park()

    @property
    def is_tight(self) -> bool:
        return self.bytes * 2 > self.bytes_max

    async def wait_for_room(self) -> None:
        """Until half of it is free: whoever makes work for a peer waits here while it does not read."""
        while self.is_tight:
            await self._room.park()

    async def send_to(self, channel: Channel) -> None:
        """What is waiting, as one piece."""
        piece: list[bytes] = []
        size = gone = 0
        while self._letters and size < PIECE_BYTES:
            frame, leaves = self._letters.popleft()
            gone += len(frame)
            if leaves is None or leaves():
                piece.append(frame)
                size += len(frame)
        self._emptied(gone)
        self._has_rest = False
        await channel.send(*piece)

    def _emptied(self, by: int) -> None:
        self.bytes -= by
        if self._room and not self.is_tight:
            self._room.unpark_all()
