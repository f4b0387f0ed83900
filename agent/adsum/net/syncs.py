"""One turn in an exchange of rosters, cut into frames and joined again.

    [digest, join?, generation to use, answer?, last?, [[of itself, of others, age in s], …], date in ms]

Every frame has the same shape; the first four fields and the date count in the first frame only. A message
that has not come whole is held against the budget of all streams (`unread`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import trio

from adsum.cbor import BadEncoding
from adsum.gossip.effects import SyncMessage, SyncPart
from adsum.net.channel import Channel
from adsum.net.framing import MalformedFrame, Oversized, read
from adsum.rows import RowCodec, counter, flag, inside, listed, octets, values

PAYLOAD_BYTES_MAX = 64 * 1024
MESSAGE_BYTES_MAX = 8 * 1024 * 1024  # 16,384 members of 512 bytes
PARTS_MAX = 32_768  # twice the members a cluster may have
PARTS_PER_FRAME_MAX = 256
PART_HEAD_BYTES = 16  # CBOR around a part
FRAME_HEAD_BYTES = 64
PART_BYTES_MAX = 4_096  # two claims
NUMBER_MAX = 1 << 64
DATE_MS_MAX = 1 << 48  # of the year 10889
SPARED_S = 1.0  # a frame of 64 KiB, at half a Mbit/s


class Sync:
    """Messages over a channel."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.message_bytes_max = MESSAGE_BYTES_MAX  # that is read
        # Is told for how long our sending excuses that the peer says nothing.
        self.spare: Callable[[float], None] = lambda _for_s: None

    async def send(self, message: SyncMessage) -> None:
        for frame in frames(message):
            self.spare(SPARED_S)
            await self._channel.send(frame)
            await trio.lowlevel.checkpoint()  # of a long roster each frame takes a while to make
        self.spare(0.0)

    async def receive(self, *, idle_s: float) -> SyncMessage:
        joining = JoiningSync()
        held_bytes = 0
        try:
            while True:
                frame = await self._channel.receive(idle_s=idle_s)
                if held_bytes + len(frame) > self.message_bytes_max:
                    self._channel.share.refuse_length()
                    raise Oversized(f"a roster of more than {self.message_bytes_max} bytes")
                self._channel.share.hold(len(frame))
                held_bytes += len(frame)
                message = joining.add(frame)
                if message is not None:
                    return message
        finally:
            self._channel.share.free(held_bytes)


def frames(message: SyncMessage) -> Iterator[bytes]:
    batch: list[SyncPart] = []
    room = PAYLOAD_BYTES_MAX - FRAME_HEAD_BYTES
    for part in message.parts:
        size = len(part.alive) + len(part.verdict) + PART_HEAD_BYTES
        if size > room or len(batch) == PARTS_PER_FRAME_MAX:
            yield _framed(message, batch, is_last=False)
            batch, room = [], PAYLOAD_BYTES_MAX - FRAME_HEAD_BYTES
        batch.append(part)
        room -= size
    yield _framed(message, batch, is_last=True)


def _framed(message: SyncMessage, batch: list[SyncPart], *, is_last: bool) -> bytes:
    head = (message.digest, message.is_join, message.use_generation, message.wants_answer)
    return _FRAME.bytes_of(*head, is_last, batch, message.wall_ms)


class JoiningSync:
    def __init__(self) -> None:
        self._first: SyncMessage | None = None
        self._parts: list[SyncPart] = []

    def add(self, frame: bytes) -> SyncMessage | None:
        """The whole message, once its last frame is there."""
        digest, is_join, advised, wants_answer, is_last, parts, wall_ms = read(_FRAME, frame)
        self._first = self._first or SyncMessage(digest, (), is_join, advised, wants_answer, wall_ms)
        self._parts += parts
        if len(self._parts) > PARTS_MAX:
            raise MalformedFrame("a roster longer than a cluster may be")
        return replace(self._first, parts=tuple(self._parts)) if is_last else None


def _part(alive: bytes, verdict: bytes, age_s: int) -> SyncPart:
    if len(alive) + len(verdict) > PART_BYTES_MAX:
        raise BadEncoding("a member of a roster that makes no sense")
    return SyncPart(alive, verdict, age_s)


_PART = RowCodec(_part, octets("alive"), octets("verdict"), counter("age_s", NUMBER_MAX))
_FRAME: RowCodec[tuple[int, bool, int, bool, bool, tuple[SyncPart, ...], int]] = RowCodec(
    values,
    *(counter("digest", NUMBER_MAX), flag("is_join"), counter("use_generation", NUMBER_MAX)),
    *(flag("wants_answer"), flag("is_last"), listed("parts", inside("", _PART))),
    counter("wall_ms", DATE_MS_MAX, default=0),
)
