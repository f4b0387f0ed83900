"""One task that owns the core: it takes its batches, has them stored and sent, and applies what is committed.

Everyone on the loop may put something into the core (`propose`, `step`, `read`) between two awaits; only this
task takes batches out, in the round of the loop that follows. While one group of batches is on its way to the
disk the next one gathers, which is group commit; and what a leader sends leaves before it is stored here.
The duties are those listed in `adsum.raft.batch`.

Time: one tick every 50 ms, times the multiplier. After a gap of more than three ticks (a paused process, a
suspended host) the missed ones are not made up for, and until a quorum has confirmed that we still lead,
`is_time_trusted` is False: whoever would expire something asks that first.

A disk that fails ends the process: `run` raises `StoreBroken`. A full one does not: the write waits for room,
and so does everything that depends on it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import trio

from adsum.now import Now
from adsum.raft.batch import Batch, Soft
from adsum.raft.changer import Change as MembershipChange
from adsum.raft.core import Core
from adsum.raft.errors import NotLeader, Refused
from adsum.raft.messages import Message, SnapshotOffer
from adsum.raft.types import (
    DedupKey,
    Entry,
    HardState,
    MemberId,
    Position,
    Role,
    SnapshotMeta,
    Term,
)
from adsum.servers.compaction import Compaction
from adsum.servers.errors import DiskIsFull, Stopping, StoreBroken
from adsum.servers.machine import StateMachine
from adsum.servers.settings import ServerSettings
from adsum.servers.waiting import Answered, Proposals, ReadAnswered, Reads
from adsum.servers.writer import Done, Writer
from adsum.storage.files import DiskFull, StorageFailed
from adsum.storage.raft_log import Change, RaftLog
from adsum.storage.segment import SnapshotRef

PAUSE_TICKS = 3
APPLY_ENTRIES_MAX = 256  # in one round of the loop; some milliseconds at most
ROOM_INTERVAL_S = 1.0  # a full disk is asked again so often
COMMIT_NEWS_DELAY_S = 0.003  # a little longer than a round of proposals takes when they come without end
FAREWELL_S = 0.05
REFS_MAX = 4  # snapshots in place: the newest, the one before, and what may just have been received

T = TypeVar("T")

log = logging.getLogger("raft")


class Sends(Protocol):
    """What the driver needs of the transport. Neither waits."""

    def send(self, message: Message) -> None: ...

    def carry(self, offer: SnapshotOffer, ref: SnapshotRef) -> None:
        """Bring the file; `report_snapshot` on the driver when it has arrived, or will not."""


@dataclass(slots=True)
class DriverCounters:
    batches: int = 0
    groups: int = 0  # trips to the disk
    entries_stored: int = 0
    entries_applied: int = 0
    pauses: int = 0
    disk_full: int = 0  # writes that had to wait for room
    refused_full: int = 0  # proposals, for want of room
    snapshots_made: int = 0
    snapshots_failed: int = 0
    snapshots_installed: int = 0


class Driver:
    def __init__(
        self,
        core: Core,
        raft_log: RaftLog,
        machine: StateMachine,
        sends: Sends,
        settings: ServerSettings,
        *,
        now: Callable[[], Now],
    ) -> None:
        self.core = core
        self.machine = machine
        self.counters = DriverCounters()
        self.soft = Soft(Role.FOLLOWER, None, core.replica.term)
        self.settings = settings
        self.is_time_trusted = True
        self._log = raft_log
        ref = raft_log.snapshot
        self._refs = {(ref.index, ref.term): ref} if ref is not None else {}  # of files that are in place
        self._sends = sends
        self._now = now
        self._proposals = Proposals()
        self._reads = Reads()
        self._unstored: deque[Batch] = deque()
        self._unapplied: deque[Entry] = deque()
        self._storing: list[Batch] = []  # on its way to the disk
        self._stored: Done[Any] | None = None  # what became of it
        self._commit_waiting: HardState | None = None  # it is worth no write of its own
        self._compaction = Compaction(self)
        self._is_disk_full = False
        self._is_stopping = False
        self._is_proving = False
        self._failure: StorageFailed | None = None
        self._tells_commits = False
        self._owes_commit_news = trio.Event()
        self._wake = trio.Event()
        self._changed = trio.Event()

    # What it is asked.

    @property
    def raft_log(self) -> RaftLog:
        return self._log

    @property
    def is_leader(self) -> bool:
        return self.core.replica.role is Role.LEADER

    @property
    def leader(self) -> MemberId | None:
        return self.core.replica.leader

    @property
    def applied(self) -> int:
        return self.core.replica.log.applied

    @property
    def has_room(self) -> bool:
        return not self._is_disk_full and not self._log.is_full

    def propose(
        self, data: bytes, answered: Answered, *, dedup: DedupKey | None = None, term: Term | None = None
    ) -> Position:
        """Raises what the core refuses. `answered` is called once, unless the process ends before."""
        self._check_open()
        position = self.core.propose(data, term=term, dedup=dedup)
        self._proposals.add(position, answered)
        self._wake.set()
        return position

    def propose_change(self, change: MembershipChange, answered: Answered) -> Position:
        self._check_open()
        position = self.core.propose_conf(change)
        self._proposals.add(position, answered)
        self._wake.set()
        return position

    def propose_level(self, level: int, answered: Answered) -> Position:
        self._check_open()
        position = self.core.propose_level(level)
        self._proposals.add(position, answered)
        self._wake.set()
        return position

    def read(self, answered: ReadAnswered) -> None:
        """The index up to which a quorum confirmed this leader, when the state machine stands on it."""
        if not self.is_leader:
            raise NotLeader(f"the leader is {self.leader}")
        self._reads.gathered.append(answered)
        self._wake.set()

    def step(self, message: Message) -> None:
        self.core.step(message)
        self._wake.set()

    def transfer(self, target: MemberId) -> None:
        self.core.transfer(target)
        self._wake.set()

    def report_unreachable(self, node: str) -> None:
        for member in self.core.replica.configuration.members():
            if member.node == node:
                self.core.report_unreachable(member)
        self._wake.set()

    def report_snapshot(self, member: MemberId, *, is_ok: bool) -> None:
        self.core.report_snapshot(member, is_ok=is_ok)
        self._wake.set()

    async def write(self, job: Callable[[], T]) -> T:
        """Something else that changes the log, between two groups of batches."""
        return await self._writer.wait(job)

    def note_snapshot(self, meta: SnapshotMeta, ref: SnapshotRef) -> None:
        """Its file is in place. Of older ones the disk keeps one at most."""
        self._refs[meta.index, meta.term] = ref
        for key in sorted(self._refs)[:-REFS_MAX]:
            del self._refs[key]

    async def changed(self) -> None:
        """Until the role, the leader, the term, or what is applied is another than now."""
        await self._changed.wait()

    def _check_open(self) -> None:
        if self._is_stopping:
            raise Stopping("this server is stopping")
        if not self.has_room:
            self.counters.refused_full += 1
            raise DiskIsFull("the disk of this server has no room for more log; free some space there")

    # How it runs.

    async def run(self, writer: Writer) -> None:
        """Until cancelled, or until the disk fails."""
        self._writer = writer
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._tick)
                nursery.start_soon(self._tell_commits)
                nursery.start_soon(self._compaction.run)
                nursery.start_soon(self._keep_room)
                await self._work(nursery)
        except* StoreBroken as broken:
            raise broken.exceptions[0] from None
        finally:
            self._proposals.end(Stopping("this server stopped before it was answered"))
            self._reads.end(Stopping("this server stopped before it was answered"))

    async def stop(self) -> None:
        """In order: leadership is handed over first, so that nobody has to wait for an election."""
        self._is_stopping = True
        with trio.move_on_after(self.settings.election_timeout_s * 2):
            while self.is_leader and (heir := self._heir()) is not None:
                try:
                    self.transfer(heir)
                except Refused:
                    return
                with trio.move_on_after(self.settings.tick_s):
                    await self._changed.wait()

    def close(self) -> None:
        """After `run` has ended: what waits to be written is lost, as by a crash; nobody was told of it."""
        self._writer.do(self._end_log, _ignore)
        self._writer.close()

    def _end_log(self) -> None:
        if self._commit_waiting is not None and not self._storing:
            self._log.append([Change(hard_state=self._commit_waiting)])
        self._log.close()

    def _heir(self) -> MemberId | None:
        """The other voter that has most of the log and was heard lately."""
        status = self.core.status()
        if status.transferee is not None:
            return status.transferee
        others = [
            (member.match, member.member)
            for member in status.members
            if member.is_active
            and member.member in status.configuration.voters
            and member.member != self.core.replica.me
        ]
        return max(others)[1] if others else None

    async def _work(self, nursery: trio.Nursery) -> None:
        while True:
            self._wake = trio.Event()
            self._finish_storing(nursery)
            if self._failure is not None:
                await self._break(self._failure)
            if self._reads.gathered:
                self._reads.ask(self.core.read_index)
            while (batch := self.core.ready(with_commit_news=self._tells_commits)) is not None:
                self._take(batch)
            self._begin_storing()
            self._apply()
            self._tells_commits = False
            if self.core.owes_commit_news:
                self._owes_commit_news.set()
            await self._wake.wait()

    async def _tell_commits(self) -> None:
        """Followers learn of a commit with the next entries, or after this moment's wait."""
        while True:
            await self._owes_commit_news.wait()
            await trio.sleep(COMMIT_NEWS_DELAY_S)
            self._owes_commit_news = trio.Event()
            self._tells_commits = True
            self._wake.set()

    async def _tick(self) -> None:
        tick_s = self.settings.tick_s
        due_s = trio.current_time() + tick_s
        while True:
            await trio.sleep_until(due_s)
            gap_s = trio.current_time() - due_s
            if gap_s > PAUSE_TICKS * tick_s:
                self.counters.pauses += 1
                log.warning("this process stood still for %.1f s", gap_s)
                self.is_time_trusted = not self.is_leader
                due_s = trio.current_time()
            due_s += tick_s
            self.core.tick(self._now())
            if not self.is_time_trusted and not self._is_proving:
                self._prove()
            self._wake.set()

    def _prove(self) -> None:
        """Somebody else may lead by now, and have renewed what would be expired here."""

        def confirmed(index: int | Exception) -> None:
            self._is_proving = False
            self.is_time_trusted = isinstance(index, int) or not self.is_leader

        self._is_proving = True
        self._reads.gathered.append(confirmed)

    # Batches.

    def _take(self, batch: Batch) -> None:
        self.counters.batches += 1
        for message in batch.send_now:
            if type(message) is SnapshotOffer:
                self._offer(message)
            else:
                self._sends.send(message)
        self._unapplied.extend(batch.committed)
        for read in batch.reads:
            self._reads.confirmed(read)
        if batch.soft is not None:
            self._turn(batch.soft)
        self._unstored.append(batch)

    def _turn(self, soft: Soft) -> None:
        before, self.soft = self.soft, soft
        if soft.role is not Role.LEADER:
            self._reads.lost()
        if soft.level_missing and not before.level_missing:
            log.error(
                "the log goes on at apply level %d, which this version does not know: nothing more is "
                "applied here until it is upgraded",
                soft.level_missing,
            )
        if (soft.role, soft.leader, soft.term) != (before.role, before.leader, before.term):
            log.info("%s in term %d; the leader is %s", soft.role.value, soft.term, soft.leader or "unknown")
        self._tell_change()

    def _tell_change(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    def _offer(self, offer: SnapshotOffer) -> None:
        ref = self._refs.get((offer.snapshot.index, offer.snapshot.term))
        if ref is not None:
            self._sends.carry(offer, ref)
        else:
            self.core.report_snapshot(offer.target, is_ok=False)

    # The disk.

    def _begin_storing(self) -> None:
        if self._storing or self._is_disk_full:
            return
        self._pass_what_needs_no_sync()
        if not self._unstored:
            return
        group = self._storing = self._next_group()
        self.counters.groups += 1
        changes = [self._change(batch) for batch in group]
        if self._commit_waiting is not None:
            changes.insert(0, Change(hard_state=self._commit_waiting))
            self._commit_waiting = None
        self._writer.do(partial(self._store, changes), self._note_stored)

    def _pass_what_needs_no_sync(self) -> None:
        """Answers that say nothing new of the disk, and commits: they ride with the next write."""
        while self._unstored and not self._unstored[0].must_sync:
            batch = self._unstored.popleft()
            self._commit_waiting = batch.hard_state or self._commit_waiting
            self._promise([batch])

    def _next_group(self) -> list[Batch]:
        """All that has gathered, but nothing behind a snapshot that the state machine does not stand on."""
        group: list[Batch] = []
        while self._unstored:
            group.append(self._unstored.popleft())
            if group[-1].install_snapshot is not None:
                break
        return group

    def _change(self, batch: Batch) -> Change:
        meta = batch.install_snapshot
        install = self._refs[meta.index, meta.term] if meta is not None else None
        return Change(install, batch.truncate_from, batch.entries, batch.hard_state)

    def _store(self, changes: Sequence[Change]) -> Any:
        """In the thread. With a snapshot it is done when the state machine can stand on it, too."""
        self._log.append(changes)
        ref = changes[-1].install
        if ref is None:
            return None
        reading = self._log.snapshots.open(ref)
        try:
            return self.machine.read(reading.body())
        finally:
            reading.close()

    def _note_stored(self, outcome: Done[Any]) -> None:
        self._stored = outcome
        self._wake.set()

    def _finish_storing(self, nursery: trio.Nursery) -> None:
        outcome, self._stored = self._stored, None
        if outcome is None:
            return
        group, self._storing = self._storing, []
        try:
            state = outcome.unwrap()
        except DiskFull as error:
            self._wait_for_room(group, error)
            return
        except StorageFailed as error:
            self.fail(error)
            return
        install = group[-1].install_snapshot
        if install is not None:
            self._install(install, state)
        self.counters.entries_stored += sum(len(batch.entries) for batch in group)
        self._promise(group)
        if self._log.needs_preparing and not self._log.is_full:
            self._compaction.prepare(nursery)

    def _promise(self, group: Sequence[Batch]) -> None:
        """Everything in them is durable now."""
        for batch in group:
            for message in batch.send_after_store:
                self._sends.send(message)
        self.core.stored(group[-1].ticket)
        self._wake.set()

    def _install(self, snapshot: SnapshotMeta, state: Any) -> None:
        self.machine.restore(state)
        self._unapplied.clear()
        self._proposals.passed(snapshot.index)
        self.counters.snapshots_installed += 1
        self._tell_change()
        log.info("the state was replaced by the leader's snapshot at index %d", snapshot.index)

    def _wait_for_room(self, group: list[Batch], error: DiskFull) -> None:
        """Nothing of it was written. The core stops leading by itself if this lasts an election timeout."""
        self._unstored.extendleft(reversed(group))
        self._is_disk_full = True
        self.counters.disk_full += 1
        log.error("the log cannot grow: %s. Writes are refused until there is room", error)

    async def _keep_room(self) -> None:
        """A disk without room for the next segment: hand leadership over while this one still takes votes."""
        while True:
            await trio.sleep(ROOM_INTERVAL_S)
            if self.has_room:
                continue
            if self.is_leader and (heir := self._heir()) is not None:
                log.error("the disk is full: leadership is handed to %s", heir)
                with suppress(Refused):
                    self.transfer(heir)
            await self._compaction.make_room()
            self._is_disk_full = False
            self._wake.set()

    def fail(self, error: StorageFailed) -> None:
        """Some write or sync failed. Nothing will be stored any more."""
        self._failure = error
        self._wake.set()

    async def _break(self, error: StorageFailed) -> None:
        """The others are told first, as far as that goes: the best of them need not wait to notice."""
        self.core.store_failed()
        while (batch := self.core.ready()) is not None:
            for message in batch.send_now:
                if type(message) is not SnapshotOffer:
                    self._sends.send(message)
        await trio.sleep(FAREWELL_S)
        raise StoreBroken(
            f"{error}. Nobody knows what the disk holds now, so this process ends; the next start reads what "
            "is truly there"
        ) from error

    # The state machine.

    def _apply(self) -> None:
        count = min(len(self._unapplied), APPLY_ENTRIES_MAX)
        if not count:
            self._reads.applied(self.core.replica.log.applied)
            return
        take, apply, applied = self._unapplied.popleft, self.machine.apply, self._proposals.applied
        for _ in range(count):
            entry = take()
            applied(entry, apply(entry))
        self.core.applied(entry.index)
        self.counters.entries_applied += count
        self._reads.applied(entry.index)
        self._tell_change()
        self._wake.set()  # there may be more, and a change of the membership may have been among it


def _ignore(_outcome: object) -> None:
    pass
