"""How long a write takes on the leader, stage by stage.

One proposal is followed at a time, and at most a hundred a second: all others cost nothing, and of those that
come together one stands for all, as they share their group on the disk, their messages and their turns. It is
followed by the marks that its entry passes in the log, so the core knows nothing of it. The times are those
of the loop: a stage ends when the loop learns of it.
"""

from __future__ import annotations

import enum

from adsum.buckets import Buckets
from adsum.consensus.core import ConsensusCore
from adsum.now import MILLISECOND, SECOND
from adsum.raft.types import NO_TERM, Term

INTERVAL_NS = 10 * MILLISECOND
EDGES_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class WriteStage(enum.IntEnum):
    QUEUE = 0  # until it is given to the disk, with what came meanwhile
    SYNC = 1  # until this server's own disk has it
    REPLICATE = 2  # until a quorum has it, too
    APPLY = 3
    ANSWER = 4  # to whoever waits for it here


class WriteStages:
    def __init__(self, core: ConsensusCore) -> None:
        self.times = tuple(Buckets(EDGES_S) for _ in WriteStage)
        self.committing = Buckets(EDGES_S)  # the first three together
        self.whole = Buckets(EDGES_S)
        self.due_ns = 0  # before then there is nothing to look at
        self._core = core
        self._log = core.raft.replica.log
        self._index = 0  # of the entry that is followed; 0: of none
        self._term: Term = NO_TERM
        self._stage = WriteStage.QUEUE
        self._groups = 0  # that had left for the disk before this turn
        self._began_ns = 0
        self._stage_began_ns = 0

    def before_turn(self, arrived_ns: int, now_ns: int) -> bool:
        """Whether one is followed. `arrived_ns` is when the first of what came since the last turn did."""
        if not self._core.is_leader or self._core.raft.replica.term != self._term:
            self._index, self._term = 0, self._core.raft.replica.term
        if not self._index:
            if not self._core.is_leader or not self._log.has_unstored():
                return False
            self._index, self._stage = self._log.last_index, WriteStage.QUEUE
            self._began_ns = self._stage_began_ns = arrived_ns
            self.due_ns = 0
        self._groups = self._core.storing.counters.groups
        if self._stage is WriteStage.SYNC and self._log.stable >= self._index:
            self._end_stage(now_ns)
        if self._stage is WriteStage.REPLICATE and self._log.commit >= self._index:
            self._end_stage(now_ns)
            self.committing.add((now_ns - self._began_ns) / SECOND)
        return True

    def after_turn(self, now_ns: int) -> None:
        """Before what it wants is carried out."""
        has_left = self._stage is WriteStage.QUEUE and self._core.storing.counters.groups > self._groups
        if has_left or (self._stage is WriteStage.APPLY and self._log.applied >= self._index):
            self._end_stage(now_ns)

    def carried_out(self, now_ns: int) -> None:
        if self._stage is WriteStage.ANSWER:
            self._end_stage(now_ns)
            self.whole.add((now_ns - self._began_ns) / SECOND)
            self._index, self.due_ns = 0, self._began_ns + INTERVAL_NS

    def _end_stage(self, now_ns: int) -> None:
        self.times[self._stage].add((now_ns - self._stage_began_ns) / SECOND)
        self._stage_began_ns = now_ns
        if self._stage is not WriteStage.ANSWER:
            self._stage = WriteStage(self._stage + 1)
