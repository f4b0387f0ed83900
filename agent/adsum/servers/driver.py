"""Carries out what the core of consensus wants done: messages to the links, the disk's work to threads,
answers to whoever waits.

The core's `tick` is called at once when another server has said something, or the disk: one message, or one
group, is the work of many already. What is asked here gathers, for it comes by the dozen: one task ticks once
a round of the loop in which some came in, and when the core's deadline has come. Everyone on the loop may
call the verbs between two awaits.

A disk that fails ends the process: `run` raises `StoreBroken`.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import trio

from adsum.buckets import Buckets
from adsum.consensus import commands, effects, reports
from adsum.consensus.core import ConsensusCore
from adsum.consensus.counters import ConsensusCounters
from adsum.consensus.errors import StoreBroken
from adsum.dedup import DedupKey
from adsum.effects import LogLine, Severity
from adsum.now import SECOND, Now
from adsum.raft.batch import LogChange
from adsum.raft.changer import ConfigurationChange
from adsum.raft.messages import Message, SnapshotOffer
from adsum.raft.types import HardState, MemberId, SnapshotRef, Term
from adsum.servers.resting import with_rests
from adsum.servers.stages import WriteStages
from adsum.servers.writer import Done, LogWriter
from adsum.storage import log_jobs
from adsum.storage.failures import StorageFailed
from adsum.storage.raft_log import RaftLog

FAREWELL_S = 0.05
HEARD_MAX = 64  # twice the members that consensus may have
SNAPSHOT_EDGES_S = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)
TIMER_EARLY_S_MAX = 0.001  # a wake for nothing costs more than to set it anew, and that more than nothing
PROGRESS_S = 0.1  # a disk that says nothing for half a second counts as silent
LEVELS = {Severity.INFO: logging.INFO, Severity.WARN: logging.WARNING, Severity.ERROR: logging.ERROR}

Answered = Callable[[bytes | Exception], None]  # runs on the loop and must be quick
ReadAnswered = Callable[[int | Exception], None]

log = logging.getLogger("raft")


class Sends(Protocol):
    """What the driver needs of the network."""

    def send(self, message: Message) -> None: ...

    async def ask_leader(self, asked: effects.AskLeader) -> bytes | int | Exception:
        """This one waits; the answer, or what its absence means."""

    def carry(self, offer: SnapshotOffer, ref: SnapshotRef) -> None:
        """Bring the file; `report_snapshot` on the driver when it has arrived, or will not."""


class FollowsServer(Protocol):
    """Who stands on a server and follows what becomes of it; each call must be quick."""

    def applied(self) -> None:
        """The state machine has something new."""

    def turned(self, turned: effects.Turned) -> None: ...

    def doubted(self, doubted: effects.StateDoubted) -> None: ...


class NobodyFollows:
    def applied(self) -> None:
        pass

    def turned(self, turned: effects.Turned) -> None:
        pass

    def doubted(self, doubted: effects.StateDoubted) -> None:
        pass


class Driver:
    def __init__(
        self,
        core: ConsensusCore,
        raft_log: RaftLog,
        sends: Sends,
        now: Callable[[], Now],
        follower: FollowsServer,
    ) -> None:
        self.core = core
        self.raft_log = raft_log
        self.stages = WriteStages(core)
        self.snapshots_written, self.snapshots_read = Buckets(SNAPSHOT_EDGES_S), Buckets(SNAPSHOT_EDGES_S)
        self._heard_ns: dict[str, int] = {}  # when each other server was, last
        self._sends = sends
        self._now = now
        self._follower = follower
        self._round_now = now()  # of the first thing that came in since the last tick
        self._writer: LogWriter | None = None
        self._nursery: trio.Nursery | None = None
        self._raised: BaseException | None = None  # outside of the task that may end the process
        self._is_running = False
        self._has_news = False  # since the last turn
        self._broken = ""
        self._progress_told_s = -math.inf
        self._handed_over = trio.Event()
        self._is_woken = False
        # Of `_work`, and of whoever waits for changes; an event each time would cost three times as much.
        self._sleep = trio.lowlevel.ParkingLot()
        self._changed = trio.lowlevel.ParkingLot()
        self._timer = trio.CancelScope()
        self.leader_since_ms = 0  # wall clock, when the present leader was seen to lead; 0 without one
        self._turned_ns = self._round_now.monotonic_ns  # when that was, or since when there is none
        self._members_then: frozenset[str] = frozenset()  # nodes
        self._seen_leader: MemberId | None = None
        self._performing = self._performers()

    # What it is asked.

    @property
    def is_leader(self) -> bool:
        return self.core.is_leader

    @property
    def leader(self) -> MemberId | None:
        return self.core.leader

    @property
    def applied(self) -> int:
        return self.core.applied

    @property
    def counters(self) -> ConsensusCounters:
        return self.core.counters

    def propose(
        self,
        data: bytes,
        answered: Answered,
        *,
        dedup: DedupKey | None = None,
        term: Term | None = None,
        urgency: commands.ProposalUrgency = commands.ProposalUrgency.WRITE,
    ) -> None:
        """Raises what the core refuses. `answered` is called once, unless the process ends before."""
        wanted = self.core.command(self._wake(), commands.Propose(data, answered, dedup, term, urgency))
        if wanted:
            self._carry_out(wanted)

    def submit(self, request: commands.SubmitProposal | commands.SubmitRead) -> None:
        """Its token is called with the answer, once."""
        if type(request) is commands.SubmitRead and self.core.holds_reads:
            self._carry_out(self.core.command(self._now(), request))
        else:
            self._command(request)

    def give_up(self, token: commands.Token) -> None:
        self._command(commands.GiveUp(token))

    def propose_change(self, change: ConfigurationChange, answered: Answered) -> None:
        self._command(commands.ProposeChange(change, answered))

    def propose_level(self, level: int, answered: Answered) -> None:
        self._command(commands.ProposeLevel(level, answered))

    def read(self, answered: ReadAnswered) -> None:
        """The index up to which a quorum confirmed this leader, when the state machine stands on it."""
        self._command(commands.ConfirmRead(answered))

    def transfer(self, target: MemberId) -> None:
        self._command(commands.TransferTo(target))

    def step(self, message: Message) -> None:
        try:
            now = self._now()
            self._note_heard(message.source.node, now)
            self._carry_out(self.core.receive(now, message))
            self._turn_at_once(now)
        except AssertionError as error:
            self._end_by(error)
            raise

    def report(self, report: reports.ConsensusReport) -> None:
        try:
            self._carry_out(self.core.report(self._wake(), report))
        except AssertionError as error:
            self._end_by(error)
            raise

    def report_snapshot(self, member: MemberId, *, is_ok: bool) -> None:
        self.report(reports.BringingEnded(member, is_ok))

    async def examine_snapshot(self, ref: SnapshotRef) -> None:
        """It could not be brought to somebody, and that may be its file's fault."""
        if self.core.compaction.doubts(ref):
            snapshots = self.raft_log.snapshots
            damage = await trio.to_thread.run_sync(log_jobs.damage_of, snapshots, ref)
            self.report(reports.SnapshotVerified(ref, damage))

    def fail(self, error: StorageFailed) -> None:
        """Some write or sync failed. Nothing will be stored any more."""
        self.report(reports.StoringFailed(str(error)))

    def silences_ns(self) -> dict[str, int]:
        """How long ago each other server was heard."""
        now_ns = self._now().monotonic_ns
        return {node: now_ns - heard_ns for node, heard_ns in self._heard_ns.items()}

    def unheard_ns(self) -> dict[str, int]:
        """For how long each has not been heard that never was, of those who were members when the present
        leader was seen to lead."""
        turned_ns = self._now().monotonic_ns - self._turned_ns
        return {node: turned_ns for node in self._members_then if node not in self._heard_ns}

    async def changed(self) -> None:
        """Until the role, the leader, the term, or what is applied is another than now."""
        await self._changed.park()

    # How it runs.

    async def run(self, writer: LogWriter) -> None:
        """Until cancelled, or until the disk fails: then there is a `StoreBroken` in the group."""
        self._writer, self._is_running = writer, True
        self.raft_log.tell_progress(partial(self._tell_progress, writer))
        try:
            async with trio.open_nursery() as self._nursery:
                self._nursery.start_soon(self._keep_time)
                await self._work()
        finally:
            self._is_running = False
            self._carry_out(self.core.end())

    async def stop(self) -> None:
        """In order: leadership is handed over first, so that nobody has to wait for an election."""
        self._command(commands.StopServing())
        await self._handed_over.wait()

    def close(self) -> None:
        """The log's last write, and its thread's end."""
        if self._writer is not None:
            self._writer.do(partial(self._end_log, self.core.storing.commit_to_keep), _ignore)
            self._writer.close()

    async def _work(self) -> None:
        while True:
            self._is_woken = False
            if self.core.reads.lets_join:  # once those are heard who were answered in this round of the loop
                await trio.lowlevel.checkpoint()
            if self._raised is not None:
                raise self._raised
            if self._has_news:
                now = self._now()
                self._turn(now)
                self._set_timer(now)
            if self.core.deadline() is None:
                await trio.sleep(FAREWELL_S)
                raise StoreBroken(self._broken)
            if self._is_woken:
                await trio.lowlevel.checkpoint()
            else:
                await self._sleep.park()

    def _turn(self, now: Now) -> None:
        self._has_news = False
        self._take_turn(now)

    def _turn_at_once(self, now: Now) -> None:
        """If something would come of it."""
        if not self._is_running:
            return
        if not self._has_news:
            self._round_now = now
        try:
            due_ns = self.core.deadline()
            if due_ns is not None and due_ns <= now.monotonic_ns:
                self._turn(now)
            elif now.monotonic_ns >= self.stages.due_ns:
                self.stages.before_turn(now.monotonic_ns, now.monotonic_ns)
            self._set_timer(now)
        except BaseException as error:
            self._raise_in_work(error)
        self._round_now = now

    def _raise_in_work(self, error: BaseException) -> None:
        """There it ends the process; whoever called may survive any error of ours."""
        self._raised = error
        self._wake_work()

    def _set_timer(self, now: Now) -> None:
        due_ns = self.core.deadline()
        if due_ns is None or due_ns <= now.monotonic_ns:
            self._wake()
            return
        due_s, set_s = trio.current_time() + (due_ns - now.monotonic_ns) / SECOND, self._timer.deadline
        if due_s < set_s or due_s > set_s + TIMER_EARLY_S_MAX:
            self._timer.deadline = due_s

    def _take_turn(self, now: Now) -> None:
        stages, now_ns = self.stages, now.monotonic_ns
        if now_ns < stages.due_ns or not stages.before_turn(self._round_now.monotonic_ns, now_ns):
            self._carry_out(self.core.tick(now))
            return
        wanted = self.core.tick(now)
        stages.after_turn(self._now().monotonic_ns)
        self._carry_out(wanted)
        stages.carried_out(self._now().monotonic_ns)

    async def _keep_time(self) -> None:
        """A task of its own, for a scope around each wait of `_work` would cost more than all else in a small
        batch."""
        while True:
            with trio.CancelScope(deadline=math.inf) as self._timer:
                self._wake()
                await trio.sleep_forever()

    def _wake(self) -> Now:
        """The time is read once a round of the loop."""
        self._has_news = True
        if not self._is_woken:
            self._wake_work()
            self._round_now = self._now()
        return self._round_now

    def _wake_work(self) -> None:
        self._is_woken = True
        self._sleep.unpark()

    def _note_heard(self, node: str, now: Now) -> None:
        if len(self._heard_ns) >= HEARD_MAX:  # of those who were members once
            self._heard_ns.clear()
        self._heard_ns[node] = now.monotonic_ns

    def _command(self, command: commands.ConsensusCommand) -> None:
        wanted = self.core.command(self._wake(), command)
        if wanted:
            self._carry_out(wanted)

    def _end_by(self, error: AssertionError) -> None:
        """Whoever calls may survive any error of ours, as a server of calls does. A core that an assertion
        left half changed may not go on."""
        self.core.fail(f"consensus met what cannot be: {error}")

    # Effects.

    def _carry_out(self, wanted: Sequence[effects.ConsensusEffect]) -> None:
        for effect in wanted:
            self._performing[type(effect)](effect)

    def _performers(self) -> dict[type, Callable[[Any], None]]:
        return {
            effects.SendMessage: lambda effect: self._sends.send(effect.message),
            effects.AskLeader: self._start_asking,
            effects.BringSnapshot: lambda effect: self._sends.carry(effect.offer, effect.ref),
            effects.StoreGroup: self._in_log_thread,
            effects.RecordSnapshot: self._in_log_thread,
            effects.WriteSnapshot: self._start_beside_the_log,
            effects.ReadSnapshot: self._start_beside_the_log,
            effects.PrepareSegment: self._start_beside_the_log,
            effects.SpendBallast: self._start_beside_the_log,
            effects.AnswerRequests: _answer,
            effects.AppliedTo: self._tell_applied,
            effects.Turned: self._tell_turn,
            effects.StateDoubted: self._follower.doubted,
            effects.HandedOver: lambda _effect: self._handed_over.set(),
            effects.ServerBroken: self._break,
            LogLine: lambda effect: log.log(LEVELS[effect.severity], "%s", effect.sentence),
        }

    def _start_asking(self, effect: effects.AskLeader) -> None:
        assert self._nursery is not None, "the driver runs"
        self._nursery.start_soon(self._ask_leader, effect)

    async def _ask_leader(self, effect: effects.AskLeader) -> None:
        self.report(reports.LeaderAnswered(effect.ticket, await self._sends.ask_leader(effect)))

    def _tell_applied(self, _effect: effects.AppliedTo) -> None:
        self._follower.applied()
        self._tell_change()

    def _tell_turn(self, effect: effects.Turned) -> None:
        if effect.leader != self._seen_leader:
            now, self._seen_leader = self._now(), effect.leader
            self.leader_since_ms = now.wall_ms if effect.leader is not None else 0
            self._turned_ns = now.monotonic_ns
            members = self.core.raft.replica.configuration.members()
            self._members_then = frozenset(each.node for each in members)
        self._follower.turned(effect)
        self._tell_change()

    def _tell_change(self) -> None:
        self._changed.unpark_all()

    def _break(self, effect: effects.ServerBroken) -> None:
        self._broken = effect.sentence

    def _in_log_thread(self, job: log_jobs.DiskJob) -> None:
        """One after the other."""
        assert self._writer is not None, "the driver runs"
        self._writer.do(partial(self._done, job), self._note)

    def _tell_progress(self, writer: LogWriter) -> None:
        """In whichever thread. The next segment is filled in 64 pieces; the loop need not wake for each."""
        now_s = time.monotonic()
        if now_s - self._progress_told_s >= PROGRESS_S:
            self._progress_told_s = now_s
            writer.tell(self._disk_progressed)

    def _disk_progressed(self) -> None:
        self.report(reports.DiskProgressed())

    def _note(self, outcome: Done[reports.ConsensusReport]) -> None:
        if not self._is_running:
            return
        now = self._now()
        try:
            self._carry_out(self.core.report(now, outcome.unwrap()))
        except BaseException as error:
            self._raise_in_work(error)
        else:
            self._turn_at_once(now)

    def _start_beside_the_log(self, job: log_jobs.DiskJob) -> None:
        assert self._nursery is not None, "the driver runs"
        self._nursery.start_soon(self._beside_the_log, job)

    async def _beside_the_log(self, job: log_jobs.DiskJob) -> None:
        began_s = trio.current_time()
        report = await trio.to_thread.run_sync(self._done, job)
        taken = {effects.WriteSnapshot: self.snapshots_written, effects.ReadSnapshot: self.snapshots_read}
        if type(job) in taken:
            taken[type(job)].add(trio.current_time() - began_s)
        self.report(report)

    def _done(self, job: log_jobs.DiskJob) -> reports.ConsensusReport:
        """In whichever thread."""
        if type(job) is effects.WriteSnapshot:
            job = effects.WriteSnapshot(job.meta, with_rests(job.pieces))
        return log_jobs.done(job, self.raft_log, self._read)

    def _read(self, pieces: Iterator[bytes]) -> Any:
        return self.core.machine.read(with_rests(pieces))

    def _end_log(self, commit: HardState | None) -> None:
        if commit is not None:
            self.raft_log.append([LogChange(hard_state=commit)])
        self.raft_log.close()


def _answer(effect: effects.AnswerRequests) -> None:
    for answered, outcome in effect.answers:
        answered(outcome)


def _ignore(_outcome: object) -> None:
    pass
