"""Frames over one stream to another agent: one sender and one receiver at a time, each step with its
deadline.

A frame that has begun must end within a time of its own, so a peer that trickles bytes is cut off like one
that does not read what we send.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import trio

from adsum.net.errors import Lost, TimedOut
from adsum.net.framing import FrameReader, FrameWriter, Oversized
from adsum.net.unread import Share, UnreadBytes

CHUNK_BYTES_MIN = 1_024  # read at once; more only from those who may send longer frames
CHUNK_BYTES_MAX = 65_536
FRAMES_BEFORE_YIELD = 64  # frames that came in one piece are handed out without a wait: not for too long
FRAME_TIMEOUT_S = 10.0  # for 9 MiB, the longest there are, that is 8 Mbit/s


def is_always_good() -> bool:
    return True


class Channel:
    __slots__ = ("_handed_out", "_is_key_good", "_reader", "_stream", "_waiting_bytes", "_writer", "share")

    def __init__(
        self,
        stream: trio.abc.Stream,
        sending: FrameWriter,
        receiving: FrameReader,
        is_key_good: Callable[[], bool] = is_always_good,
    ) -> None:
        """A key that was removed from the keyring ends the streams that it seals: `is_key_good` tells."""
        self._stream = stream
        self._writer = sending
        self._reader = receiving
        self._is_key_good = is_key_good
        self._handed_out = 0
        self.share = UnreadBytes().share("")  # of its own until the peer is known: an introduction at most
        self._waiting_bytes = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """At once: what needs an orderly end says so in a frame, and a peer that does not read must not hold
        us.
        """
        self._reader.clear()
        self.share.close()
        await trio.aclose_forcefully(self._stream)

    def widen(self, payload_bytes_max: int) -> None:
        """The peer is known now, and may be sent, and send, longer frames."""
        self._writer.payload_bytes_max = payload_bytes_max
        self._reader.payload_bytes_max = payload_bytes_max

    def read_at_most(self, payload_bytes_max: int) -> None:
        """Whoever only asks, or is a stranger, may send shorter frames than it is sent."""
        self._reader.payload_bytes_max = min(self._reader.payload_bytes_max, payload_bytes_max)

    def count_in(self, share: Share) -> None:
        """From now on what has come in part is held on this, and what is kept: half a roster, a question."""
        self.share = share
        self._waiting_bytes = 0

    async def send(self, *payloads: bytes) -> None:
        self._check_key()
        data = b"".join([self._writer.pack(payload) for payload in payloads])
        with trio.move_on_after(FRAME_TIMEOUT_S):
            await send_all(self._stream, data)
            return
        raise TimedOut("it does not read what we send")

    async def receive(self, *, idle_s: float) -> bytes:
        """The next frame. The end of the stream is Lost, also between two frames."""
        payload = self._next()
        if payload is None:
            self._handed_out = 0
            payload = await self._receive(idle_s)
        self._handed_out += 1
        if self._handed_out % FRAMES_BEFORE_YIELD == 0:
            await trio.lowlevel.checkpoint()
        self._check_key()
        return payload

    async def _receive(self, idle_s: float) -> bytes:
        is_begun = False
        chunk_bytes = min(CHUNK_BYTES_MAX, max(CHUNK_BYTES_MIN, self._reader.payload_bytes_max))
        with trio.move_on_after(idle_s) as scope:
            while True:
                if self._reader.waiting_bytes and not is_begun:
                    is_begun = True
                    scope.deadline = trio.current_time() + FRAME_TIMEOUT_S
                self._reader.feed(await receive_some(self._stream, chunk_bytes))
                payload = self._next()
                if payload is not None:
                    return payload
        raise TimedOut("it does not end the frame it began" if is_begun else "it says nothing")

    def _next(self) -> bytes | None:
        try:
            payload = self._reader.next()
        except Oversized:
            self.share.refuse_length()
            raise
        more_bytes = self._reader.waiting_bytes - self._waiting_bytes
        if more_bytes > 0:
            self.share.hold(more_bytes)
        elif more_bytes < 0:
            self.share.free(-more_bytes)
        self._waiting_bytes += more_bytes
        return payload

    def _check_key(self) -> None:
        if not self._is_key_good():
            raise Lost("the key that sealed this stream was removed from the keyring")


async def send_all(stream: trio.abc.Stream, data: bytes) -> None:
    try:
        await stream.send_all(data)
    except trio.BrokenResourceError as error:
        raise _lost(error) from error


async def receive_some(stream: trio.abc.Stream, bytes_max: int) -> bytes | bytearray:
    try:
        data = await stream.receive_some(bytes_max)
    except trio.BrokenResourceError as error:
        raise _lost(error) from error
    if not data:
        raise Lost("it closed the stream")
    return data


def _lost(error: trio.BrokenResourceError) -> Lost:
    return Lost(f"the connection broke: {error.__cause__ or error}")
