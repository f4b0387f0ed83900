"""Requests on their way into the core of consensus, which holds them and tries them again
(`consensus.requests`), and what servers ask of each other for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

import cbor2
import trio

from adsum.cbor import BadEncoding, strict_loads
from adsum.consensus.commands import SubmitProposal, SubmitRead
from adsum.consensus.effects import AskLeader
from adsum.consensus.errors import NoCluster, NoLeader, OutcomeUnknown, QueueFull, Unavailable
from adsum.consensus.requests import HELD_MAX, PASSING
from adsum.consensus.settings import ServerSettings
from adsum.dedup import DedupKey
from adsum.net.call_server import BUSY
from adsum.net.calls import CallError, Declined, NotSent
from adsum.now import SECOND
from adsum.raft import errors as raft
from adsum.raft.changer import ChangeVerb, ConfigurationChange, Step
from adsum.raft.types import MemberId
from adsum.servers import wire
from adsum.servers.answering import MALFORMED, STRANGER
from adsum.servers.driver import Driver

PROPOSE, READ, LEAVE = "propose", "read", "leave"
ATTEMPTS_MAX = 1 << 32
RETRY_S = 0.05  # while this server belongs to no cluster
UNAVAILABLE, UNKNOWN, REFUSED, FULL = "unavailable", "unknown", "refused", "full"
# Nothing was done. A call may end with something else after it was: a fault, an answer too long to be sent.
CERTAIN = (UNAVAILABLE, BUSY, STRANGER, MALFORMED)

Method = Callable[[bytes], Awaitable[bytes]]
T = TypeVar("T")


class AsksLeader(Protocol):
    async def ask_once(self, node: str, method: str, body: bytes, *, timeout_s: float) -> bytes: ...


class OneAnswer(Generic[T]):
    """One value or error, and one task that waits for it: an event would cost twice as much."""

    __slots__ = ("_outcome", "_task")

    def __init__(self) -> None:
        self._outcome: T | Exception | None = None
        self._task: trio.lowlevel.Task | None = None

    def __call__(self, outcome: T | Exception) -> None:
        self._outcome = outcome
        if self._task is not None:
            trio.lowlevel.reschedule(self._task)
            self._task = None

    async def wait(self) -> T:
        if self._outcome is None:
            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._abort)
        if isinstance(self._outcome, Exception):
            raise self._outcome
        assert self._outcome is not None, "it was answered"
        return self._outcome

    def _abort(self, _raise_cancel: object) -> trio.lowlevel.Abort:
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED


class Requests:
    def __init__(self, running: Callable[[], Driver], settings: ServerSettings) -> None:
        self._running = running
        self._hold_s = settings.rpc_hold_timeout_s
        self._early: deque[tuple[float, SubmitProposal | SubmitRead]] = deque()  # and until when each is held

    def submit(self, request: SubmitProposal | SubmitRead) -> None:
        """Its token is called with the answer, once. A cluster may be founded while the request is held."""
        try:
            self._running().submit(request)
        except NoCluster as error:
            if len(self._early) < HELD_MAX:
                self._early.append((trio.current_time() + self._hold_s, request))
            else:
                request.token(QueueFull(str(error)))
        except (raft.RaftRefused, Unavailable) as error:
            request.token(error)

    def give_up(self, token: object) -> None:
        """It is not called any more."""
        self._early = deque(each for each in self._early if each[1].token is not token)
        with suppress(NoCluster):
            self._running().give_up(token)

    async def until_founded(self) -> None:
        """Until cancelled, lets go of those that were held for long enough."""
        while True:
            await trio.sleep(RETRY_S)
            while self._early and self._early[0][0] <= trio.current_time():
                _until_s, request = self._early.popleft()
                why = "this server belongs to no cluster yet"
                request.token(NoLeader(f"it was held for {self._hold_s:.0f} s, and at last: {why}"))

    def founded(self) -> None:
        while self._early:
            self.submit(self._early.popleft()[1])

    async def propose(self, data: bytes, *, dedup: DedupKey | None = None) -> bytes:
        """What the state machine answered, when the entry is committed and applied on the leader."""
        answer = OneAnswer[bytes]()
        return await self._submitted(SubmitProposal(data, answer, dedup), answer)

    async def read(self) -> int:
        """When it returns, the state machine here holds everything that was acknowledged before the call."""
        answer = OneAnswer[int]()
        return await self._submitted(SubmitRead(answer), answer)

    async def change(self, change: ConfigurationChange) -> None:
        """Of the membership; on the leader only. Returns when it is in force here."""
        await self._change_here(self._running(), change)

    # For others.

    async def answer_propose(self, body: bytes) -> bytes:
        data, dedup = _decode_proposal(body)
        return await self._answered(lambda driver: self._propose_here(driver, data, dedup, self._hold_s))

    async def answer_read(self, _body: bytes) -> bytes:
        return cbor2.dumps(await self._answered(self._read_here))

    async def answer_leave(self, body: bytes) -> bytes:
        """A member's, that ends for good and is still here to vote for that."""
        match strict_loads(body):
            case [str(node), str(log_id)]:
                leaves = ConfigurationChange((Step(ChangeVerb.LEAVE, MemberId(node, log_id)),))
                return await self._answered(lambda driver: self._change_here(driver, leaves))
        raise wire.UnreadableMessage("no member")

    async def _answered(self, work: Callable[[Driver], Awaitable[T]]) -> T:
        try:
            return await work(self._running())
        except QueueFull as error:
            raise Declined(FULL, str(error)) from error
        except PASSING as error:
            raise Declined(UNAVAILABLE, str(error)) from error
        except raft.RaftRefused as error:
            raise Declined(REFUSED, str(error)) from error
        except OutcomeUnknown as error:
            raise Declined(UNKNOWN, str(error)) from error

    # Inside.

    async def _submitted(self, request: SubmitProposal | SubmitRead, answer: OneAnswer[T]) -> T:
        self.submit(request)
        try:
            return await answer.wait()
        except trio.Cancelled:
            self.give_up(answer)
            raise

    async def _propose_here(
        self, driver: Driver, data: bytes, dedup: DedupKey | None, left_s: float
    ) -> bytes:
        answer = OneAnswer[bytes]()
        driver.propose(data, answer, dedup=dedup)
        with trio.move_on_after(left_s):
            return await answer.wait()
        raise OutcomeUnknown("it was not committed in time")

    async def _change_here(self, driver: Driver, change: ConfigurationChange) -> bytes:
        answer = OneAnswer[bytes]()
        driver.propose_change(change, answer)
        return await answer.wait()

    async def _read_here(self, driver: Driver) -> int:
        answer = OneAnswer[int]()
        driver.read(answer)
        return await answer.wait()


