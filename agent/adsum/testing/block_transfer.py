"""Bringing a snapshot from one simulated server to another: both ends as they ship, and between them the
links of the simulation, which lose a call or its answer, and damage a piece now and then. Then the line has
broken, and after a while the sender notices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from adsum.consensus.carrying import (
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
    ReceiveTrouble,
    Receiving,
    StepOutcome,
    TakePiece,
    WantedNext,
    bringing,
    meaning_of,
)
from adsum.consensus.reports import BringingEnded, SnapshotArrived, SnapshotVerified
from adsum.raft.messages import SnapshotOffer
from adsum.raft.types import SnapshotRef
from adsum.storage.failures import StorageFailed
from adsum.storage.files import ReadFailed
from adsum.storage.log_jobs import damage_of
from adsum.storage.snapshots import SnapshotReading
from adsum.testing.raft_calls import BROKEN_NS_MAX, BROKEN_NS_MIN

if TYPE_CHECKING:
    from adsum.testing.raft_cluster import RaftCluster
    from adsum.testing.raft_server import SimulatedServer

DAMAGED_ON_THE_WAY = 0.03  # of the pieces


class Transfer:
    """A later offer to the same member takes the place of this one."""

    def __init__(
        self, cluster: RaftCluster, server: SimulatedServer, offer: SnapshotOffer, ref: SnapshotRef
    ) -> None:
        self._cluster = cluster
        self._server = server
        self._offer = offer
        self._ref = ref
        self._reading: SnapshotReading | None = None
        self._steps = bringing(ref, CarryCounters())
        self._calls = 0  # a late answer belongs to an earlier one

    def begin(self) -> None:
        before = self._server.transfers.get(self._offer.target)
        if before is not None:
            before._close()
        self._server.transfers[self._offer.target] = self
        self._go_on(None)

    # At the sender.

    def _go_on(self, result: int | CallTrouble | None) -> None:
        if self._server.transfers.get(self._offer.target) is not self:
            return
        try:
            step = self._steps.send(result)
        except StopIteration as end:
            self._end(end.value)
            return
        match step:
            case OpenOwnFile():
                self._open()
            case CallBegin():
                self._call(None)
            case CallPiece(offset):
                self._send(offset)
            case PauseCarrying(duration_ns):
                self._later(duration_ns, None)

    def _later(self, delay_ns: int, result: int | CallTrouble | None) -> None:
        self._cluster.later(self._server, delay_ns, lambda: self._go_on(result))

    def _open(self) -> None:
        self._close()
        try:
            self._reading = self._server.store.snapshots.open(self._ref)
        except StorageFailed:
            self._later(1, None)
        else:
            self._later(1, self._reading.length)

    def _send(self, offset: int) -> None:
        assert self._reading is not None, "it was opened to begin with"
        try:
            piece = self._reading.piece(offset)
        except ReadFailed:
            self._later(1, CallTrouble.UNREADABLE)
            return
        content = piece.content
        if self._cluster.random.random() < DAMAGED_ON_THE_WAY:
            content = bytes(reversed(content))
        taken = TakePiece(piece.offset, piece.crc, content)
        if self._cluster.piece_ns_max:
            delay_ns = self._cluster.random.randrange(self._cluster.piece_ns_max)
            self._cluster.later(self._server, delay_ns, lambda: self._call_still(taken))
        else:
            self._call(taken)

    def _call_still(self, piece: TakePiece) -> None:
        if self._server.transfers.get(self._offer.target) is self:
            self._call(piece)

    def _call(self, piece: TakePiece | None) -> None:
        """None: to begin."""
        self._calls += 1
        cluster, call = self._cluster, self._calls
        for delay_ns in cluster.delays_ns(self._offer.source, self._offer.target)[:1]:
            cluster.at(delay_ns, lambda: self._come(piece, call))
        broken_ns = cluster.random.randint(BROKEN_NS_MIN, BROKEN_NS_MAX)
        cluster.at(broken_ns, lambda: self._come_back(call, CallTrouble.LOST))

    def _come_back(self, call: int, result: int | CallTrouble) -> None:
        if call == self._calls:
            self._calls += 1
            self._later(1, result)

    def _close(self) -> None:
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    def _end(self, outcome: CarryOutcome) -> None:
        self._close()
        is_ok = outcome is CarryOutcome.ARRIVED
        self._cluster.table.ended("snapshot sent", self._server.me)
        if is_ok:
            self._cluster.limits.arrived(self._offer)
        self._cluster.told("brought" if is_ok else "not brought", self._ref.index, self._offer.target.node)
        if outcome is CarryOutcome.DOUBTFUL:
            self._verify()
        if self._server.is_up:
            self._cluster.tell(self._server, BringingEnded(self._offer.target, is_ok))

    def _verify(self) -> None:
        """Whoever makes snapshots is told before the transfer ends, so that it is not offered again."""
        server = self._server
        if server.core.compaction.doubts(self._ref):
            damage = damage_of(server.store.snapshots, self._ref)
            self._cluster.tell(self._server, SnapshotVerified(self._ref, damage))

    # At the receiver.

    def _come(self, piece: TakePiece | None, call: int) -> None:
        target = self._cluster.servers.get(self._offer.target)
        if target is not None and target.takes_part:
            self._cluster.later(target, 0, lambda: self._take(target, piece, call))

    def _take(self, target: SimulatedServer, piece: TakePiece | None, call: int) -> None:
        commit, store = target.raft.replica.log.commit, target.store
        if piece is None:
            answer = _ended(store.receiving.begin(self._offer, self._ref, commit), store.arriving.done)
        else:
            answer = _ended(store.receiving.piece(self._ref.sha256, piece, commit), store.arriving.done)
        match answer:
            case FileInPlace(offer, ref):
                self._cluster.table.began("snapshot installed", target.me)
                self._cluster.tell(target, SnapshotArrived(offer, ref))
            case FileOvertaken(offer):
                self._cluster.tell(target, offer)
        result = self._answer(answer)
        for delay_ns in self._cluster.delays_ns(self._offer.target, self._offer.source)[:1]:
            self._cluster.at(delay_ns, lambda: self._come_back(call, result))

    def _answer(self, answer: ReceiveAnswer) -> int | CallTrouble:
        match answer:
            case WantedNext(offset):
                return offset
            case ReceiveTrouble():
                return meaning_of(answer.value)
        return self._ref.size_bytes


def _ended(steps: Receiving, done: Callable[..., StepOutcome]) -> ReceiveAnswer:
    outcome: StepOutcome = None
    while True:
        try:
            step = steps.send(outcome)
        except StopIteration as end:
            answer: ReceiveAnswer = end.value
            return answer
        outcome = done(step)
