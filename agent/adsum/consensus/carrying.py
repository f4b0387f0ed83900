"""How a snapshot's file goes from the leader to who needs it, without I/O: both ends.

Each is a generator. What it yields is a step for whoever runs it, and what it is sent is what came of that;
it returns how it ended. Neither end remembers more than it has to, so whatever breaks in between (the line,
either process) costs little: each answer says what has come, and the next `begin` goes on from there, or
after a restart from what was synced.

The last piece is answered when the file was checked as a whole, is in place, and the offer was handed to the
receiver's core; if that answer is lost, `begin` gives it again. Who has committed as much by another way
meanwhile wants no more of the file: its core takes the offer and tells the leader where it stands.
"""

from __future__ import annotations

import enum
from collections.abc import Generator

from adsum.frozen import dataclass
from adsum.mutable import dataclass as mutable
from adsum.now import MILLISECOND, SECOND
from adsum.raft.messages import SnapshotOffer
from adsum.raft.types import SnapshotMeta, SnapshotRef

FAILURES_MAX = 5  # in a row; then the core decides when to offer it again
PAUSE_NS_MIN, PAUSE_NS_MAX = 100 * MILLISECOND, 2 * SECOND
ARRIVED_MAX = 4


@mutable(slots=True)
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


# The sending end.


class CarryOutcome(enum.Enum):
    ARRIVED = "arrived"
    FAILED = "failed"
    DOUBTFUL = "doubtful"  # our own file may be damaged


class CallTrouble(enum.Enum):
    LOST = "lost"  # no answer, or the receiver knows nothing of it any more: it has to be asked again
    DECLINED = "declined"
    DAMAGED = "damaged"  # it arrived whole, and is not the file that was meant
    UNREADABLE = "unreadable"  # here


@dataclass(frozen=True, slots=True)
class OpenOwnFile:
    """Answered with its length, or None where it cannot be opened."""


@dataclass(frozen=True, slots=True)
class CallBegin:
    """Answered with the offset that is wanted next, or `CallTrouble`; as is `CallPiece`."""


@dataclass(frozen=True, slots=True)
class CallPiece:
    offset: int


@dataclass(frozen=True, slots=True)
class PauseCarrying:
    duration_ns: int


BringStep = OpenOwnFile | CallBegin | CallPiece | PauseCarrying
Bringing = Generator[BringStep, int | CallTrouble | None, CarryOutcome]


def bringing(ref: SnapshotRef, counters: CarryCounters) -> Bringing:
    """One file to one member. Only what brings it further than it ever was counts as progress; what a
    restarted receiver has not kept is sent again, and is neither progress nor a failure."""
    length = yield OpenOwnFile()
    if length != ref.size_bytes:  # removed in favour of a later one, unless it is the newest
        return CarryOutcome.DOUBTFUL
    failures, furthest = 0, -1
    offset: int | None = None  # what the receiver wants; None: it has to be asked
    while failures < FAILURES_MAX:
        answer = yield CallBegin() if offset is None else CallPiece(offset)
        match answer:
            case int():
                if answer >= ref.size_bytes:
                    return CarryOutcome.ARRIVED
                if answer > furthest:
                    failures, furthest = 0, answer
                elif offset is None or answer <= offset:
                    failures += 1
                offset = answer
            case CallTrouble.DAMAGED | CallTrouble.UNREADABLE:
                return CarryOutcome.DOUBTFUL
            case CallTrouble.DECLINED:
                return CarryOutcome.FAILED
            case _:
                offset = None
                failures += 1
                counters.send_failures += 1
                yield PauseCarrying(min(PAUSE_NS_MAX, PAUSE_NS_MIN << failures))
    return CarryOutcome.FAILED


# The receiving end.


class ReceiveTrouble(enum.Enum):
    """With which a call is declined."""

    AGAIN = "again"  # nothing is known of it any more: this server was restarted, or took another offer
    FULL = "full"
    DAMAGED = "damaged"  # whole, and not the file that was meant


def meaning_of(code: str) -> CallTrouble:
    """To the sender, of a call that was declined with it."""
    known = {ReceiveTrouble.AGAIN.value: CallTrouble.LOST, ReceiveTrouble.DAMAGED.value: CallTrouble.DAMAGED}
    return known.get(code, CallTrouble.DECLINED)


