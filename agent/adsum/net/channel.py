"""Frames over one stream to another agent: one sender and one receiver at a time, each step with its
deadline.

A frame that has begun must end within a time of its own, so a peer that trickles bytes is cut off like one
that does not read what we send.

A socket that speaks in clear is read and written directly: a task waits only where the socket has nothing or
takes nothing. For a write between servers that is most of what the network costs.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Never, Self

import trio

from adsum.net.errors import Lost, TimedOut
from adsum.net.framing import FrameReader, FrameWriter, Oversized
from adsum.net.unread import Share, UnreadBytes

if TYPE_CHECKING:
    from adsum.net.outbox import Outbox

CHUNK_BYTES_MIN = 1_024  # read at once; more only from those who may send longer frames
CHUNK_BYTES_MAX = 65_536
FRAMES_BEFORE_YIELD = 64  # frames that came in one piece are handed out without a wait: not for too long
FRAME_TIMEOUT_S = 10.0  # for 9 MiB, the longest there are, that is 8 Mbit/s


def is_always_good() -> bool:
    return True


class Channel:
    __slots__ = (
        "_handed_out",
        "_is_key_good",
        "_is_sending",
        "_reader",
        "_socket",
        "_stream",
        "_unsent",
        "_until_s",
        "_waiting_bytes",
        "_writer",
        "share",
    )

    def __init__(
        self,
        stream: trio.abc.Stream,
        sending: FrameWriter,
        receiving: FrameReader,
        is_key_good: Callable[[], bool] = is_always_good,
    ) -> None:
        """A key that was removed from the keyring ends the streams that it seals: `is_key_good` tells."""
        self._stream = stream
        self._socket = stream.socket if isinstance(stream, trio.SocketStream) else None
        self._unsent = b""  # what the socket did not take at once
        self._is_sending = False
        self._until_s = 0.0  # the next frame is waited for
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
        """It waits for nothing but a peer that does not read."""
        self._check_key()
        self._unsent += b"".join([self._writer.pack(payload) for payload in payloads])
        self._write()
        if not self._unsent:
            return
        data, self._unsent, self._is_sending = self._unsent, b"", True
        with trio.move_on_after(FRAME_TIMEOUT_S):
            await send_all(self._stream, data)
            self._is_sending = False
            return
        raise TimedOut("it does not read what we send")

    @property
    def is_ready(self) -> bool:
        """What is sent at once overtakes nothing."""
        return self._socket is not None and not (self._unsent or self._is_sending) and self._is_key_good()

    def send_at_once(self, payload: bytes) -> bool:
        """While it is ready. False: the socket did not take all, and what is left wants a `send`."""
        self._unsent = self._writer.pack(payload)
        self._write()
        return not self._unsent

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

    async def hear(
        self, take: Callable[[bytes], None], *, idle_s: float, answers: Outbox | None = None
    ) -> Never:
        """Hands each frame to `take`, which must be quick, until the stream is lost; none while the peer does
        not read the answers. One timer serves many frames: when it goes off and something was heard
        meanwhile, it is set anew."""
        self._until_s = trio.current_time() + (FRAME_TIMEOUT_S if self._reader.waiting_bytes else idle_s)
        while trio.current_time() < self._until_s:
            with trio.CancelScope(deadline=self._until_s) as timer:
                await self._hand_out(take, answers, timer, idle_s)
                while True:
                    data = await self._receive_some()
                    was_begun = self._reader.waiting_bytes > 0
                    self._reader.feed(data)
                    is_later = await self._hand_out(take, answers, timer, idle_s)
                    if not self._reader.waiting_bytes:
                        self._until_s = trio.current_time() + idle_s
                    elif is_later or not was_begun:
                        self._until_s = trio.current_time() + FRAME_TIMEOUT_S
                    if self._until_s < timer.deadline or self._socket is None:
                        timer.deadline = self._until_s
        raise self._too_late()

    async def _hand_out(
        self, take: Callable[[bytes], None], answers: Outbox | None, timer: trio.CancelScope, idle_s: float
    ) -> bool:
        """What has come whole; whether there was any."""
        count = 0
        while True:
            if answers is not None and answers.is_tight:
                timer.deadline = math.inf
                await answers.wait_for_room()
                timer.deadline = self._until_s = trio.current_time() + idle_s
            payload = self._next()
            if payload is None:
                return count > 0
            self._check_key()
            take(payload)
            count += 1
            if count % FRAMES_BEFORE_YIELD == 0:
                await trio.lowlevel.checkpoint()

    async def _receive(self, idle_s: float) -> bytes:
        is_begun = False
        with trio.move_on_after(idle_s) as scope:
            while True:
                if self._reader.waiting_bytes and not is_begun:
                    is_begun = True
                    scope.deadline = trio.current_time() + FRAME_TIMEOUT_S
                self._reader.feed(await self._receive_some())
                payload = self._next()
                if payload is not None:
                    return payload
        raise self._too_late()

    def _too_late(self) -> TimedOut:
        is_begun = self._reader.waiting_bytes > 0
        return TimedOut("it does not end the frame it began" if is_begun else "it says nothing")

    async def _receive_some(self) -> bytes | bytearray:
        bytes_max = min(CHUNK_BYTES_MAX, max(CHUNK_BYTES_MIN, self._reader.payload_bytes_max))
        if self._socket is None:
            return await receive_some(self._stream, bytes_max)
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            with suppress(BlockingIOError):
                return _read(self._socket, bytes_max)

    def _write(self) -> None:
        """As much as the socket takes. Why it takes nothing, whoever waits for it finds out."""
        if self._socket is not None and self._unsent:
            with suppress(OSError):
                self._unsent = self._unsent[os.write(self._socket.fileno(), self._unsent) :]

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


def _read(sock: trio.socket.SocketType, bytes_max: int) -> bytes:
    try:
        data = os.read(sock.fileno(), bytes_max)
    except BlockingIOError:
        raise
    except OSError as error:
        raise Lost(f"the connection broke: {error}") from error
    if not data:
        raise Lost("it closed the stream")
    return data


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
