"""The core of raft alone, with a store in memory and a state machine, for stories that are told by hand: the
script decides when a batch is taken, when the disk is done with it, and when what is committed gets applied.
"""

from __future__ import annotations

from collections import deque
from random import Random

from adsum.now import Now
from adsum.raft.batch import Batch
from adsum.raft.core import RaftCore
from adsum.raft.messages import Message, MessageStamp
from adsum.raft.settings import RaftSettings
from adsum.raft.types import Entry, HardState, MemberId, Restored, SnapshotMeta
from adsum.testing.raft_machine import Registers


class ServerByHand:
    def __init__(
        self,
        me: MemberId,
        stamp: MessageStamp,
        settings: RaftSettings,
        store: MemoryStore,
        random: Random,
        now: Now,
    ) -> None:
        self.me = me
        self.stamp = stamp
        self.settings = settings
        self.store = store
        self.random = random
        self.is_up = False
        self.boot(now)

    def boot(self, now: Now) -> None:
        restored = self.store.durable
        self.is_up = True
        self.unsynced: deque[Batch] = deque()
        self.unapplied: deque[Entry] = deque()
        self.machine = Registers(self.store.snapshots[restored.snapshot])
        self.machine.index = restored.snapshot.index
        self.raft = RaftCore(
            me=self.me,
            stamp=self.stamp,
            settings=self.settings,
            restored=restored,
            random=Random(self.random.getrandbits(64)),
            now=now,
        )

    def take(self) -> Batch | None:
        """What to send now is the caller's; what to store is on its way."""
        batch = self.raft.ready()
        if batch is None:
            return None
        if batch.must_store or batch.send_after_store:
            self.unsynced.append(batch)
        self.unapplied.extend(batch.committed)
        return batch

    def sync(self, through: int | None = None) -> list[Message]:
        """The disk is done with everything, or with the first batches; these may be sent now."""
        messages: list[Message] = []
        done = [batch for batch in self.unsynced if through is None or batch.ticket <= through]
        if not done:
            return messages
        for batch in done:
            if batch.must_store:
                self.store.write(batch)
        self.store.sync()
        for batch in done:
            self.unsynced.popleft()
            messages += batch.send_after_store
        self.raft.stored(done[-1].ticket)
        for batch in done:
            if batch.install_snapshot is not None and self.raft.restored(batch.install_snapshot.index):
                self._install(batch.install_snapshot)
        return messages

    def apply(self, count: int | None = None) -> list[tuple[Entry, str]]:
        """The next entries, with what the state machine answered."""
        answers: list[tuple[Entry, str]] = []
        while self.unapplied and (count is None or len(answers) < count):
            entry = self.unapplied.popleft()
            answers.append((entry, self.machine.apply(entry)))
        if answers:
            self.raft.applied(answers[-1][0].index)
        return answers

    def compact(self, keep: int) -> SnapshotMeta | None:
        """Makes a snapshot of all that is applied, and keeps `keep` entries behind it."""
        snapshot = self.raft.snapshot_point()
        if snapshot is None:
            return None
        self.store.snapshots[snapshot] = self.machine.dump()
        first_kept = max(snapshot.index + 1 - keep, 1)
        self.store.compact(snapshot, first_kept)
        self.raft.compacted(snapshot, first_kept)
        return snapshot

    def _install(self, snapshot: SnapshotMeta) -> None:
        self.machine = Registers(self.store.snapshots[snapshot])
        self.machine.index = snapshot.index
        self.unapplied = deque(entry for entry in self.unapplied if entry.index > snapshot.index)


class MemoryStore:
    """A write is in doubt until it is synced, and a crash forgets it."""

    def __init__(self, restored: Restored | None = None) -> None:
        self.durable = restored or Restored()
        self.snapshots: dict[SnapshotMeta, bytes] = {self.durable.snapshot: b""}
        self._doubtful: list[Batch] = []

    def write(self, batch: Batch) -> None:
        self._doubtful.append(batch)

    def sync(self) -> None:
        hard_state, snapshot = self.durable.hard_state, self.durable.snapshot
        entries = list(self.durable.entries)
        for batch in self._doubtful:
            hard_state = batch.hard_state or hard_state
            snapshot = batch.install_snapshot or snapshot
            entries = _changed(entries, batch)
        self.durable = Restored(hard_state, snapshot, tuple(entries))
        self._doubtful.clear()

    def compact(self, snapshot: SnapshotMeta, first_kept: int) -> None:
        kept = tuple(entry for entry in self.durable.entries if entry.index >= first_kept)
        self.durable = Restored(self.durable.hard_state, snapshot, kept)


def with_snapshot(snapshot: SnapshotMeta) -> MemoryStore:
    """A founder's disk."""
    return MemoryStore(Restored(HardState(), snapshot, ()))


def _changed(entries: list[Entry], batch: Batch) -> list[Entry]:
    if batch.install_snapshot is not None:
        entries = []
    if batch.truncate_from is not None:
        entries = [entry for entry in entries if entry.index < batch.truncate_from]
    return [*entries, *batch.entries]
