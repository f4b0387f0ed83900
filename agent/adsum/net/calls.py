"""Calls to one other agent: a single connection, many calls at once, and messages that want no answer.

A `CallConnection` connects when there is something to say, stays while it is used, and connects again after
it broke, a little later each time. Calls made meanwhile wait within their own deadline; messages without an
answer wait only for the connection being made, and are thrown away when that fails, for the next ones will be
better.

The three ways a call can fail tell the caller what became of it: `NotSent` (nothing happened there),
`Unanswered` (it may have happened), `Declined` (the peer decided so).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

import trio

from adsum.address import Address
from adsum.mutable import dataclass
from adsum.net import call_frames
from adsum.net.channel import Channel
from adsum.net.errors import NetError
from adsum.net.framing import MalformedFrame
from adsum.net.gate import Gate, OpenedChannel
from adsum.net.introduction import Peer, Purpose
from adsum.net.outbox import Outbox

CALLS_MAX = 16_384  # as many as the API has connections
BEAT_S = 5.0  # an idle connection is asked for a sign of life this often
SILENCE_MAX_S = 15.0
IDLE_S = 300.0  # a connection on which nobody called for so long is closed
BACKOFF_S_MIN = 0.05
BACKOFF_S_MAX = 1.0  # below an election timeout, so that a healed partition is not prolonged by us


class CallError(Exception):
    pass


class NotSent(CallError):
    """Nothing of it left this agent, so nothing happened."""


class Unanswered(CallError):
    """It was sent and no answer came: whether it happened is unknown."""


class Declined(CallError):
    """The peer answered that it did not do it; the code is for programs, the text for people."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


@dataclass(slots=True)
class LineCounters:
    tells_dropped: int = 0
    connections: int = 0
    attempts_failed: int = 0


Ended = Callable[["bytes | CallError"], None]  # must be quick, for the connection waits, and must not raise


class BegunCall:
    __slots__ = ("ended", "is_over", "is_sent", "number")

    def __init__(self, number: int, ended: Ended) -> None:
        self.number = number
        self.ended = ended
        self.is_sent = False
        self.is_over = False

    def leaves(self) -> bool:
        self.is_sent = not self.is_over
        return self.is_sent


class _Awaited:
    """What came of a call that a task waits for."""

    __slots__ = ("done", "outcome")

    def __init__(self) -> None:
        self.done = trio.Event()
        self.outcome: bytes | CallError = b""

    def __call__(self, outcome: bytes | CallError) -> None:
        self.outcome = outcome
        self.done.set()


Dial = Callable[[], Awaitable[OpenedChannel]]


def dial_for_calls(gate: Gate, to: Address) -> Dial:
    async def dial() -> OpenedChannel:
        return await gate.dial(to, Purpose.CALLS, payload_bytes_max=call_frames.PAYLOAD_BYTES_MAX)

    return dial


