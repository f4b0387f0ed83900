"""The answering side of calls: many at once on each connection, each within its caller's deadline.

Back-pressure: past so many calls in flight, on one connection or on all, or so many bytes of questions, a
call is declined as busy; while a caller does not read its answers, no more of its calls are read; one that
reads nothing for ten seconds is cut off.
"""

from __future__ import annotations

import logging
from typing import Protocol

import trio

from adsum import frozen, mutable
from adsum.logs.complaints import Complaints
from adsum.logs.faults import Faults
from adsum.net import call_frames
from adsum.net.calls import SILENCE_MAX_S, Declined
from adsum.net.channel import Channel
from adsum.net.errors import NetError, NoRoomForPeer
from adsum.net.framing import MalformedFrame
from adsum.net.introduction import Peer
from adsum.net.outbox import Outbox

BUSY = "busy"
FAULT = "fault"

log = logging.getLogger("net")


class Answerer(Protocol):
    async def answer(self, caller: Peer, method: str, body: bytes) -> bytes:
        """Raises Declined to say no. Cancelled when the caller's deadline passes or the caller goes away."""

    def hear(self, caller: Peer, topic: str, body: bytes) -> None:
        """Must be quick: the connection waits for it."""


@frozen.dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    calls_max: int = 16_384
    calls_per_connection_max: int = 4_096
    question_bytes_max: int = call_frames.PAYLOAD_BYTES_MAX  # each connection may hold one half read


@mutable.dataclass(slots=True)
class CallCounters:
    in_flight: int = 0
    answered: int = 0
    declined: int = 0
    busy: int = 0
    overdue: int = 0  # the caller's deadline passed here
    cancelled: int = 0  # by the caller
    faults: int = 0  # a bug of ours; `Faults` has logged it
    heard: int = 0
    lost: int = 0  # connections that did not end well


class CallServer:
    payload_bytes_max = call_frames.PAYLOAD_BYTES_MAX

    def __init__(
        self, answerer: Answerer, limits: CallLimits | None = None, *, faults: Faults | None = None
    ) -> None:
        self.counters = CallCounters()
        self.limits = limits or CallLimits()
        self.answerer = answerer
        self.faults = faults or Faults()
        self.complaints = Complaints(log)

    async def serve(self, channel: Channel, peer: Peer) -> None:
        """Until the caller closes the connection, or has to be cut off."""
        channel.read_at_most(self.limits.question_bytes_max)
        async with trio.open_nursery() as nursery:
            await _Connection(self, channel, peer, nursery).read()
            nursery.cancel_scope.cancel()

    def lost(self, error: NetError) -> None:
        self.counters.lost += 1
        log.debug("a connection for calls ended: %s", error)


class _Connection:
    """There may be thousands on which nothing is said: a task each, and no more."""

    __slots__ = (
        "_channel",
        "_counters",
        "_is_writing",
        "_nursery",
        "_outbox",
        "_peer",
        "_running",
        "_server",
    )

    def __init__(self, server: CallServer, channel: Channel, peer: Peer, nursery: trio.Nursery) -> None:
        self._server = server
        self._counters = server.counters
        self._channel = channel
        self._peer = peer
        self._nursery = nursery
        self._outbox = Outbox()
        self._is_writing = False
        self._running: dict[int, trio.CancelScope] = {}

    async def read(self) -> None:
        try:
            await self._channel.hear(self._hear, idle_s=SILENCE_MAX_S, answers=self._outbox)
        except NetError as error:
            self._server.lost(error)

    def _hear(self, payload: bytes) -> None:
        try:
            self._take(call_frames.decode(payload))
        except NetError:
            raise
        except Exception as error:
            self._server.faults.dropped("call", error)

    async def _write(self) -> None:
        """What is waiting. Whoever has something to say does it, unless somebody is at it."""
        if self._is_writing:
            return
        self._is_writing = True
        try:
            await trio.lowlevel.checkpoint()  # others may have something to say in this round of the loop
            while self._outbox:
                await self._outbox.send_to(self._channel)
        except NetError as error:
            self._server.lost(error)
            self._nursery.cancel_scope.cancel()
        finally:
            self._is_writing = False

    def _take(self, frame: call_frames.Frame | None) -> None:
        match frame:
            case call_frames.AskFrame():
                self._ask(frame)
            case call_frames.Tell(topic, body):
                self._counters.heard += 1
                self._server.answerer.hear(self._peer, topic, body)
            case call_frames.Cancel(number):
                if number in self._running:
                    self._counters.cancelled += 1
                    self._running[number].cancel()
            case call_frames.Beat():
                self._say(call_frames.BEAT_BACK)
            case None:
                pass
            case _:
                raise MalformedFrame("an asking agent that answers")

    def _ask(self, ask: call_frames.AskFrame) -> None:
        limits = self._server.limits
        if ask.number in self._running:
            raise MalformedFrame("two calls with one number")
        is_full = (
            len(self._running) >= limits.calls_per_connection_max
            or self._counters.in_flight >= limits.calls_max
        )
        if is_full or not self._has_room(ask):
            self._counters.busy += 1
            self._say(call_frames.failed(ask.number, BUSY, "it has as many calls as it can take"))
            return
        self._counters.in_flight += 1
        self._running[ask.number] = trio.CancelScope()
        self._nursery.start_soon(self._answer, ask)

    def _say(self, frame: bytes) -> None:
        if self._outbox.put(frame) and not self._is_writing:
            self._nursery.start_soon(self._write)

    def _has_room(self, ask: call_frames.AskFrame) -> bool:
        """Then its body is held, until it is answered."""
        try:
            self._channel.share.hold(len(ask.body))
        except NoRoomForPeer:
            return False
        return True

    async def _answer(self, ask: call_frames.AskFrame) -> None:
        scope = self._running[ask.number]
        scope.deadline = trio.current_time() + ask.timeout_ms / 1_000
        try:
            with scope:
                # Also when the outbox is full: that stops the reading of calls, not the answers to them.
                self._outbox.put_anyway(await self._outcome(ask))
            # An answer that was ready at the deadline has been sent; the caller decides what it is worth.
            self._counters.overdue += scope.cancelled_caught and trio.current_time() >= scope.deadline
        finally:
            self._channel.share.free(len(ask.body))
            self._counters.in_flight -= 1
            del self._running[ask.number]
        await self._write()

    async def _outcome(self, ask: call_frames.AskFrame) -> bytes:
        number = ask.number
        try:
            body = await self._server.answerer.answer(self._peer, ask.method, ask.body)
        except Declined as no:
            self._counters.declined += 1
            return call_frames.failed(number, no.code, no.text)
        except Exception as error:
            # One faulty call must not end the connection of all the others.
            self._counters.faults += 1
            self._server.faults.dropped("call", error)
            return call_frames.failed(number, FAULT, "it failed because of a bug, and logged it")
        if len(body) > call_frames.BODY_BYTES_MAX:
            self._counters.faults += 1
            self._server.complaints.say(
                "too long",
                "an answer to %r of %d bytes is too long to be sent",
                ask.method,
                len(body),
                level=logging.ERROR,
            )
            return call_frames.failed(number, FAULT, "the answer is too long to be sent")
        self._counters.answered += 1
        return call_frames.answered(number, body)
