"""A simulated server's disk with the shipped log on it: what a crash leaves is whatever that log makes of
it.
"""

from __future__ import annotations

import hashlib

from adsum.consensus.carrying import CarryCounters, ReceivingCore
from adsum.raft.batch import LogChange
from adsum.raft.types import MemberId, Restored
from adsum.storage.arriving import ArrivingFile
from adsum.storage.opening import OpenedLog, open_log
from adsum.storage.raft_log import RaftLog
from adsum.storage.segment import SALT_BYTES
from adsum.storage.snapshots import Snapshots
from adsum.testing.disk import SimulatedDisk

SEGMENT_BYTES = 16_384  # segments change every few seconds of a run
PIECE_BYTES = 48  # a snapshot of a few registers travels in three to six
SYNCED_BYTES = 2 * PIECE_BYTES


class ServerDisk:
    """A batch larger than a segment may survive in part, as on a real disk: its promises, and the first of
    its entries."""

    def __init__(self, me: MemberId, restored: Restored, disk: SimulatedDisk) -> None:
        self.host_disk = disk
        self.disk = disk.blocks
        self._me = me
        self._minted = 0
        self.snapshots = Snapshots(self.disk, piece_bytes=PIECE_BYTES, synced_bytes=SYNCED_BYTES)
        self._forget()
        self.load()
        if restored.snapshot.index:
            ref = self.log.snapshots.make(restored.snapshot).finish()
            self.log.append([LogChange(install=ref, hard_state=restored.hard_state)])
            self.load()

    @property
    def log(self) -> RaftLog:
        return self.opened.log

    def load(self) -> None:
        """A corrupt disk comes back under another log id: that is another server, and the caller's to
        notice."""
        self.opened: OpenedLog = open_log(
            self.disk,
            node=self._me.node,
            mint_log_id=self._mint_log_id,
            mint_salt=self._mint_salt,
            segment_bytes=SEGMENT_BYTES,
        )

    @property
    def received_bytes(self) -> int:
        """Of the snapshot on its way."""
        return self.arriving.offset

    # How a life ends.

    def kill(self) -> None:
        self._forget()
        self.disk.kill()
        self.disk.faults.failing_syncs = False

    def power_is_gone(self) -> None:
        self._forget()
        self.host_disk.lose_power()

    def _forget(self) -> None:
        """What a process knew of the snapshot on its way here."""
        self.receiving = ReceivingCore(CarryCounters())
        self.arriving = ArrivingFile(self.snapshots)

    def _mint_log_id(self) -> str:
        self._minted += 1
        return self._me.log if self._minted == 1 else f"{self._me.log}{self._minted}"

    def _mint_salt(self) -> bytes:
        return hashlib.blake2b(f"{self._me.log}{self._minted}".encode(), digest_size=SALT_BYTES).digest()
