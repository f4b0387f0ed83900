"""Room for the log to grow: the next segment is made ahead of need, and a full disk is asked again.

A disk without room for the next segment still takes votes, so leadership is handed over meanwhile. Then what
the disk has again is used, or what can be given up: the ballast, once, for one snapshot, after which segments
can go.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from adsum.consensus.effects import PrepareSegment, SpendBallast
from adsum.effects import LogLine, Severity
from adsum.now import SECOND

if TYPE_CHECKING:
    from adsum.consensus.core import ConsensusCore

ROOM_INTERVAL_NS = SECOND  # a full disk is asked again so often


class RoomStep(enum.Enum):
    """Of looking for room, in this order."""

    NOT_LOOKING = "not looking"
    PREPARING = "preparing"
    SPENDING = "spending"
    SNAPSHOT = "snapshot"
    PREPARING_AGAIN = "preparing again"


class LogRoom:
    def __init__(self, core: ConsensusCore, now_ns: int) -> None:
        self.due_ns = now_ns + ROOM_INTERVAL_NS
        self._core = core
        self._step = RoomStep.NOT_LOOKING
        self._is_preparing = False

    def look(self, now_ns: int) -> None:
        """Whenever it is due."""
        self.due_ns = now_ns + ROOM_INTERVAL_NS
        if self._core.storing.has_room or self._step is not RoomStep.NOT_LOOKING:
            return
        heir = self._core.hand_over()
        if heir is not None:
            sentence = f"the disk is full: leadership is handed to {heir}"
            self._core.emit(LogLine(Severity.ERROR, sentence))
        self._step = RoomStep.PREPARING
        self.prepare()

    def prepare(self) -> None:
        """The next segment, unless that is under way."""
        if not self._is_preparing:
            self._is_preparing = True
            self._core.emit(PrepareSegment())

    def prepared(self, *, is_full: bool) -> None:
        self._is_preparing = False
        self._core.storing.is_log_full = is_full
        if self._step is RoomStep.PREPARING and is_full:
            self._step = RoomStep.SPENDING
            self._core.emit(SpendBallast())
        elif self._step in (RoomStep.PREPARING, RoomStep.PREPARING_AGAIN):
            self._end()

    def spent(self, *, is_spent: bool) -> None:
        if not is_spent:
            self._end()
            return
        sentence = "the disk is full: the ballast was given up to make room for one snapshot"
        self._core.emit(LogLine(Severity.ERROR, sentence))
        self._step = RoomStep.SNAPSHOT
        self._core.compaction.make()
        if not self._core.compaction.is_making:
            self.snapshot_ended()

    def snapshot_ended(self) -> None:
        """Made or not."""
        if self._step is RoomStep.SNAPSHOT:
            self._step = RoomStep.PREPARING_AGAIN
            self.prepare()

    def _end(self) -> None:
        self._step = RoomStep.NOT_LOOKING
        self._core.storing.try_again()
