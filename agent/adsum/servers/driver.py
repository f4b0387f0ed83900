"""One task that owns the core: it takes its batches, has them stored and sent, and applies what is committed.

Everyone on the loop may put something into the core (`propose`, `step`, `read`) between two awaits; only this
task takes batches out, in the round of the loop that follows. What a leader sends leaves before it is stored
here, so its disk and the network work side by side. The duties are those listed in `adsum.raft.batch`.

A disk that fails ends the process: `run` raises `StoreBroken`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import trio

from adsum.now import Now
from adsum.raft.batch import Batch, Soft
from adsum.raft.changer import ConfigurationChange
from adsum.raft.core import RaftCore
from adsum.raft.errors import NotLeader, RaftRefused
from adsum.raft.messages import Message, SnapshotOffer
from adsum.raft.types import (
    DedupKey,
    Entry,
    EntryKind,
    MemberId,
    Position,
    Role,
    SnapshotMeta,
    SnapshotRef,
    Term,
)
from adsum.servers.compaction import Compaction
from adsum.servers.errors import DiskIsFull, OutcomeUnknown, Stopping, StoreBroken
from adsum.servers.machine import StateMachine
from adsum.servers.pace import Pace
from adsum.servers.settings import ServerSettings
from adsum.servers.storing import Storing
from adsum.servers.waiting import Answered, Proposals, ReadAnswered, WaitingReads
from adsum.servers.writer import LogWriter
from adsum.storage.failures import StorageFailed
from adsum.storage.raft_log import RaftLog

APPLY_ENTRIES_MAX = 256  # in one round of the loop; some milliseconds at most
ROOM_INTERVAL_S = 1.0  # a full disk is asked again so often
COMMIT_NEWS_DELAY_S = 0.003  # a little longer than a round of proposals takes when they come without end
FAREWELL_S = 0.05

T = TypeVar("T")

log = logging.getLogger("raft")


class Sends(Protocol):
    """What the driver needs of the network. Neither waits."""

    def send(self, message: Message) -> None: ...

    def carry(self, offer: SnapshotOffer, ref: SnapshotRef) -> None:
        """Bring the file; `report_snapshot` on the driver when it has arrived, or will not."""


@dataclass(slots=True)
class DriverCounters:
    batches: int = 0
    entries_applied: int = 0
    refused_full: int = 0  # proposals, for want of room
    snapshots_made: int = 0
    snapshots_failed: int = 0
    snapshots_damaged: int = 0  # found so when they were to be sent
    snapshots_installed: int = 0


class Driver:
    def __init__(
        self,
        core: RaftCore,
        raft_log: RaftLog,
        machine: StateMachine,
        sends: Sends,
        settings: ServerSettings,
        *,
        now: Callable[[], Now],
    ) -> None:
        self.core = core
        self.machine = machine
        self.settings = settings
        self.counters = DriverCounters()
        self.soft = Soft(Role.FOLLOWER, None, core.replica.term)
        self.storing = Storing(raft_log, machine, self)
        self.pace = Pace(self, settings.tick_s, now)
        self._compaction = Compaction(self)
        self._sends = sends
        self._proposals = Proposals()
        self._reads = WaitingReads()
        self._unapplied: deque[Entry] = deque()  # the core's window of what is being applied
        self._failure: StorageFailed | None = None
        self._is_stopping = False
        self._tells_commits = False
        self._owes_commit_news = trio.Event()
        self._woken = trio.Event()
        self._changed = trio.Event()

    # What it is asked.

    @property
    def is_leader(self) -> bool:
        return self.core.replica.role is Role.LEADER

    @property
    def leader(self) -> MemberId | None:
        return self.core.replica.leader

    @property
    def applied(self) -> int:
        return self.core.replica.log.applied

    def propose(
        self, data: bytes, answered: Answered, *, dedup: DedupKey | None = None, term: Term | None = None
    ) -> Position:
        """Raises what the core refuses. `answered` is called once, unless the process ends before."""
        self._check_open()
        position = self.core.propose(data, term=term, dedup=dedup)
        return self._expect(position, answered)

    def propose_change(self, change: ConfigurationChange, answered: Answered) -> Position:
        self._check_open()
        return self._expect(self.core.propose_conf(change), answered)

    def propose_level(self, level: int, answered: Answered) -> Position:
        self._check_open()
        return self._expect(self.core.propose_level(level), answered)

    def read(self, answered: ReadAnswered) -> None:
        """The index up to which a quorum confirmed this leader, when the state machine stands on it."""
        if not self.is_leader:
            raise NotLeader(f"the leader is {self.leader}")
        self._reads.add(answered)
        self._woken.set()

    def step(self, message: Message) -> None:
        self.core.step(message)
        self._woken.set()

    def tick(self, now: Now) -> None:
        self.core.tick(now)
        self._woken.set()

    def transfer(self, target: MemberId) -> None:
        self.core.transfer(target)
        self._woken.set()

    def report_unreachable(self, node: str) -> None:
        for member in self.core.replica.configuration.members():
            if member.node == node:
                self.core.report_unreachable(member)
        self._woken.set()

    def report_snapshot(self, member: MemberId, *, is_ok: bool) -> None:
        self.core.report_snapshot(member, is_ok=is_ok)
        self._woken.set()

    async def examine_snapshot(self, ref: SnapshotRef) -> None:
        """It could not be brought to somebody, and that may be its file's fault."""
        await self._compaction.examine(ref)

    def fail(self, error: StorageFailed) -> None:
        """Some write or sync failed. Nothing will be stored any more."""
        self._failure = error
        self._woken.set()

    async def changed(self) -> None:
        """Until the role, the leader, the term, or what is applied is another than now."""
        await self._changed.wait()

    # How it runs.

    async def run(self, writer: LogWriter) -> None:
        """Until cancelled, or until the disk fails: then there is a `StoreBroken` in the group."""
        self.storing.begin_with(writer)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.pace.run)
                nursery.start_soon(self._tell_commits)
                nursery.start_soon(self._compaction.run)
                nursery.start_soon(self._keep_room)
                await self._work(nursery)
        finally:
            self._proposals.end(OutcomeUnknown("this server stopped before it was answered"))
            self._reads.end(Stopping("this server stopped before it was answered"))

    async def stop(self) -> None:
        """In order: leadership is handed over first, so that nobody has to wait for an election."""
        self._is_stopping = True
        with trio.move_on_after(self.settings.election_timeout_s * 2):
            while self.is_leader and (heir := self._heir()) is not None:
                with suppress(RaftRefused):
                    self.transfer(heir)
                with trio.move_on_after(self.settings.tick_s):
                    await self._changed.wait()

    def _heir(self) -> MemberId | None:
        """The other voter that has most of the log and was heard lately."""
        status = self.core.status()
        others = [
            (member.match, member.member)
            for member in status.members
            if member.is_active
            and member.member in status.configuration.voters
            and member.member != self.core.replica.me
        ]
        return status.transferee or (max(others)[1] if others else None)

    async def _work(self, nursery: trio.Nursery) -> None:
        while True:
            self._woken = trio.Event()
            self._finish_storing(nursery)
            if self._failure is not None:
                await self._break(self._failure)
            if self._reads.gathered:
                self._reads.ask(self.core.read_index)
            self._take_all()
            while self.storing.begin():
                self._take_all()
            self._apply()
            self._tells_commits = False
            if self.core.owes_commit_news:
                self._owes_commit_news.set()
            await self._woken.wait()

    async def _tell_commits(self) -> None:
        """Followers learn of a commit with the next entries, or after this moment's wait."""
        while True:
            await self._owes_commit_news.wait()
            await trio.sleep(COMMIT_NEWS_DELAY_S)
            self._owes_commit_news = trio.Event()
            self._tells_commits = True
            self._woken.set()

    async def _keep_room(self) -> None:
        """A disk without room for the next segment: hand leadership over while this one still takes votes."""
        while True:
            await trio.sleep(ROOM_INTERVAL_S)
            if self.storing.has_room:
                continue
            if self.is_leader and (heir := self._heir()) is not None:
                log.error("the disk is full: leadership is handed to %s", heir)
                with suppress(RaftRefused):
                    self.transfer(heir)
            await self._compaction.make_room()
            self.storing.try_again()
            self._woken.set()

    # Batches.

    def _take_all(self) -> None:
        while (batch := self.core.ready(with_commit_news=self._tells_commits)) is not None:
            self._take(batch)

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
        self.storing.add(batch)

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

    def _offer(self, offer: SnapshotOffer) -> None:
        ref = self.storing.ref_of(offer.snapshot)
        if ref is not None:
            self._sends.carry(offer, ref)
        else:
            self.core.report_snapshot(offer.target, is_ok=False)

    def _expect(self, position: Position, answered: Answered) -> Position:
        self._proposals.add(position, answered)
        self._woken.set()
        return position

    def _check_open(self) -> None:
        if self._is_stopping:
            raise Stopping("this server is stopping")
        if not self.storing.has_room:
            self.counters.refused_full += 1
            raise DiskIsFull("the disk of this server has no room for more log; free some space there")

    def _tell_change(self) -> None:
        changed, self._changed = self._changed, trio.Event()
        changed.set()

    # What comes back from the disk. The first three are `storing.Promises`.

    def promise(self, group: Sequence[Batch]) -> None:
        for batch in group:
            for message in batch.send_after_store:
                self._sends.send(message)
        self.core.stored(group[-1].ticket)

    def install(self, snapshot: SnapshotMeta, state: Any) -> None:
        self.machine.restore(state)
        self._unapplied.clear()
        self._proposals.passed(snapshot.index)
        self.counters.snapshots_installed += 1
        self._tell_change()
        log.info("the state was replaced by the leader's snapshot at index %d", snapshot.index)

    def wake(self) -> None:
        self._woken.set()

    def _finish_storing(self, nursery: trio.Nursery) -> None:
        try:
            is_stored = self.storing.finish()
        except StorageFailed as error:
            self._failure = error
            return
        raft_log = self.storing.raft_log
        if is_stored and raft_log.needs_preparing and not raft_log.is_full:
            self._compaction.prepare(nursery)

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
            self._reads.applied(self.applied)
            return
        take, apply, applied = self._unapplied.popleft, self.machine.apply, self._proposals.applied
        is_change = False
        for _ in range(count):
            entry = take()
            applied(entry, apply(entry))
            is_change |= entry.kind is not EntryKind.COMMAND
        self.core.applied(entry.index)
        self.counters.entries_applied += count
        self._reads.applied(entry.index)
        self._tell_change()
        if is_change or self._unapplied or self.core.has_more_to_apply:
            self._woken.set()
