"""Snapshot files on the wire, between the two ends that `consensus.carrying` decides for.

    begin  [offer, size, sha-256]                   → the offset wanted next
    piece  [sha-256, offset, crc, content]          → the offset wanted next

A file that cannot be read here, or arrived as another one than was meant, may be damaged on our own disk.
Whoever makes snapshots is told before the transfer ends, so that the core does not offer it again for ever.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

import cbor2
import trio

from adsum.cbor import BadEncoding, strict_loads
from adsum.consensus.carrying import (
    Bringing,
    CallBegin,
    CallPiece,
    CallTrouble,
    CarryCounters,
    CarryOutcome,
    FileInPlace,
    FileOvertaken,
    OpenOwnFile,
    PauseCarrying,
    ReceiveAnswer,
    Receiving,
    ReceivingCore,
    StepOutcome,
    TakePiece,
    WantedNext,
    bringing,
    meaning_of,
)
from adsum.net.calls import CallError, Declined
from adsum.now import SECOND
from adsum.raft.messages import SnapshotOffer
from adsum.raft.types import MemberId, SnapshotRef
from adsum.servers import wire
from adsum.storage.arriving import ArrivingFile
from adsum.storage.failures import StorageFailed
from adsum.storage.files import ReadFailed
from adsum.storage.snapshots import SnapshotReading, Snapshots

BEGIN, PIECE = "snapshot-begin", "snapshot-piece"
CALL_S = 10.0  # for 256 KiB
SNAPSHOT_BYTES_MAX = 1 << 40
SHA256_BYTES = 32

log = logging.getLogger("raft")


class AsksReceiver(Protocol):
    async def ask(self, node: str, method: str, body: bytes, *, timeout_s: float) -> bytes: ...


class Ended(Protocol):
    def __call__(self, member: MemberId, *, is_ok: bool) -> None: ...


class Carrier:
    """The sending side: one file to one member at a time."""

    def __init__(
        self,
        asks: AsksReceiver,
        snapshots: Snapshots,
        counters: CarryCounters,
        encode: Callable[[SnapshotOffer], bytes],
        examine: Callable[[SnapshotRef], Awaitable[None]],
    ) -> None:
        """`examine` finds out whether our own file is damaged, and sees to another if so."""
        self._asks = asks
        self._snapshots = snapshots
        self._counters = counters
        self._encode = encode
        self._examine = examine
        self._under_way: dict[MemberId, trio.CancelScope] = {}

    async def carry(self, offer: SnapshotOffer, ref: SnapshotRef, ended: Ended) -> None:
        """A later offer to the same member takes the place of this one."""
        if offer.target in self._under_way:
            self._under_way[offer.target].cancel()
        with trio.CancelScope() as scope:
            self._under_way[offer.target] = scope
            outcome = await self._brought(offer, ref)
            self._counters.sent += outcome is CarryOutcome.ARRIVED
            self._counters.given_up += outcome is not CarryOutcome.ARRIVED
            if outcome is not CarryOutcome.ARRIVED:
                log.warning("snapshot %d was not sent to %s", ref.index, offer.target.node)
            if outcome is CarryOutcome.DOUBTFUL:
                await self._examine(ref)
            ended(offer.target, is_ok=outcome is CarryOutcome.ARRIVED)
        if self._under_way.get(offer.target) is scope:
            del self._under_way[offer.target]

    async def _brought(self, offer: SnapshotOffer, ref: SnapshotRef) -> CarryOutcome:
        try:
            reading = await trio.to_thread.run_sync(self._snapshots.open, ref)
        except StorageFailed as error:
            log.warning("snapshot %d cannot be sent any more: %s", ref.index, error)
            return await self._run(bringing(ref, self._counters), offer, ref, None)
        try:
            return await self._run(bringing(ref, self._counters), offer, ref, reading)
        finally:
            reading.close()

    async def _run(
        self, steps: Bringing, offer: SnapshotOffer, ref: SnapshotRef, reading: SnapshotReading | None
    ) -> CarryOutcome:
        result: int | CallTrouble | None = None
        while True:
            try:
                step = steps.send(result)
            except StopIteration as end:
                outcome: CarryOutcome = end.value
                return outcome
            match step:
                case OpenOwnFile():
                    result = reading.length if reading is not None else None
                case CallBegin():
                    fields = [self._encode(offer), ref.size_bytes, ref.sha256]
                    result = await self._asked(offer, ref, BEGIN, fields)
                case CallPiece(offset):
                    assert reading is not None, "it was opened to begin with"
                    result = await self._sent(offer, ref, reading, offset)
                case PauseCarrying(duration_ns):
                    result = None
                    await trio.sleep(duration_ns / SECOND)

    async def _sent(
        self, offer: SnapshotOffer, ref: SnapshotRef, reading: SnapshotReading, offset: int
    ) -> int | CallTrouble:
        try:
            piece = await trio.to_thread.run_sync(reading.piece, offset)
        except ReadFailed as error:
            log.warning("snapshot %d cannot be read: %s", ref.index, error)
            return CallTrouble.UNREADABLE
        self._counters.pieces_sent += 1
        return await self._asked(offer, ref, PIECE, [ref.sha256, piece.offset, piece.crc, piece.content])

    async def _asked(
        self, offer: SnapshotOffer, ref: SnapshotRef, method: str, fields: list[object]
    ) -> int | CallTrouble:
        try:
            body = cbor2.dumps(fields)
            return _offset(await self._asks.ask(offer.target.node, method, body, timeout_s=CALL_S))
        except (CallError, wire.UnreadableMessage) as error:
            log.info("snapshot %d to %s: %s", ref.index, offer.target.node, error)
            if isinstance(error, Declined):
                return meaning_of(error.code)
            return CallTrouble.LOST if isinstance(error, CallError) else CallTrouble.DECLINED


class Hands(Protocol):
    """Into which the receiver gives what comes of it."""

    def commit(self) -> int:
        """How far all is committed here."""

    def arrived(self, offer: SnapshotOffer, ref: SnapshotRef) -> None:
        """The file is in place."""

    def overtaken(self, offer: SnapshotOffer) -> None:
        """The file is not wanted any more; the leader has to hear why."""

    def broken(self, error: StorageFailed) -> None: ...


class Receiver:
    """The receiving side."""

    def __init__(self, snapshots: Snapshots, counters: CarryCounters, hands: Hands) -> None:
        self._core = ReceivingCore(counters)
        self._file = ArrivingFile(snapshots)
        self._hands = hands
        self._turn = trio.Lock()

    async def begin(self, body: bytes) -> bytes:
        offer, ref = offered(body)
        async with self._turn:
            return await self._run(self._core.begin(offer, ref, self._hands.commit()))

    async def piece(self, body: bytes) -> bytes:
        sha256, piece = _piece(body)
        async with self._turn:
            return await self._run(self._core.piece(sha256, piece, self._hands.commit()))

    async def _run(self, steps: Receiving) -> bytes:
        outcome: StepOutcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as end:
                return self._answer(end.value)
            try:
                outcome = await trio.to_thread.run_sync(self._file.done, step)
            except StorageFailed as error:
                self._hands.broken(error)
                raise Declined("broken", "its disk has failed") from error

    def _answer(self, answer: ReceiveAnswer) -> bytes:
        match answer:
            case WantedNext(offset):
                return cbor2.dumps(offset)
            case FileInPlace(offer, ref):
                self._hands.arrived(offer, ref)
                return cbor2.dumps(ref.size_bytes)
            case FileOvertaken(offer, ref):
                self._hands.overtaken(offer)
                return cbor2.dumps(ref.size_bytes)
        raise Declined(answer.value, f"this snapshot is not taken here: {answer.value}")


def offered(body: bytes) -> tuple[SnapshotOffer, SnapshotRef]:
    match _array(body):
        case [bytes(encoded), int(size_bytes), bytes(sha256)]:
            offer = wire.decode(encoded)
            if (
                not isinstance(offer, SnapshotOffer)
                or not 0 < size_bytes <= SNAPSHOT_BYTES_MAX
                or len(sha256) != SHA256_BYTES
            ):
                raise wire.UnreadableMessage("an offer of a snapshot that cannot be")
            return offer, SnapshotRef(offer.snapshot.index, offer.snapshot.term, size_bytes, sha256)
    raise wire.UnreadableMessage("no offer of a snapshot")


def _piece(body: bytes) -> tuple[bytes, TakePiece]:
    match _array(body):
        case [bytes(sha256), int(offset), int(crc), bytes(content)] if content and offset >= 0:
            return sha256, TakePiece(offset, crc, content)
    raise wire.UnreadableMessage("no piece of a snapshot")


def _array(body: bytes) -> object:
    try:
        return strict_loads(body)
    except BadEncoding as error:
        raise wire.UnreadableMessage("not the CBOR we speak") from error


def _offset(answer: bytes) -> int:
    offset = _array(answer)
    if type(offset) is not int or offset < 0:
        raise wire.UnreadableMessage("no offset")
    return offset