@dataclass(frozen=True, slots=True)
class OpenPart:
    """Of this file, as far as it has come; of all others nothing is kept. Answered with the offset."""

    ref: SnapshotRef


@dataclass(frozen=True, slots=True)
class TakePiece:
    """Answered with the offset behind it; the same as before if it does not fit."""

    offset: int
    crc: int
    content: bytes


@dataclass(frozen=True, slots=True)
class FinishPart:
    """Checked as a whole, and in place. Answered with what it is the snapshot of."""


@dataclass(frozen=True, slots=True)
class AbandonPart:
    pass


ReceiveStep = OpenPart | TakePiece | FinishPart | AbandonPart
StepOutcome = int | SnapshotMeta | ReceiveTrouble | None


@dataclass(frozen=True, slots=True)
class WantedNext:
    offset: int


@dataclass(frozen=True, slots=True)
class FileInPlace:
    """For the core, and the call is answered with the file's end."""

    offer: SnapshotOffer
    ref: SnapshotRef


@dataclass(frozen=True, slots=True)
class FileOvertaken:
    """The core takes the offer, for the leader has to hear why; the call is answered with the file's end."""

    offer: SnapshotOffer
    ref: SnapshotRef


ReceiveAnswer = WantedNext | FileInPlace | FileOvertaken | ReceiveTrouble
Receiving = Generator[ReceiveStep, StepOutcome, ReceiveAnswer]


class ReceivingCore:
    """One file at a time, of whoever began last; one call at a time."""

    def __init__(self, counters: CarryCounters) -> None:
        self._counters = counters
        self._offer: SnapshotOffer | None = None
        self._ref: SnapshotRef | None = None  # whose part is open
        self._offset = 0
        self._in_place: list[SnapshotRef] = []  # the last ones that came

    def begin(self, offer: SnapshotOffer, ref: SnapshotRef, commit: int) -> Receiving:
        """`commit` is how far all is committed here."""
        if ref.index <= commit:
            return self._overtaken(offer, ref)
        if ref in self._in_place:
            return FileInPlace(offer, ref)
        self._offer = offer
        if ref != self._ref:
            self._ref = None
            offset = yield OpenPart(ref)
            if not isinstance(offset, int):
                return _trouble(offset)
            self._ref, self._offset = ref, offset
            self._counters.resumed += offset > 0
        return WantedNext(self._offset)

    def piece(self, sha256: bytes, piece: TakePiece, commit: int) -> Receiving:
        ref, offer = self._ref, self._offer
        if ref is None or offer is None or ref.sha256 != sha256:
            return ReceiveTrouble.AGAIN
        if ref.index <= commit:
            self._ref = None
            yield AbandonPart()
            return self._overtaken(offer, ref)
        offset = yield piece
        if not isinstance(offset, int):
            self._ref = None  # what is left of it, its file knows
            return _trouble(offset)
        self._counters.pieces_received += offset > self._offset
        self._counters.pieces_refused += offset == self._offset
        self._offset = offset
        if offset < ref.size_bytes:
            return WantedNext(offset)
        return (yield from self._finish(offer, ref))

    def _finish(self, offer: SnapshotOffer, ref: SnapshotRef) -> Receiving:
        self._ref = None
        meta = yield FinishPart()
        if isinstance(meta, ReceiveTrouble) and meta is not ReceiveTrouble.DAMAGED:
            return meta
        if meta != offer.snapshot:
            self._counters.damaged += 1
            return ReceiveTrouble.DAMAGED
        self._counters.received += 1
        self._in_place = [*self._in_place, ref][-ARRIVED_MAX:]
        return FileInPlace(offer, ref)

    def _overtaken(self, offer: SnapshotOffer, ref: SnapshotRef) -> FileOvertaken:
        """What is committed here must not be taken back, nor a file of it come into anybody's way."""
        self._counters.overtaken += 1
        return FileOvertaken(offer, ref)


def _trouble(outcome: StepOutcome) -> ReceiveTrouble:
    assert isinstance(outcome, ReceiveTrouble), "a step ends as it says, or in trouble"
    return outcome