class LeaderLine:
    """Carries out `AskLeader`. What could not be sent is tried again by consensus, at whoever leads then."""

    def __init__(self, asks: AsksLeader) -> None:
        self._asks = asks

    async def ask(self, asked: AskLeader) -> bytes | int | Exception:
        """The answer, or what its absence means."""
        body = b"" if asked.data is None else _encode_proposal(asked.data, asked.dedup)
        method = READ if asked.data is None else PROPOSE
        try:
            answer = await self._asks.ask_once(asked.node, method, body, timeout_s=asked.timeout_ns / SECOND)
        except NotSent as error:
            return Unavailable(str(error))
        except Declined as no:
            return _declined(no)
        except CallError as error:
            return OutcomeUnknown(str(error))
        return answer if asked.data is not None else _index(answer)


def _declined(no: Declined) -> Exception:
    if no.code == REFUSED:
        return raft.RaftRefused(no.text)
    if no.code == FULL:
        return QueueFull(no.text)
    return Unavailable(no.text) if no.code in CERTAIN else OutcomeUnknown(no.text)


def _index(answer: bytes) -> int | Exception:
    try:
        index = strict_loads(answer)
    except BadEncoding:
        index = None
    return index if type(index) is int else Unavailable("the leader's answer to a read is no index")


def _encode_proposal(data: bytes, dedup: DedupKey | None) -> bytes:
    return cbor2.dumps([data, [dedup.client, *dedup.numbers] if dedup is not None else None])


def _decode_proposal(body: bytes) -> tuple[bytes, DedupKey | None]:
    try:
        fields = strict_loads(body)
    except BadEncoding as error:
        raise wire.UnreadableMessage("not the CBOR we speak") from error
    match fields:
        case [bytes(data), None]:
            return data, None
        case [bytes(data), [str(client), int(generation), int(sequence), int(low_water), int(attempt)]]:
            numbers = generation, sequence, low_water, attempt
            is_encodable = min(numbers) >= 0 and max(numbers) < wire.NUMBER_MAX and attempt < ATTEMPTS_MAX
            if is_encodable and 0 < len(client.encode()) < 256:
                return data, DedupKey(client, *numbers)
    raise wire.UnreadableMessage("no proposal")
