"""A simulated server's disk with the shipped log on it: what a crash leaves is whatever that log makes of
it.
"""

from __future__ import annotations

from random import Random

from adsum.raft.batch import Batch, LogChange
from adsum.raft.types import MemberId, Restored, SnapshotMeta, SnapshotRef
from adsum.storage.failures import StorageFailed
from adsum.storage.files import DiskFull, Folder
from adsum.storage.opening import OpenedLog, open_log
from adsum.storage.raft_log import RaftLog
from adsum.storage.snapshots import SnapshotDamaged, SnapshotReceiving, Snapshots
from adsum.testing.block_disk import BlockDisk, PowerLost

SEGMENT_BYTES = 16_384  # segments change every few seconds of a run
PIECE_BYTES = 48  # a snapshot of a few registers travels in three to six


class BlockStore:
    """`raft_store.LogStore` over `storage.raft_log`. A batch larger than a segment may survive in part, as
    on a real disk: its promises, and the first of its entries."""

    def __init__(self, me: MemberId, restored: Restored, random: Random) -> None:
        self.disk = BlockDisk(random)
        self._me = me
        self._minted = 0
        self._gathered: list[Batch] = []
        self._refs: dict[tuple[int, int], SnapshotRef] = {}
        self._receiving: tuple[SnapshotRef, SnapshotReceiving] | None = None  # one at a time: the latest
        self.snapshots = Snapshots(self.disk, piece_bytes=PIECE_BYTES)
        self.opened = self._open()
        if restored.snapshot.index:
            self.save_snapshot(restored.snapshot, b"")
            self.log.append([LogChange(install=self.ref(restored.snapshot), hard_state=restored.hard_state)])

    @property
    def log(self) -> RaftLog:
        return self.opened.log

    def write(self, batch: Batch) -> None:
        self._gathered.append(batch)

    def sync(self) -> None:
        """`DiskFull`: nothing was written, and all of it may be written again later."""
        gathered, self._gathered = self._gathered, []
        self.log.append([self._change(batch) for batch in gathered])
        if self.log.needs_preparing:
            self.log.prepare_next()

    def load(self) -> Restored:
        """A corrupt disk comes back under another log id: that is another server, and the caller's to
        notice."""
        self.opened = self._open()
        return self.opened.restored

    def save_snapshot(self, snapshot: SnapshotMeta, data: bytes) -> None:
        making = self.log.snapshots.make(snapshot)
        making.write(data)
        self._refs[snapshot.index, snapshot.term] = making.finish()

    def snapshot_data(self, snapshot: SnapshotMeta) -> bytes:
        if snapshot.index == 0:
            return b""
        ref = self.ref(snapshot)
        try:
            self.snapshots.verify(ref)
        except SnapshotDamaged as damage:
            raise StorageFailed(f"the state cannot be read: {damage}") from damage
        return b"".join(self.snapshots.open(ref).body())

    def compact(self, snapshot: SnapshotMeta, first_kept: int) -> None:
        self.log.compact(self.ref(snapshot), first_kept)

    def ref(self, snapshot: SnapshotMeta) -> SnapshotRef:
        return self._refs[snapshot.index, snapshot.term]

    # A snapshot on its way here.

    def receive(self, ref: SnapshotRef) -> SnapshotReceiving:
        if self._receiving is None or self._receiving[0] != ref:
            self._receiving = (ref, self.snapshots.receive(ref))
        return self._receiving[1]

    def finish_receiving(self) -> None:
        assert self._receiving is not None, "nothing was received"
        (ref, receiving), self._receiving = self._receiving, None
        receiving.finish()
        self._refs[ref.index, ref.term] = ref

    @property
    def received_bytes(self) -> int:
        """Of the snapshot on its way."""
        return self._receiving[1].offset if self._receiving is not None else 0

    def abandon_receiving(self) -> None:
        """The disk is full, and what came so far takes room."""
        if self._receiving is not None:
            self._receiving[1].abandon()
            self._receiving = None

    # How a life ends.

    def kill(self) -> None:
        self._forget()
        self.disk.kill()
        self.disk.faults.failing_syncs = False

    def lose_power(self, random: Random) -> None:
        """At any operation of the write that was going on, or after it."""
        self.disk.faults.crash_before = random.randrange(6)
        try:
            if self._gathered:
                self.sync()
        except (PowerLost, StorageFailed, DiskFull):
            pass
        self.power_is_gone()

    def power_is_gone(self) -> None:
        self._forget()
        self.disk.lose_power()

    def _forget(self) -> None:
        self._gathered.clear()
        self._refs.clear()
        self._receiving = None

    def _open(self) -> OpenedLog:
        folder: Folder = self.disk
        opened = open_log(
            folder, node=self._me.node, mint_log_id=self._mint_log_id, segment_bytes=SEGMENT_BYTES
        )
        ref = opened.log.snapshot
        if ref is not None:
            self._refs[ref.index, ref.term] = ref
        return opened

    def _mint_log_id(self) -> str:
        self._minted += 1
        return self._me.log if self._minted == 1 else f"{self._me.log}{self._minted}"

    def _change(self, batch: Batch) -> LogChange:
        install = batch.install_snapshot
        return LogChange(
            install=self.ref(install) if install is not None else None,
            truncate_from=batch.truncate_from,
            entries=batch.entries,
            hard_state=batch.hard_state,
        )
