"""What a request to consensus goes through: here if we lead, else on the leader's line, and held while there
is nobody to ask.

A request may be tried again only when it is certain that nothing came of it, or when it carries a dedup key,
by which the state machine knows it again. What was sent and not answered, without one, is `OutcomeUnknown`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

import cbor2
import trio

from adsum.cbor import BadEncoding, strict_loads
from adsum.consensus.errors import NoLeader, OutcomeUnknown, Unavailable
from adsum.consensus.settings import ServerSettings
from adsum.net.calls import CallError, Declined, NotSent
from adsum.raft import errors as raft
from adsum.raft.changer import ConfigurationChange
from adsum.raft.types import DedupKey
from adsum.servers import wire
from adsum.servers.driver import Driver

PROPOSE, READ = "propose", "read"
RETRY_S = 0.05  # while there is no leader, or it does not know it yet
UNAVAILABLE, UNKNOWN, REFUSED = "unavailable", "unknown", "refused"

# They pass: another server, or this one a little later, may take it. The others are the caller's mistake.
PASSING = (
    Unavailable,
    NotSent,
    raft.NotLeader,
    raft.Transferring,
    raft.TermMoved,
    raft.TooMuchUncommitted,
    raft.TooManyReads,
)

Method = Callable[[bytes], Awaitable[bytes]]
T = TypeVar("T")


class AsksLeader(Protocol):
    async def ask(self, node: str, method: str, body: bytes, *, timeout_s: float) -> bytes: ...


class OneAnswer(Generic[T]):
    """One value or error, and one task that waits for it."""

    def __init__(self) -> None:
        self._event = trio.Event()
        self._outcome: T | Exception | None = None

    def __call__(self, outcome: T | Exception) -> None:
        self._outcome = outcome
        self._event.set()

    async def wait(self) -> T:
        await self._event.wait()
        if isinstance(self._outcome, Exception):
            raise self._outcome
        return self._outcome  # type: ignore[return-value]  # set with the event


class Requests:
    def __init__(self, running: Callable[[], Driver], asks: AsksLeader, settings: ServerSettings) -> None:
        self._running = running
        self._asks = asks
        self._hold_s = settings.rpc_hold_timeout_s

    async def propose(self, data: bytes, *, dedup: DedupKey | None = None) -> bytes:
        """What the state machine answered, when the entry is committed and applied on the leader."""
        body = _encode_proposal(data, dedup)

        async def once(driver: Driver, left_s: float) -> bytes:
            if driver.is_leader:
                return await self._propose_here(driver, data, dedup, left_s)
            return await self._ask_leader(driver, PROPOSE, body, left_s)

        return await self._held(once, is_repeatable=dedup is not None)

    async def read(self) -> int:
        """When it returns, the state machine here holds everything that was acknowledged before the call."""

        async def once(driver: Driver, left_s: float) -> int:
            if driver.is_leader:
                return await self._read_here(driver)
            answer = await self._ask_leader(driver, READ, b"", left_s)
            index = strict_loads(answer)
            assert isinstance(index, int), "a leader answers with an index"
            while driver.applied < index:
                await driver.changed()
            return index

        return await self._held(once, is_repeatable=True)

    async def change(self, change: ConfigurationChange) -> None:
        """Of the membership; on the leader only. Returns when it is in force here."""
        driver, answer = self._running(), OneAnswer[bytes]()
        driver.propose_change(change, answer)
        await answer.wait()

    # For others.

    async def answer_propose(self, body: bytes) -> bytes:
        data, dedup = _decode_proposal(body)
        return await self._answered(lambda driver: self._propose_here(driver, data, dedup, self._hold_s))

    async def answer_read(self, _body: bytes) -> bytes:
        return cbor2.dumps(await self._answered(self._read_here))

    async def _answered(self, work: Callable[[Driver], Awaitable[T]]) -> T:
        try:
            return await work(self._running())
        except PASSING as error:
            raise Declined(UNAVAILABLE, str(error)) from error
        except raft.RaftRefused as error:
            raise Declined(REFUSED, str(error)) from error
        except OutcomeUnknown as error:
            raise Declined(UNKNOWN, str(error)) from error

    # Inside.

    async def _held(self, once: Callable[[Driver, float], Awaitable[T]], *, is_repeatable: bool) -> T:
        deadline_s = trio.current_time() + self._hold_s
        why: Exception = NoLeader("no leader was known for as long as a request is held")
        while (left_s := deadline_s - trio.current_time()) > 0:
            try:
                with trio.fail_at(deadline_s):
                    return await once(self._running(), left_s)
            except PASSING as error:
                why = error
            except trio.TooSlowError:
                why = OutcomeUnknown("it was not answered in time")
            except OutcomeUnknown as error:
                if not is_repeatable:
                    raise
                why = error
            await trio.sleep(RETRY_S)
        if isinstance(why, OutcomeUnknown):
            raise why
        raise NoLeader(f"it was held for {self._hold_s:.0f} s, and at last: {why}") from why

    async def _propose_here(
        self, driver: Driver, data: bytes, dedup: DedupKey | None, left_s: float
    ) -> bytes:
        answer = OneAnswer[bytes]()
        driver.propose(data, answer, dedup=dedup)
        with trio.move_on_after(left_s):
            return await answer.wait()
        raise OutcomeUnknown("it was not committed in time")

    async def _read_here(self, driver: Driver) -> int:
        answer = OneAnswer[int]()
        driver.read(answer)
        return await answer.wait()

    async def _ask_leader(self, driver: Driver, method: str, body: bytes, left_s: float) -> bytes:
        leader = driver.leader
        if leader is None:
            raise NoLeader("no leader is known")
        try:
            return await self._asks.ask(leader.node, method, body, timeout_s=left_s)
        except NotSent:
            raise
        except Declined as no:
            raise _declined(no) from no
        except CallError as error:
            raise OutcomeUnknown(str(error)) from error


def _declined(no: Declined) -> Exception:
    match no.code:
        case "refused":
            return raft.RaftRefused(no.text)
        case "unknown":
            return OutcomeUnknown(no.text)
    return Unavailable(no.text)


def _encode_proposal(data: bytes, dedup: DedupKey | None) -> bytes:
    return cbor2.dumps([data, list(dedup) if dedup is not None else None])


def _decode_proposal(body: bytes) -> tuple[bytes, DedupKey | None]:
    try:
        fields = strict_loads(body)
    except BadEncoding as error:
        raise wire.UnreadableMessage("not the CBOR we speak") from error
    match fields:
        case [bytes(data), None]:
            return data, None
        case [bytes(data), [str(client), int(generation), int(sequence), int(low_water)]]:
            if min(generation, sequence, low_water) >= 0 and 0 < len(client.encode()) < 256:
                return data, DedupKey(client, generation, sequence, low_water)
    raise wire.UnreadableMessage("no proposal")
