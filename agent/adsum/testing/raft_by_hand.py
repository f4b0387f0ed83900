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
from adsum.raft.types import Entry, MemberId, SnapshotMeta
from adsum.testing.raft_machine import Registers
from adsum.testing.raft_store import MemoryStore


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
        restored = self.store.load()
        self.is_up = True
        self.unsynced: deque[Batch] = deque()
        self.unapplied: deque[Entry] = deque()
        self.machine = Registers(self.store.snapshot_data(restored.snapshot))
        self.machine.index = restored.snapshot.index
        self.raft = RaftCore(
            me=self.me,
            stamp=self.stamp,
            settings=self.settings,
            restored=restored,
            random=Random(self.random.getrandbits(64)),
            now=now,
        )

    def take(self, *, with_commit_news: bool = True) -> Batch | None:
        """What to send now is the caller's; what to store is on its way."""
        batch = self.raft.ready(with_commit_news=with_commit_news)
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
            if batch.install_snapshot is not None:
                self._install(batch.install_snapshot)
            messages += batch.send_after_store
        self.raft.stored(done[-1].ticket)
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
        self.store.save_snapshot(snapshot, self.machine.dump())
        first_kept = max(snapshot.index + 1 - keep, 1)
        self.store.compact(snapshot, first_kept)
        self.raft.compacted(snapshot, first_kept)
        return snapshot

    def _install(self, snapshot: SnapshotMeta) -> None:
        self.machine = Registers(self.store.snapshot_data(snapshot))
        self.machine.index = snapshot.index
        self.unapplied = deque(entry for entry in self.unapplied if entry.index > snapshot.index)
