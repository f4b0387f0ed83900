"""One turn in an exchange of rosters, cut into frames and joined again.

    [digest, join?, generation to use, answer?, last?, [[of itself, of others, age in s], …], date in ms]

Every frame has the same shape; the first four fields and the date count in the first frame only. A message
that has not come whole is held against the budget of all streams (`unread`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import cbor2

from adsum.gossip.effects import SyncMessage, SyncPart
from adsum.net.channel import Channel
from adsum.net.framing import MalformedFrame, Oversized, array

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
        self._message_bytes_max = MESSAGE_BYTES_MAX
        self._spare: Callable[[float], None] = lambda _for_s: None

    def read_at_most(self, message_bytes_max: int) -> None:
        self._message_bytes_max = message_bytes_max

    def while_sending(self, spare: Callable[[float], None]) -> None:
        """Is told for how long our sending excuses that the peer says nothing."""
        self._spare = spare

    async def send(self, message: SyncMessage) -> None:
        for frame in frames(message):
            self._spare(SPARED_S)
            await self._channel.send(frame)
        self._spare(0.0)

    async def receive(self, *, idle_s: float) -> SyncMessage:
        joining = JoiningSync()
        held_bytes = 0
        try:
            while True:
                frame = await self._channel.receive(idle_s=idle_s)
                self._check_length(held_bytes + len(frame))
                self._channel.hold(len(frame))
                held_bytes += len(frame)
                message = joining.add(frame)
                if message is not None:
                    return message
        finally:
            self._channel.free(held_bytes)

    def _check_length(self, message_bytes: int) -> None:
        if message_bytes > self._message_bytes_max:
            self._channel.refuse_length()
            raise Oversized(f"a roster of more than {self._message_bytes_max} bytes")


def frames(message: SyncMessage) -> Iterator[bytes]:
    head = (message.digest, message.is_join, message.use_generation, message.wants_answer)
    batch: list[tuple[bytes, bytes, int]] = []
    room = PAYLOAD_BYTES_MAX - FRAME_HEAD_BYTES
    for part in message.parts:
        size = len(part.alive) + len(part.verdict) + PART_HEAD_BYTES
        if size > room or len(batch) == PARTS_PER_FRAME_MAX:
            yield cbor2.dumps([*head, False, batch, message.wall_ms])
            batch, room = [], PAYLOAD_BYTES_MAX - FRAME_HEAD_BYTES
        batch.append((part.alive, part.verdict, part.age_s))
        room -= size
    yield cbor2.dumps([*head, True, batch, message.wall_ms])


class JoiningSync:
    def __init__(self) -> None:
        self._first: SyncMessage | None = None
        self._parts: list[SyncPart] = []

    def add(self, frame: bytes) -> SyncMessage | None:
        """The whole message, once its last frame is there."""
        match array(frame):
            case [int(digest), bool(join), int(advised), bool(answer), bool(is_last), list(parts), *more]:
                wall_ms = more[0] if more else 0  # agents of before did not say
            case _:
                raise MalformedFrame("no part of a roster")
        if type(wall_ms) is not int or not (0 <= wall_ms < DATE_MS_MAX):
            raise MalformedFrame("a roster with an impossible date")
        if not (0 <= digest < NUMBER_MAX and 0 <= advised < NUMBER_MAX):
            raise MalformedFrame("a roster with impossible numbers")
        self._first = self._first or SyncMessage(digest, (), join, advised, answer, wall_ms)
        self._parts += map(_part, parts)
        if len(self._parts) > PARTS_MAX:
            raise MalformedFrame("a roster longer than a cluster may be")
        return replace(self._first, parts=tuple(self._parts)) if is_last else None


def _part(fields: object) -> SyncPart:
    match fields:
        case [bytes(alive), bytes(verdict), int(age_s), *_]:
            if 0 <= age_s < NUMBER_MAX and len(alive) + len(verdict) <= PART_BYTES_MAX:
                return SyncPart(alive, verdict, age_s)
    raise MalformedFrame("a member of a roster that makes no sense")
