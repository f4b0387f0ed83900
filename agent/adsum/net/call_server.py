"""The answering side of calls: many at once on each connection, each within its caller's deadline.

Back-pressure: past so many calls in flight, on one connection or on all, or so many bytes of questions, a
call is declined as busy; while a caller does not read its answers, no more of its calls are read; one that
reads nothing for ten seconds is cut off.

Where an answer takes no task (`BeginsAnswers`), a call takes none either: it is begun where it is read, and
what is answered in one round of the loop leaves together.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol, runtime_checkable

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


@runtime_checkable
class Answerer(Protocol):
    async def answer(self, caller: Peer, method: str, body: bytes) -> bytes:
        """Raises Declined to say no. Cancelled when the caller's deadline passes or the caller goes away."""

    def hear(self, caller: Peer, topic: str, body: bytes) -> None:
        """Must be quick: the connection waits for it."""


@runtime_checkable
class BeginsAnswers(Protocol):
    def begin(
        self, caller: Peer, method: str, body: bytes, answered: Callable[[bytes | Declined], None]
    ) -> Callable[[], None]:
        """`answered` is called once, perhaps before this returns; not after what is returned has given it up.
        Both must be quick."""
        ...

    def hear(self, caller: Peer, topic: str, body: bytes) -> None: ...


Begin = Callable[[Peer, str, bytes, Callable[["bytes | Declined"], None]], Callable[[], None]]


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
        self,
        answerer: Answerer | BeginsAnswers,
        limits: CallLimits | None = None,
        *,
        faults: Faults | None = None,
    ) -> None:
        self.counters = CallCounters()
        self.limits = limits or CallLimits()
        self.hear = answerer.hear
        self.answer = answerer.answer if isinstance(answerer, Answerer) else None
        self.begin = answerer.begin if isinstance(answerer, BeginsAnswers) else None
        self.faults = faults or Faults()
        self.complaints = Complaints(log)

    async def serve(self, channel: Channel, peer: Peer) -> None:
        """Until the caller closes the connection, or has to be cut off."""
        channel.read_at_most(self.limits.question_bytes_max)
        async with trio.open_nursery() as nursery:
            connection = _Connection(self, channel, peer, nursery)
            try:
                await connection.read()
            finally:
                connection.give_up_all()
            nursery.cancel_scope.cancel()

    def outcome_of_fault(self, error: Exception) -> Declined:
        """One faulty call must not end the connection of all the others."""
        self.counters.faults += 1
        self.faults.dropped("call", error)
        return Declined(FAULT, "it failed because of a bug, and logged it")

    def frame_of(self, number: int, method: str, outcome: bytes | Declined) -> bytes:
        if isinstance(outcome, Declined):
            self.counters.declined += outcome.code != FAULT
            return call_frames.failed(number, outcome.code, outcome.text)
        if len(outcome) > call_frames.BODY_BYTES_MAX:
            self.counters.faults += 1
            self.complaints.say(
                "too long",
                "an answer to %r of %d bytes is too long to be sent",
                method,
                len(outcome),
                level=logging.ERROR,
            )
            return call_frames.failed(number, FAULT, "the answer is too long to be sent")
        self.counters.answered += 1
        return call_frames.answered(number, outcome)

    def lost(self, error: NetError) -> None:
        self.counters.lost += 1
        log.debug("a connection for calls ended: %s", error)


def _nothing() -> None:
    pass


class _BegunAnswer:
    """Called with the answer."""

    __slots__ = ("_connection", "ask", "deadline_s", "give_up", "is_over")

    def __init__(self, connection: _Connection, ask: call_frames.AskFrame) -> None:
        self._connection = connection
        self.ask = ask
        self.deadline_s = trio.current_time() + ask.timeout_ms / 1_000
        self.is_over = False
        self.give_up = _nothing  # once it was begun, until it is over: what gives it up refers to this

    def __call__(self, outcome: bytes | Declined) -> None:
        if not self.is_over:
            self._connection.answered(self, outcome)


