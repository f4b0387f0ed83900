"""Bringing a snapshot from one simulated server to another, as the driver does: in pieces, over the same
links, with the shipped reader at one end and the shipped receiver at the other.

A piece may be lost, repeated, or damaged on the way; the receiver says after each which offset it wants
next. A transfer that gets nowhere is given up, and the next one of the same file goes on where it ended,
also after a crash of the receiver. A sender that cannot read its own file, or hears that it arrived as
another one, reports what it finds to its core before the end of the transfer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from adsum.consensus.reports import BringingEnded, SnapshotArrived, SnapshotVerified
from adsum.now import MILLISECOND
from adsum.raft.messages import SnapshotOffer
from adsum.raft.types import SnapshotRef
from adsum.storage.failures import StorageFailed
from adsum.storage.files import DiskFull, ReadFailed
from adsum.storage.log_jobs import damage_of
from adsum.storage.snapshots import Piece, SnapshotDamaged, SnapshotReading

if TYPE_CHECKING:
    from adsum.testing.raft_cluster import RaftCluster
    from adsum.testing.raft_server import SimulatedServer

ANSWER_WITHIN_NS = 400 * MILLISECOND
TRIES_MAX = 3  # without an answer, one after the other
DAMAGED_ON_THE_WAY = 0.03  # of the pieces


class Transfer:
    def __init__(
        self, cluster: RaftCluster, server: SimulatedServer, offer: SnapshotOffer, ref: SnapshotRef
    ) -> None:
        self._cluster = cluster
        self._server = server
        self._offer = offer
        self._ref = ref
        self._reading: SnapshotReading | None = None
        self._life = server.life
        self._offset = 0
        self._step = 0  # of question and answer; a late one belongs to an earlier step
        self._tries = 0

    def begin(self) -> None:
        try:
            self._reading = self._server.store.snapshots.open(self._ref)
        except StorageFailed:  # removed in favour of a later one, unless it is the newest
            self._find_own_damage()
        else:
            self._ask(0)

    # At the sender.

    def _ask(self, offset: int) -> None:
        if self._server.life != self._life:
            return  # whoever sent it is gone
        self._step += 1
        step, self._offset = self._step, offset
        self._cluster.at(ANSWER_WITHIN_NS, lambda: self._give_up_waiting(step))
        assert self._reading is not None, "it was opened to begin with"
        try:
            piece = self._reading.piece(offset)
        except ReadFailed:
            self._find_own_damage()
            return
        if self._cluster.random.random() < DAMAGED_ON_THE_WAY:
            piece = piece._replace(content=bytes(reversed(piece.content)))
        for delay_ns in self._cluster.delays_ns(self._offer.source, self._offer.target):
            self._cluster.at(delay_ns, lambda: self._come(piece, step))

    def _give_up_waiting(self, step: int) -> None:
        if step != self._step:
            return
        self._tries += 1
        if self._tries < TRIES_MAX:
            self._ask(self._offset)
        else:
            self._end(is_ok=False)

    def _answered(self, step: int, *, wanted: int) -> None:
        if step == self._step:
            self._tries = 0
            self._ask(wanted)

    def _end(self, *, is_ok: bool) -> None:
        self._step += 1
        self._cluster.told("brought" if is_ok else "not brought", self._ref.index, self._offer.target.node)
        if self._server.life == self._life:
            ended = BringingEnded(self._offer.target, is_ok)
            self._cluster.later(self._server, 1, lambda: self._cluster.tell(self._server, ended))

    def _find_own_damage(self) -> None:
        """Whoever makes snapshots is told before the transfer ends, so that it is not offered again."""
        if self._server.life == self._life:
            self._cluster.later(self._server, 1, self._verify)
        self._end(is_ok=False)

    def _verify(self) -> None:
        server = self._server
        if server.core.compaction.doubts(self._ref):
            damage = damage_of(server.store.snapshots, self._ref)
            self._cluster.tell(self._server, SnapshotVerified(self._ref, damage))

    # At the receiver.

    def _come(self, piece: Piece, step: int) -> None:
        target = self._cluster.servers.get(self._offer.target)
        if target is not None and target.is_up:
            self._cluster.later(target, 0, lambda: self._take(target, piece, step))

    def _take(self, target: SimulatedServer, piece: Piece, step: int) -> None:
        if target.raft.replica.log.commit >= self._ref.index:
            self._cluster.tell(target, self._offer)  # it came by another way, and must not be written over
            self._end_of(step)
            return
        try:
            receiving = target.store.receive(self._ref)
            receiving.take(piece)
            if receiving.is_complete:
                target.store.finish_receiving()
                self._cluster.tell(target, SnapshotArrived(self._offer, self._ref))
                self._end_of(step)
                return
        except SnapshotDamaged:
            self._travel_back(self._find_own_damage)
            return
        except DiskFull:
            target.store.abandon_receiving()
            return
        wanted = receiving.offset
        self._travel_back(lambda: self._answered(step, wanted=wanted))

    def _end_of(self, step: int) -> None:
        if step == self._step:
            self._end(is_ok=True)

    def _travel_back(self, action: Callable[[], None]) -> None:
        for delay_ns in self._cluster.delays_ns(self._offer.target, self._offer.source):
            self._cluster.at(delay_ns, action)
