"""The file of a snapshot on its way here: what the receiving end wants done with it, done."""

from __future__ import annotations

from adsum.consensus.carrying import (
    AbandonPart,
    FinishPart,
    OpenPart,
    ReceiveStep,
    ReceiveTrouble,
    StepOutcome,
    TakePiece,
)
from adsum.storage.files import DiskFull, ReadFailed
from adsum.storage.snapshots import Piece, SnapshotDamaged, SnapshotReceiving, Snapshots


class ArrivingFile:
    def __init__(self, snapshots: Snapshots) -> None:
        self._snapshots = snapshots
        self._receiving: SnapshotReceiving | None = None

    @property
    def offset(self) -> int:
        """How far it has come."""
        return self._receiving.offset if self._receiving is not None else 0

    def done(self, step: ReceiveStep) -> StepOutcome:
        """In whichever thread. `StorageFailed` passes through."""
        try:
            return self._done(step)
        except DiskFull:
            return ReceiveTrouble.FULL
        except SnapshotDamaged:
            return ReceiveTrouble.DAMAGED

    def _done(self, step: ReceiveStep) -> StepOutcome:
        if isinstance(step, OpenPart):
            before, self._receiving = self._receiving, None
            if before is not None:
                before.close()
            self._receiving = self._snapshots.receive(step.ref)
            return self._receiving.offset
        receiving = self._receiving
        assert receiving is not None, "it was opened to begin with"
        match step:
            case TakePiece(offset, crc, content):
                receiving.take(Piece(offset, content, crc))
                return receiving.offset
            case FinishPart():
                self._receiving = None
                try:
                    return receiving.finish()
                except ReadFailed as error:
                    receiving.abandon()
                    raise SnapshotDamaged(str(error)) from error
                except DiskFull:
                    receiving.close()
                    raise
            case AbandonPart():
                self._receiving = None
                receiving.abandon()
        return None
