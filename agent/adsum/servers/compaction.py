"""Snapshots of the state machine, and the log that goes for them; and room for the log to grow.

The copy is taken on the loop between two entries and costs little; it is encoded and written in a thread;
only the record that makes it count goes through the log's own thread. Snapshots are made when enough was
applied, when the log in memory has become large, when the newest one is of an epoch before the last
recovery of the quorum, for nobody would take that one, and when the file of the newest one turns out to be
damaged while it is sent to somebody.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

import trio

from adsum.raft.types import SnapshotMeta, SnapshotRef
from adsum.servers.errors import StoreBroken
from adsum.storage.failures import StorageFailed
from adsum.storage.files import DiskFull
from adsum.storage.snapshots import SnapshotDamaged

if TYPE_CHECKING:
    from adsum.servers.driver import Driver

LOOK_INTERVAL_S = 1.0

log = logging.getLogger("raft")


class Compaction:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._making = trio.Lock()
        self._damaged: SnapshotRef | None = None
        self._is_preparing = False

    async def run(self) -> None:
        due_s = trio.current_time()
        while True:
            await trio.sleep(min(LOOK_INTERVAL_S, self._driver.settings.snapshot_interval_s))
            is_time = trio.current_time() >= due_s
            if self._is_needed(is_time=is_time):
                await self.make()
            if is_time:
                due_s = trio.current_time() + self._driver.settings.snapshot_interval_s

    def _is_needed(self, *, is_time: bool) -> bool:
        driver, settings = self._driver, self._driver.settings
        raft_log = driver.core.replica.log
        if raft_log.is_restoring:
            return False
        if self._damaged is not None and self._is_newest(self._damaged):
            return True
        if raft_log.snapshot.epoch != driver.core.replica.stamp.epoch:
            return True
        newer = raft_log.applied - raft_log.snapshot.index
        if is_time and newer >= settings.snapshot_entries:
            return True
        grown_bytes = raft_log.bytes_between(raft_log.first_index - 1, raft_log.applied)
        return newer > settings.entries_kept and grown_bytes > settings.snapshot_log_bytes

    async def make(self) -> SnapshotMeta | None:
        """None if there is nothing newer than the last one, or no room for it."""
        driver = self._driver
        async with self._making:
            meta = driver.core.snapshot_point()
            if meta is None:
                return None
            pieces = driver.machine.snapshot()
            try:
                ref = await trio.to_thread.run_sync(self._write, meta, pieces)
            except DiskFull as error:
                driver.counters.snapshots_failed += 1
                log.error("no snapshot could be made: %s", error)
                return None
            except StorageFailed as error:
                raise StoreBroken(f"{error}, while a snapshot was written; this process ends") from error
            await self._count_it(meta, ref)
            return meta

    async def examine(self, ref: SnapshotRef) -> None:
        """A damaged file is sent to nobody any more, and the next look makes another. If there is nothing to
        make it of, this server stands on what it could not read again, and ends as its next start would."""
        if ref == self._damaged or not self._is_newest(ref):
            return
        try:
            await trio.to_thread.run_sync(self._driver.storing.raft_log.snapshots.verify, ref)
        except (SnapshotDamaged, StorageFailed) as error:
            if ref != self._damaged and self._is_newest(ref):
                self._set_aside(ref, error)

    def _set_aside(self, ref: SnapshotRef, damage: SnapshotDamaged | StorageFailed) -> None:
        driver = self._driver
        self._damaged = ref
        driver.counters.snapshots_damaged += 1
        driver.storing.forget_snapshot(ref)
        if driver.core.snapshot_point() is not None or driver.core.replica.log.is_restoring:
            log.error(
                "the snapshot at index %d is damaged on this disk and is sent to nobody any more; another is "
                "made now. Look after the disk: %s",
                ref.index,
                damage,
            )
            return
        driver.fail(
            StorageFailed(
                f"the snapshot at index {ref.index} is damaged on this disk ({damage}), and nothing was "
                "applied since that another could be made of"
            )
        )

    def _is_newest(self, ref: SnapshotRef) -> bool:
        return ref == self._driver.storing.raft_log.snapshot

    def _write(self, meta: SnapshotMeta, pieces: Iterator[bytes]) -> SnapshotRef:
        making = self._driver.storing.raft_log.snapshots.make(meta)
        for piece in pieces:
            making.write(piece)
        return making.finish()

    async def _count_it(self, meta: SnapshotMeta, ref: SnapshotRef) -> None:
        """Unless the leader's snapshot came in between, which is of later."""
        driver, storing = self._driver, self._driver.storing
        raft_log = driver.core.replica.log
        first_kept = max(raft_log.first_index, meta.index + 1 - driver.settings.entries_kept)

        def compact() -> bool:
            newest = storing.raft_log.snapshot
            if newest is not None and newest.index >= meta.index:
                return False
            storing.raft_log.compact(ref, first_kept)
            return True

        try:
            is_new = await storing.write(compact)
        except DiskFull as error:
            driver.counters.snapshots_failed += 1
            log.error("a snapshot was made, and the log has no room to say so: %s", error)
            return
        if is_new and not raft_log.is_restoring and raft_log.snapshot.index < meta.index:
            driver.counters.snapshots_made += 1
            storing.note_snapshot(meta, ref)
            driver.core.compacted(meta, first_kept)

    # Room.

    def prepare(self, nursery: trio.Nursery) -> None:
        if not self._is_preparing:
            nursery.start_soon(self._prepare)

    async def make_room(self) -> None:
        """What the disk has again, or what we can give up ourselves."""
        await self._prepare()
        if self._driver.storing.raft_log.is_full and await trio.to_thread.run_sync(
            self._driver.storing.raft_log.spend_ballast
        ):
            log.error("the disk is full: the ballast was given up to make room for one snapshot")
            await self.make()
            await self._prepare()

    async def _prepare(self) -> None:
        self._is_preparing = True
        try:
            await trio.to_thread.run_sync(self._driver.storing.raft_log.prepare_next)
        except StorageFailed as error:
            raise StoreBroken(f"{error}, while the next segment was made ready; this process ends") from error
        finally:
            self._is_preparing = False
