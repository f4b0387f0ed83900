"""A server of consensus as it ships, without its threads and sockets: the core around raft, on the log that
ships, on a disk that fails. It is told what comes in, and hands its effects to the cluster, which carries
them out at the pace of the lot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from random import Random

from adsum.consensus.core import ConsensusCore
from adsum.consensus.reports import ConsensusReport
from adsum.consensus.settings import ServerSettings
from adsum.now import Now
from adsum.raft.batch import Batch
from adsum.raft.core import RaftCore
from adsum.raft.messages import MessageStamp
from adsum.raft.types import Entry, MemberId
from adsum.storage import log_jobs
from adsum.testing.block_disk import PowerLost
from adsum.testing.raft_disk import ServerDisk
from adsum.testing.raft_machine import Registers

STAMP = MessageStamp("simulated", 0)
# Within which the power goes while a job is on its way: a group is one write and one sync.
OPERATIONS_OF_A_JOB = 3


@dataclass(frozen=True, slots=True)
class ServerWatch:
    """Who looks on."""

    took: Callable[[Batch], None]
    applied: Callable[[Entry], None]


class SimulatedServer:
    def __init__(self, me: MemberId, store: ServerDisk, settings: ServerSettings, random: Random) -> None:
        self.me = me
        self.store = store
        self.is_up = False
        self._settings = settings
        self._random = random

    @property
    def raft(self) -> RaftCore:
        return self.core.raft

    @property
    def machine(self) -> Registers:
        return self._machine.registers

    def boot(self, now: Now, watch: ServerWatch) -> None:
        """On what the store has opened."""
        opened = self.store.opened
        self._machine = RegisterMachine(watch.applied)
        if opened.log.snapshot is not None:
            ref, read = opened.log.snapshot, self._machine.read
            self._machine.restore(log_jobs.read_state(opened.log.snapshots, ref, read))
        raft = WatchedRaft(
            me=self.me,
            stamp=STAMP,
            settings=self._settings.raft,
            restored=opened.restored,
            random=Random(self._random.getrandbits(64)),
            now=now,
        )
        raft.took = watch.took
        self.core = ConsensusCore(raft, self._machine, self._settings, newest=opened.log.snapshot, now=now)
        self.is_up = True

    def done(self, job: log_jobs.DiskJob) -> ConsensusReport:
        return log_jobs.done(job, self.store.log, self._machine.read)

    def lose_power(self, under_way: log_jobs.DiskJob | None) -> None:
        """At any operation of the job that was going on, or after it."""
        self.is_up = False
        if under_way is not None:
            self.store.disk.faults.crash_before = self._random.randrange(OPERATIONS_OF_A_JOB)
            with suppress(PowerLost):
                self.done(under_way)
        self.store.power_is_gone()


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
        return b"%d" % self.registers.digest