class CallConnection:
    def __init__(self, dial: Dial, rng: Random) -> None:
        self.counters = LineCounters()
        self._dial = dial
        self._rng = rng
        self._outbox = Outbox()
        self._channel: Channel | None = None  # while connected
        self._calls: dict[int, BegunCall] = {}
        self._number = 0
        self._used_at_s = 0.0
        self._problem = ""  # of the last attempt to connect, if that failed
        self.peer: Peer | None = None  # while connected

    def begin(self, method: str, body: bytes, ended: Ended, *, timeout_s: float) -> BegunCall:
        """Without a task: `ended` is called once, later. The time is told to the peer, and kept by whoever
        begins it: with `give_up`. Raises `NotSent`."""
        if len(body) > call_frames.BODY_BYTES_MAX:
            raise NotSent(f"a call of {len(body)} bytes; at most {call_frames.BODY_BYTES_MAX} can be sent")
        if len(self._calls) >= CALLS_MAX:
            raise NotSent(f"{CALLS_MAX} calls to this agent are waiting for answers already")
        self._used_at_s = trio.current_time()
        self._number += 1
        call = BegunCall(self._number, ended)
        if not self._outbox.put(call_frames.ask(call.number, method, timeout_s, body), call.leaves):
            raise NotSent("this agent reads too slowly: what waits to be sent to it has reached its limit")
        self._calls[call.number] = call
        return call

    def give_up(self, call: BegunCall) -> CallError:
        """Its deadline passed, or its caller went away: the peer need not go on with it, and `ended` is not
        called. What is known of it."""
        if not call.is_over:
            call.is_over = True
            del self._calls[call.number]
            if call.is_sent and self.peer is not None:
                self._outbox.put(call_frames.cancel(call.number))
        if call.is_sent:
            return Unanswered("no answer came in time")
        return NotSent(f"there was no connection in time{self._problem}")

    async def ask(self, method: str, body: bytes, *, timeout_s: float) -> bytes:
        awaited = _Awaited()
        call = self.begin(method, body, awaited, timeout_s=timeout_s)
        try:
            with trio.move_on_after(timeout_s):
                await awaited.done.wait()
        finally:
            late = self.give_up(call)
        outcome = awaited.outcome if awaited.done.is_set() else late
        if isinstance(outcome, CallError):
            raise outcome
        return outcome

    def tell(self, topic: str, body: bytes) -> bool:
        """Whether it was taken along; that it arrives, nobody promises."""
        self._used_at_s = trio.current_time()
        is_taken = len(body) <= call_frames.BODY_BYTES_MAX and self._take_along(call_frames.tell(topic, body))
        self.counters.tells_dropped += not is_taken
        return is_taken

    def _take_along(self, frame: bytes) -> bool:
        """At once, if nothing is ahead of it: for a message that comes alone a task would have to wake."""
        if self._channel is None or self._outbox or not self._channel.is_ready:
            return self._outbox.put(frame)
        if not self._channel.send_at_once(frame):
            self._outbox.mind_rest()
        return True

    async def run(self) -> None:
        """Until cancelled; calls made while nobody runs it end with their deadline."""
        failures = 0
        while True:
            await self._outbox.wait()
            try:
                opened = await self._dial()
            except NetError as error:
                failures += 1
                self.counters.attempts_failed += 1
                self._give_up(error)
                await trio.sleep(self._backoff_s(failures))
                continue
            self._problem = ""
            self.counters.connections += 1
            began_s = trio.current_time()
            async with opened.channel:
                await self._converse(opened)
            # A peer that lets us in only to hang up is not to be called at once again and again.
            failures = 0 if trio.current_time() - began_s > BACKOFF_S_MAX else failures + 1
            if failures:
                await trio.sleep(self._backoff_s(failures))

    def _backoff_s(self, failures: int) -> float:
        longest = min(BACKOFF_S_MAX, BACKOFF_S_MIN * 2.0 ** min(failures - 1, 10))
        return longest * self._rng.uniform(0.5, 1.0)

    def _give_up(self, error: NetError) -> None:
        self._problem = f": {error}"
        self.counters.tells_dropped += self._outbox.clear()
        for call in list(self._calls.values()):
            self._end(call.number, NotSent(str(error)))

    async def _converse(self, opened: OpenedChannel) -> None:
        self.peer, self._channel = opened.peer, opened.channel
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._until_lost, self._read, opened.channel, nursery.cancel_scope)
                nursery.start_soon(self._beat, nursery.cancel_scope)
                await self._until_lost(self._write, opened.channel, nursery.cancel_scope)
        finally:
            self.peer = self._channel = None
            self._lose()

    async def _until_lost(
        self, work: Callable[[Channel], Awaitable[None]], channel: Channel, scope: trio.CancelScope
    ) -> None:
        try:
            await work(channel)
        except NetError as error:
            self._lose(str(error))
        scope.cancel()

    def _lose(self, why: str = "the connection was closed") -> None:
        """Calls that were sent will not be answered; those that wait go out on the next connection."""
        for call in list(self._calls.values()):
            if call.is_sent:
                self._end(call.number, Unanswered(f"the connection was lost before the answer came: {why}"))

    async def _write(self, channel: Channel) -> None:
        while True:
            await self._outbox.wait()
            await self._outbox.send_to(channel)

    async def _beat(self, scope: trio.CancelScope) -> None:
        """Shows both ends that the other lives, whatever else is said; hangs up when nobody used the line."""
        while self._calls or trio.current_time() - self._used_at_s < IDLE_S:
            await trio.sleep(BEAT_S)
            self._outbox.put(call_frames.BEAT)
        scope.cancel()

    async def _read(self, channel: Channel) -> None:
        await channel.hear(self._hear, idle_s=SILENCE_MAX_S)

    def _hear(self, payload: bytes) -> None:
        match call_frames.decode(payload):
            case call_frames.Answered(number, body):
                self._end(number, body)
            case call_frames.FailedFrame(number, code, text):
                self._end(number, Declined(code, text))
            case call_frames.BeatBack() | None:
                pass
            case _:
                raise MalformedFrame("an answering agent that asks")

    def _end(self, number: int, outcome: bytes | CallError) -> None:
        call = self._calls.pop(number, None)
        if call is not None:  # else nobody waits for it any more
            call.is_over = True
            call.ended(outcome)
