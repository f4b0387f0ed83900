"""The disk's side of the driver: batches in order, a group at a time, through the log's one thread.

While a group is on its way the next one gathers; together they are one write and one sync. What asks for no
sync (a commit index that moved, an answer that promises nothing new) waits only for what is ahead of it.

A full disk is no failure: nothing was written, so the group goes back to the head of the queue until there is
room. Everything that depends on it waits, and a leader whose disk stays silent for an election timeout steps
down by the core's own rule.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from adsum.raft.batch import Batch, LogChange
from adsum.raft.types import HardState, SnapshotMeta, SnapshotRef
from adsum.servers.machine import StateMachine
from adsum.servers.writer import Done, LogWriter
from adsum.storage.files import DiskFull
from adsum.storage.raft_log import RaftLog

REFS_MAX = 4  # snapshots in place: the newest, the one before, and what may just have been received

T = TypeVar("T")

log = logging.getLogger("raft")


@dataclass(slots=True)
class StoreCounters:
    groups: int = 0  # trips to the disk
    entries: int = 0
    disk_full: int = 0  # writes that had to wait for room


class Promises(Protocol):
    """What storing needs of the driver."""

    def promise(self, group: Sequence[Batch]) -> None:
        """Everything in these batches is durable now. Only within `finish` and `begin`."""

    def install(self, snapshot: SnapshotMeta, state: Any) -> None:
        """The log stands on this snapshot now; so must the state machine."""

    def wake(self) -> None:
        """`finish` has something to do."""


class Storing:
    def __init__(self, raft_log: RaftLog, machine: StateMachine, driver: Promises) -> None:
        self.counters = StoreCounters()
        self.raft_log = raft_log
        self._machine = machine
        self._driver = driver
        self._writer: LogWriter | None = None
        self._waiting: deque[Batch] = deque()  # bounded by what the core lets be uncommitted
        self._under_way: list[Batch] = []
        self._outcome: Done[Any] | None = None
        self._commit_waiting: HardState | None = None  # it is worth no write of its own
        self._is_full = False
        ref = raft_log.snapshot
        self._refs = {(ref.index, ref.term): ref} if ref is not None else {}

    def begin_with(self, writer: LogWriter) -> None:
        self._writer = writer

    @property
    def has_room(self) -> bool:
        return not self._is_full and not self.raft_log.is_full

    def try_again(self) -> None:
        self._is_full = False

    def add(self, batch: Batch) -> None:
        self._waiting.append(batch)

    def begin(self) -> bool:
        """The next group, unless one is on its way. True if something was passed without one: the core may
        have more."""
        if self._under_way or self._is_full or not self._waiting:
            return False
        if not self._waiting[0].must_sync:
            self._pass_what_needs_no_sync()
            return True
        assert self._writer is not None, "the driver runs"
        group = self._under_way = self._next_group()
        self.counters.groups += 1
        changes = [self._change(batch) for batch in group]
        if self._commit_waiting is not None:
            changes.insert(0, LogChange(hard_state=self._commit_waiting))
        self._writer.do(partial(self._store, changes), self._note)
        return False

    def finish(self) -> bool:
        """The group that came back, if one did. `StorageFailed`: the process must end."""
        outcome, self._outcome = self._outcome, None
        if outcome is None:
            return False
        group, self._under_way = self._under_way, []
        try:
            state = outcome.unwrap()
        except DiskFull as error:
            self._waiting.extendleft(reversed(group))
            self._is_full = True
            self.counters.disk_full += 1
            log.error("the log cannot grow: %s. Writes are refused until there is room", error)
            return False
        self._commit_waiting = None
        self.counters.entries += sum(len(batch.entries) for batch in group)
        install = group[-1].install_snapshot
        if install is not None:
            self._driver.install(install, state)
        self._driver.promise(group)
        return True

    async def write(self, job: Callable[[], T]) -> T:
        """Something else that changes the log, between two groups."""
        assert self._writer is not None, "the driver runs"
        return await self._writer.wait(job)

    def close(self) -> None:
        """What waits to be written is lost, as by a crash; nobody was told of it."""
        if self._writer is not None:
            self._writer.do(self._end, _ignore)
            self._writer.close()

    # Snapshot files.

    def ref_of(self, snapshot: SnapshotMeta) -> SnapshotRef | None:
        return self._refs.get((snapshot.index, snapshot.term))

    def note_snapshot(self, meta: SnapshotMeta, ref: SnapshotRef) -> None:
        """Its file is in place. Of older ones the disk keeps one at most."""
        self._refs[meta.index, meta.term] = ref
        for key in sorted(self._refs)[:-REFS_MAX]:
            del self._refs[key]

    def forget_snapshot(self, ref: SnapshotRef) -> None:
        """It is sent to nobody any more."""
        self._refs.pop((ref.index, ref.term), None)

    # Inside.

    def _pass_what_needs_no_sync(self) -> None:
        while self._waiting and not self._waiting[0].must_sync:
            batch = self._waiting.popleft()
            self._commit_waiting = batch.hard_state or self._commit_waiting
            self._driver.promise([batch])

    def _next_group(self) -> list[Batch]:
        """All that has gathered, but nothing behind a snapshot that the state machine does not stand on."""
        group: list[Batch] = []
        while self._waiting:
            group.append(self._waiting.popleft())
            if group[-1].install_snapshot is not None:
                break
        return group

    def _change(self, batch: Batch) -> LogChange:
        meta = batch.install_snapshot
        install = self._refs[meta.index, meta.term] if meta is not None else None
        return LogChange(install, batch.truncate_from, batch.entries, batch.hard_state)

    def _store(self, changes: Sequence[LogChange]) -> Any:
        """In the thread. With a snapshot it is done when the state machine can stand on it, too."""
        self.raft_log.append(changes)
        ref = changes[-1].install
        if ref is None:
            return None
        reading = self.raft_log.snapshots.open(ref)
        try:
            return self._machine.read(reading.body())
        finally:
            reading.close()

    def _note(self, outcome: Done[Any]) -> None:
        self._outcome = outcome
        self._driver.wake()

    def _end(self) -> None:
        if self._commit_waiting is not None and not self._under_way:
            self.raft_log.append([LogChange(hard_state=self._commit_waiting)])
        self.raft_log.close()


def _ignore(_outcome: object) -> None:
    pass
