"""What the disk still has to be given: batches in order, a group at a time.

While a group is on its way the next one gathers; together they are one write and one sync. What asks for no
sync (a commit index that moved, an answer that promises nothing new) waits only for what is ahead of it.

A full disk is no failure: nothing was written, so the group goes back to the head of the queue until there is
room. Everything that depends on it waits, and a leader whose disk stays silent for an election timeout steps
down by the core's own rule.
"""

from __future__ import annotations

from collections import deque
from dataclasses import field

from msgspec.structs import replace

from adsum.buckets import Buckets
from adsum.consensus.effects import StoreGroup
from adsum.mutable import dataclass
from adsum.raft.batch import Batch, LogChange
from adsum.raft.types import HardState, SnapshotMeta, SnapshotRef, Ticket

GROUP_EDGES = tuple(float(1 << bits) for bits in range(11))  # 1 to 1,024 entries

REFS_MAX = 4  # snapshots in place: the newest, the one before, and what may just have been received


@dataclass(slots=True)
class StoreCounters:
    groups: int = 0  # trips to the disk
    sizes: Buckets = field(default_factory=lambda: Buckets(GROUP_EDGES))  # of those stored, in entries
    disk_full: int = 0  # writes that had to wait for room


class Storing:
    def __init__(self, newest: SnapshotRef | None) -> None:
        self.counters = StoreCounters()
        self.newest = newest  # the snapshot that the log on disk stands on
        self.is_log_full = False  # its next segment could not be made
        self._is_full = False  # a group found no room
        self._waiting: deque[Batch] = deque()  # bounded by what the core lets be uncommitted
        self._under_way: list[Batch] = []
        self._commit_waiting: HardState | None = None  # it is worth no write of its own
        self._refs = {(newest.index, newest.term): newest} if newest is not None else {}

    @property
    def has_room(self) -> bool:
        return not self._is_full and not self.is_log_full

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    @property
    def commit_to_keep(self) -> HardState | None:
        """For an orderly end. What waits to be written is lost, as by a crash; nobody was told of it."""
        return None if self._under_way else self._commit_waiting

    def try_again(self) -> None:
        self._is_full = False

    def add(self, batch: Batch) -> None:
        """On a full disk what stores nothing takes the place of what stored nothing before it: answers to
        heartbeats would gather there for days. Messages of the one before are lost, as any may be."""
        if self._is_full and self._waiting and _is_light(batch) and _is_light(self._waiting[-1]):
            before = self._waiting.pop()
            if batch.hard_state is None:
                batch = replace(batch, hard_state=before.hard_state)
            batch = replace(batch, must_sync=batch.must_sync or before.must_sync)
        self._waiting.append(batch)

    def next_without_sync(self) -> Batch | None:
        """What may be promised without a trip to the disk, for nothing is ahead of it."""
        if self._under_way or self._is_full or not self._waiting or self._waiting[0].must_sync:
            return None
        batch = self._waiting.popleft()
        self._commit_waiting = batch.hard_state or self._commit_waiting
        return batch

    def next_group(self) -> StoreGroup | None:
        """All that has gathered, up to a snapshot: as soon as that is durable its state is read."""
        if self._under_way or self._is_full or not self._waiting:
            return None
        group = self._under_way
        while self._waiting:
            group.append(self._waiting.popleft())
            if group[-1].install_snapshot is not None:
                break
        self.counters.groups += 1
        changes = [self._change(batch) for batch in group]
        if self._commit_waiting is not None:
            changes.insert(0, LogChange(hard_state=self._commit_waiting))
        return StoreGroup(group[-1].ticket, changes)

    def stored(self, ticket: Ticket) -> list[Batch]:
        """The group that is durable now."""
        group, self._under_way = self._under_way, []
        assert group[-1].ticket == ticket, "one group at a time"
        self._commit_waiting = None
        self.counters.sizes.add(sum([len(batch.entries) for batch in group]))
        install = group[-1].install_snapshot
        if install is not None:
            self.newest = self._refs[install.index, install.term]
        return group

    def found_no_room(self, ticket: Ticket) -> None:
        group, self._under_way = self._under_way, []
        assert group[-1].ticket == ticket, "one group at a time"
        self._waiting.extendleft(reversed(group))
        self._is_full = True
        self.counters.disk_full += 1

    # Snapshot files.

    def ref_of(self, snapshot: SnapshotMeta) -> SnapshotRef | None:
        return self._refs.get((snapshot.index, snapshot.term))

    def note_snapshot(self, meta: SnapshotMeta, ref: SnapshotRef) -> None:
        """Its file is in place. Of older ones the disk keeps one at most."""
        self._refs[meta.index, meta.term] = ref
        installs = [each.install_snapshot for each in (*self._under_way, *self._waiting)]
        wanted = [(each.index, each.term) for each in installs if each is not None]
        for key in sorted(self._refs)[:-REFS_MAX]:
            if key not in wanted:
                del self._refs[key]

    def forget_snapshot(self, ref: SnapshotRef) -> None:
        """It is sent to nobody any more."""
        self._refs.pop((ref.index, ref.term), None)

    def _change(self, batch: Batch) -> LogChange:
        meta = batch.install_snapshot
        install = self._refs[meta.index, meta.term] if meta is not None else None
        return LogChange(install, batch.truncate_from, batch.entries, batch.hard_state)


def _is_light(batch: Batch) -> bool:
    """A term, a vote or a commit index at most."""
    return not batch.entries and batch.truncate_from is None and batch.install_snapshot is None
