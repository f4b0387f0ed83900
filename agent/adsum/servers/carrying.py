"""Snapshot files on their way from the leader to who needs one.

    begin  [offer, size, sha-256]                   → the offset wanted next
    piece  [sha-256, offset, crc, content]          → the offset wanted next

Each answer says what is on the receiver's disk, so whatever breaks in between (the line, either process)
costs one piece: the next `begin` goes on from there. The last piece is answered when the file was checked as
a whole, is in place, and the offer was handed to the receiver's core; if that answer is lost, `begin` gives
it again. Who has committed as much by another way meanwhile wants no more of the file: its core takes the
offer and tells the leader where it stands.

A file that cannot be read here, or arrived as another one than was meant, may be damaged on our own disk.
Whoever makes snapshots is told before the transfer ends, so that the core does not offer it again for ever.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import cbor2
import trio

from adsum.cbor import BadEncoding, strict_loads
from adsum.net.calls import CallError, Declined
from adsum.raft.messages import SnapshotOffer
from adsum.raft.types import MemberId, SnapshotRef
from adsum.servers import wire
from adsum.storage.failures import StorageFailed
from adsum.storage.files import DiskFull, ReadFailed
from adsum.storage.snapshots import Piece, SnapshotDamaged, SnapshotReading, SnapshotReceiving, Snapshots

BEGIN, PIECE = "snapshot-begin", "snapshot-piece"
DAMAGED = "damaged"  # whole, and not the file that was meant
AGAIN = "again"  # the receiver knows nothing of it any more: it was restarted, or took another offer
CALL_S = 10.0  # for 256 KiB
FAILURES_MAX = 5  # in a row; then the core decides when to offer it again
PAUSE_S_MIN, PAUSE_S_MAX = 0.1, 2.0
SNAPSHOT_BYTES_MAX = 1 << 40
SHA256_BYTES = 32
ARRIVED_MAX = 4

T = TypeVar("T")

log = logging.getLogger("raft")


@dataclass(slots=True)
class CarryCounters:
    sent: int = 0
    pieces_sent: int = 0
    send_failures: int = 0  # of single calls
    given_up: int = 0
    received: int = 0
    pieces_received: int = 0
    pieces_refused: int = 0  # out of place, or damaged on the way
    resumed: int = 0  # begun where an earlier attempt ended
    damaged: int = 0  # whole, and not the file that was meant
    overtaken: int = 0  # not wanted any more: as much was committed here by another way


class AsksReceiver(Protocol):
    async def ask(self, node: str, method: str, body: bytes, *, timeout_s: float) -> bytes: ...


class Ended(Protocol):
    def __call__(self, member: MemberId, *, is_ok: bool) -> None: ...


class CarryOutcome(enum.Enum):
    ARRIVED = "arrived"
    FAILED = "failed"
    DOUBTFUL = "doubtful"  # our own file may be damaged


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
            if outcome is CarryOutcome.DOUBTFUL:
                await self._examine(ref)
            ended(offer.target, is_ok=outcome is CarryOutcome.ARRIVED)
        if self._under_way.get(offer.target) is scope:
            del self._under_way[offer.target]

    async def _brought(self, offer: SnapshotOffer, ref: SnapshotRef) -> CarryOutcome:
        try:
            reading = await trio.to_thread.run_sync(self._snapshots.open, ref)
        except StorageFailed as error:  # removed in favour of a later one, unless it is the newest
            log.warning("snapshot %d cannot be sent any more: %s", ref.index, error)
            return CarryOutcome.DOUBTFUL
        try:
            if reading.length != ref.size_bytes:
                return CarryOutcome.DOUBTFUL
            return await self._persist(offer, ref, reading)
        except (Declined, ReadFailed, wire.UnreadableMessage) as error:
            log.warning("snapshot %d was not sent to %s: %s", ref.index, offer.target.node, error)
            return CarryOutcome.DOUBTFUL if _may_be_ours(error) else CarryOutcome.FAILED
        finally:
            reading.close()

    async def _persist(
        self, offer: SnapshotOffer, ref: SnapshotRef, reading: SnapshotReading
    ) -> CarryOutcome:
        """Only what brings it further than it ever was counts as progress."""
        failures, furthest = 0, -1
        offset: int | None = None  # what the receiver wants; None: it has to be asked
        while failures < FAILURES_MAX:
            try:
                offset = await self._next(offer, ref, reading, offset)
            except CallError as error:
                if isinstance(error, Declined) and error.code != AGAIN:
                    raise
                offset = None
                failures += 1
                self._counters.send_failures += 1
                log.info("snapshot %d to %s: %s; it is resumed", ref.index, offer.target.node, error)
                await trio.sleep(min(PAUSE_S_MAX, PAUSE_S_MIN * 2.0**failures))
                continue
            if offset >= ref.size_bytes:
                return CarryOutcome.ARRIVED
            failures, furthest = (0, offset) if offset > furthest else (failures + 1, furthest)
        return CarryOutcome.FAILED

    async def _next(
        self, offer: SnapshotOffer, ref: SnapshotRef, reading: SnapshotReading, offset: int | None
    ) -> int:
        if offset is None:
            method, fields = BEGIN, [self._encode(offer), ref.size_bytes, ref.sha256]
        else:
            piece = await trio.to_thread.run_sync(reading.piece, offset)
            method, fields = PIECE, [ref.sha256, piece.offset, piece.crc, piece.content]
            self._counters.pieces_sent += 1
        answer = await self._asks.ask(offer.target.node, method, cbor2.dumps(fields), timeout_s=CALL_S)
        return _offset(answer)


def _may_be_ours(error: Exception) -> bool:
    return isinstance(error, ReadFailed) or (isinstance(error, Declined) and error.code == DAMAGED)


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
    """The receiving side: one file at a time, of whoever began last."""

    def __init__(
        self,
        snapshots: Snapshots,
        counters: CarryCounters,
        hands: Hands,
    ) -> None:
        self._snapshots = snapshots
        self._counters = counters
        self._hands = hands
        self._turn = trio.Lock()
        self._offer: SnapshotOffer | None = None
        self._ref: SnapshotRef | None = None
        self._receiving: SnapshotReceiving | None = None
        self._in_place: list[SnapshotRef] = []  # the last ones that came

    async def begin(self, body: bytes) -> bytes:
        offer, ref = _begin(body)
        async with self._turn:
            if ref.index <= self._hands.commit():
                return self._overtaken(offer, ref)
            if ref in self._in_place:
                self._hands.arrived(offer, ref)
                return cbor2.dumps(ref.size_bytes)
            self._offer = offer
            if self._receiving is None or ref != self._ref:
                await self._open(ref)
            assert self._receiving is not None, "it was just opened"
            return cbor2.dumps(self._receiving.offset)

    async def piece(self, body: bytes) -> bytes:
        sha256, piece = _piece(body)
        async with self._turn:
            receiving, ref, offer = self._receiving, self._ref, self._offer
            if receiving is None or ref is None or offer is None or ref.sha256 != sha256:
                raise Declined(AGAIN, "another snapshot was begun here")
            if ref.index <= self._hands.commit():
                self._receiving = None
                await self._guarded(receiving.abandon)
                return self._overtaken(offer, ref)
            if await self._guarded(lambda: receiving.take(piece)):
                self._counters.pieces_received += 1
            else:
                self._counters.pieces_refused += 1
            if receiving.is_complete:
                await self._finish(receiving, offer, ref)
            return cbor2.dumps(receiving.offset)

    async def _open(self, ref: SnapshotRef) -> None:
        before, self._receiving = self._receiving, None
        if before is not None:
            before.close()
        self._ref = ref
        self._receiving = await self._guarded(lambda: self._snapshots.receive(ref))
        self._counters.resumed += self._receiving.offset > 0

    async def _finish(self, receiving: SnapshotReceiving, offer: SnapshotOffer, ref: SnapshotRef) -> None:
        self._receiving = None
        try:
            meta = await self._guarded(receiving.finish)
        except SnapshotDamaged as error:
            self._counters.damaged += 1
            raise Declined(DAMAGED, str(error)) from error
        if meta != offer.snapshot:
            self._counters.damaged += 1
            raise Declined(DAMAGED, "the file is of another snapshot than was offered")
        self._counters.received += 1
        self._in_place = [*self._in_place, ref][-ARRIVED_MAX:]
        self._hands.arrived(offer, ref)

    def _overtaken(self, offer: SnapshotOffer, ref: SnapshotRef) -> bytes:
        """What is committed here must not be taken back, nor a file of it come into anybody's way."""
        self._counters.overtaken += 1
        self._hands.overtaken(offer)
        return cbor2.dumps(ref.size_bytes)

    async def _guarded(self, work: Callable[[], T]) -> T:
        try:
            return await trio.to_thread.run_sync(work)
        except DiskFull as error:
            raise Declined("full", str(error)) from error
        except StorageFailed as error:
            self._hands.broken(error)
            raise Declined("broken", "its disk has failed") from error


def _begin(body: bytes) -> tuple[SnapshotOffer, SnapshotRef]:
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


def _piece(body: bytes) -> tuple[bytes, Piece]:
    match _array(body):
        case [bytes(sha256), int(offset), int(crc), bytes(content)] if content and offset >= 0:
            return sha256, Piece(offset, content, crc)
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
