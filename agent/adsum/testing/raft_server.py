"""A server of consensus as it ships, without its threads and sockets: the core around raft, on the log that
ships, on a disk that fails. `RaftCluster` carries its effects out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from random import Random
from typing import Protocol

from adsum.agent.server_agent import ConsensusPart
from adsum.consensus.core import ConsensusCore
from adsum.consensus.machine import StateMachine
from adsum.consensus.reports import ConsensusReport, FoundingReport
from adsum.consensus.settings import ServerSettings
from adsum.now import MILLISECOND, Now
from adsum.raft.batch import Batch
from adsum.raft.core import RaftCore
from adsum.raft.messages import MessageStamp
from adsum.raft.types import Entry, MemberId
from adsum.storage import log_jobs
from adsum.testing.block_disk import PowerLost
from adsum.testing.block_transfer import Transfer
from adsum.testing.hosts import SimulatedHost
from adsum.testing.raft_disk import ServerDisk
from adsum.testing.raft_machine import Registers

STAMP = MessageStamp("simulated", 0)  # of clusters that nobody founded
# Within which the power goes while a job is on its way: a group is one write and one sync.
OPERATIONS_OF_A_JOB = 3
OPERATIONS_OF_A_FOUNDING_JOB = 8  # a small file, or a snapshot and then a group


class WatchedMachine(StateMachine, Protocol):
    @property
    def registers(self) -> Registers:
        """They have at least the index and the digest of what was applied."""
        ...


MakeMachine = Callable[[Callable[[Entry], None]], WatchedMachine]


class SimulatedServer:
    """A member of consensus on its host: its log, the queue of its disk, and its core while it runs."""

    def __init__(
        self, me: MemberId, host: SimulatedHost, store: ServerDisk, random: Random, make_machine: MakeMachine
    ) -> None:
        self.me = me
        self.host = host
        self.store = store
        self.disk_ns_max = 2 * MILLISECOND
        self.disk_stalled_until_ns = 0
        self.job_stalled_until_ns = 0  # the one that is under way, whatever is said of the disk since
        self.life = 0  # of the host, in which it runs or ran
        self.transfers: dict[MemberId, Transfer] = {}  # of snapshots, the last one to each
        self.has_consensus = False  # until then it is of no cluster yet, and `core` is not there
        self._random = random
        self._make_machine = make_machine

    @property
    def is_up(self) -> bool:
        """What runs on the host is this member."""
        return self.host.is_up and self.life == self.host.life

    @property
    def takes_part(self) -> bool:
        """It runs, and in consensus."""
        return self.has_consensus and self.is_up

    def begin_job(self, stalled_until_ns: int) -> None:
        self.is_disk_busy = True
        self.job_stalled_until_ns = stalled_until_ns

    def is_disk_stalled(self, now_ns: int) -> bool:
        return now_ns < max(self.disk_stalled_until_ns, self.job_stalled_until_ns)

    @property
    def raft(self) -> RaftCore:
        return self.core.raft

    @property
    def machine(self) -> Registers:
        return self._machine.registers

    @property
    def state_machine(self) -> WatchedMachine:
        return self._machine

    def begin(self) -> None:
        """A process, on what the store has opened."""
        self.life = self.host.life
        # Of the thread that writes the log.
        self.jobs: deque[log_jobs.DiskJob | log_jobs.FoundingJob] = deque()
        self.is_disk_busy = False
        self.transfers = {}
        self.disk_stalled_until_ns = self.job_stalled_until_ns = 0

    def boot(
        self,
        now: Now,
        settings: ServerSettings,
        took: Callable[[SimulatedServer, Batch], None],
        applied: Callable[[SimulatedServer, Entry], None],
    ) -> ConsensusPart:
        """Takes part in consensus from now on; `took` and `applied` look on."""
        self.has_consensus = True
        opened = self.store.opened
        self._machine = self._make_machine(partial(applied, self))
        if opened.log.snapshot is not None:
            ref, read = opened.log.snapshot, self._machine.read
            self._machine.restore(log_jobs.read_state(opened.log.snapshots, ref, read))
        identity = opened.log.identity
        raft = WatchedRaft(
            me=self.me,
            stamp=MessageStamp(identity.cluster, identity.epoch) if identity.cluster else STAMP,
            settings=settings.raft,
            restored=opened.restored,
            random=Random(self._random.getrandbits(64)),
            now=now,
        )
        raft.took = partial(took, self)
        newest = opened.log.snapshot
        self.core = ConsensusCore(raft, self._machine, settings, newest=newest, now=now)
        return ConsensusPart(self.core)

    def done(self, job: log_jobs.DiskJob | log_jobs.FoundingJob) -> ConsensusReport | FoundingReport:
        if isinstance(job, log_jobs.FoundingJob):
            return log_jobs.founding_done(job, self.store.log)
        return log_jobs.done(job, self.store.log, self._machine.read)

    def lose_power(self) -> None:
        """At any operation of the job that was going on, or after it."""
        if self.is_disk_busy:
            is_founding = isinstance(self.jobs[0], log_jobs.FoundingJob)
            operations = OPERATIONS_OF_A_FOUNDING_JOB if is_founding else OPERATIONS_OF_A_JOB
            self.store.disk.faults.crash_before = self._random.randrange(operations)
            with suppress(PowerLost):
                self.done(self.jobs[0])
        self.store.power_is_gone()


class BareServer:
    """Consensus with nothing else on its host: the verbs that the loop of the world uses."""

    def __init__(self, part: ConsensusPart) -> None:
        self.report = part.receive
        self.submit = part.command
        self.tick = part.tick
        self.deadline = part.deadline


class WatchedRaft(RaftCore):
    """As it ships; somebody sees its batches."""

    took: Callable[[Batch], None]

    def ready(self, *, with_commit_news: bool = True) -> Batch | None:
        batch = super().ready(with_commit_news=with_commit_news)
        if batch is not None:
            self.took(batch)
        return batch


class RegisterMachine:
    """The state machine's part towards the core; the registers are in `raft_machine`."""

    def __init__(self, applied: Callable[[Entry], None]) -> None:
        self.registers = Registers()
        self._applied = applied

    def apply(self, entry: Entry) -> bytes:
        answer = self.registers.apply(entry)
        self._applied(entry)
        return answer.encode()

    def snapshot(self) -> Iterator[bytes]:
        return iter([self.registers.dump()])

    def read(self, pieces: Iterator[bytes]) -> Registers:
        return Registers(b"".join(pieces))

    def restore(self, state: Registers) -> None:
        self.registers = state

    def hash(self) -> bytes:
        return b"digest %d" % self.registers.digest