class _Connection:
    """There may be thousands on which nothing is said: a task each, and no more."""

    __slots__ = (
        "_begun",
        "_channel",
        "_counters",
        "_is_writing",
        "_nursery",
        "_outbox",
        "_peer",
        "_running",
        "_server",
        "_watch",
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
        self._begun: dict[int, _BegunAnswer] = {}
        self._watch: trio.CancelScope | None = None  # until the first of them is overdue

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
        """What is waiting, unless somebody is at it."""
        try:
            while self._outbox:
                await self._outbox.send_to(self._channel)
        except NetError as error:
            self._server.lost(error)
            self._nursery.cancel_scope.cancel()
        finally:
            self._is_writing = False

    def _write_soon(self) -> None:
        """In the next round of the loop, for others may have something to say in this one."""
        if not self._is_writing:
            self._is_writing = True
            self._nursery.start_soon(self._write)

    def _take(self, frame: call_frames.Frame | None) -> None:
        match frame:
            case call_frames.AskFrame():
                self._ask(frame)
            case call_frames.Tell(topic, body):
                self._counters.heard += 1
                self._server.hear(self._peer, topic, body)
            case call_frames.Cancel(number):
                if number in self._running:
                    self._counters.cancelled += 1
                    self._running[number].cancel()
                elif number in self._begun:
                    self._counters.cancelled += 1
                    self._give_up(self._begun[number])
            case call_frames.Beat():
                self._say(call_frames.BEAT_BACK)
            case None:
                pass
            case _:
                raise MalformedFrame("an asking agent that answers")

    def _ask(self, ask: call_frames.AskFrame) -> None:
        limits = self._server.limits
        if ask.number in self._running or ask.number in self._begun:
            raise MalformedFrame("two calls with one number")
        is_full = (
            len(self._running) + len(self._begun) >= limits.calls_per_connection_max
            or self._counters.in_flight >= limits.calls_max
        )
        if is_full or not self._has_room(ask):
            self._counters.busy += 1
            self._say(call_frames.failed(ask.number, BUSY, "it has as many calls as it can take"))
            return
        self._counters.in_flight += 1
        if self._server.begin is not None:
            self._begin(ask, self._server.begin)
        else:
            self._running[ask.number] = trio.CancelScope()
            self._nursery.start_soon(self._answer, ask)

    def _say(self, frame: bytes) -> None:
        if self._outbox.put(frame):
            self._write_soon()

    def _has_room(self, ask: call_frames.AskFrame) -> bool:
        """Then its body is held, until it is answered."""
        try:
            self._channel.share.hold(len(ask.body))
        except NoRoomForPeer:
            return False
        return True

    # Answers that take no task.

    def _begin(self, ask: call_frames.AskFrame, begin: Begin) -> None:
        call = self._begun[ask.number] = _BegunAnswer(self, ask)
        try:
            give_up = begin(self._peer, ask.method, ask.body, call)
        except Exception as error:
            call(self._server.outcome_of_fault(error))
            return
        if not call.is_over:
            call.give_up = give_up
            self._watch_until(call.deadline_s)

    def answered(self, call: _BegunAnswer, outcome: bytes | Declined) -> None:
        self._forget(call)
        # Also when the outbox is full: that stops the reading of calls, not the answers to them.
        self._outbox.put_anyway(self._server.frame_of(call.ask.number, call.ask.method, outcome))
        self._write_soon()

    def give_up_all(self) -> None:
        for call in list(self._begun.values()):
            self._give_up(call)

    def _give_up(self, call: _BegunAnswer) -> None:
        if not call.is_over:
            give_up = call.give_up
            self._forget(call)
            give_up()

    def _forget(self, call: _BegunAnswer) -> None:
        call.is_over, call.give_up = True, _nothing
        del self._begun[call.ask.number]
        self._channel.share.free(len(call.ask.body))
        self._counters.in_flight -= 1

    def _watch_until(self, deadline_s: float) -> None:
        if self._watch is None:
            self._watch = trio.CancelScope()
            self._nursery.start_soon(self._end_overdue)
        elif deadline_s < self._watch.deadline:
            self._watch.deadline = deadline_s

    async def _end_overdue(self) -> None:
        """Its deadline is only ever lowered: most calls are over by then."""
        while self._begun:
            first_s = min([call.deadline_s for call in self._begun.values()])
            with trio.CancelScope(deadline=first_s) as self._watch:
                await trio.sleep_forever()
            now_s = trio.current_time()
            for call in [call for call in self._begun.values() if call.deadline_s <= now_s]:
                self._counters.overdue += 1
                self._give_up(call)
        self._watch = None

    # Those that take one.

    async def _answer(self, ask: call_frames.AskFrame) -> None:
        scope = self._running[ask.number]
        scope.deadline = trio.current_time() + ask.timeout_ms / 1_000
        try:
            with scope:
                self._outbox.put_anyway(await self._outcome(ask))
            # An answer that was ready at the deadline has been sent; the caller decides what it is worth.
            self._counters.overdue += scope.cancelled_caught and trio.current_time() >= scope.deadline
        finally:
            self._channel.share.free(len(ask.body))
            self._counters.in_flight -= 1
            del self._running[ask.number]
        if not self._is_writing:
            self._is_writing = True
            await trio.lowlevel.checkpoint()  # others may have something to say in this round of the loop
            await self._write()

    async def _outcome(self, ask: call_frames.AskFrame) -> bytes:
        assert self._server.answer is not None, "what begins its answers takes no tasks"
        outcome: bytes | Declined
        try:
            outcome = await self._server.answer(self._peer, ask.method, ask.body)
        except Declined as no:
            outcome = no
        except Exception as error:
            outcome = self._server.outcome_of_fault(error)
        return self._server.frame_of(ask.number, ask.method, outcome)
