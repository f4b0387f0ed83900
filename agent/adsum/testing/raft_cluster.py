"""A cluster of servers as they ship, in one process: simulated clocks, network and disks, all drawn from one
seed.

What a server's core wants done takes a while: its disk does one job after the other, messages are lost and
come late, files travel in pieces, and the loop gets round to a tick a little after something came in. Each
event ends with the invariants of what it touched.

A failed sync ends the process; its machine goes on, so the next one reads whatever the page cache kept. A
server that finds its log corrupt comes back as another member: under its node's name, with a new log id, in
no membership until somebody takes it in. The old member never comes back, and what is sent to it meets the
new one. That a disk is called corrupt which nobody has harmed is a finding: power losses and failed syncs
leave nothing worse than a torn batch.

What a pause or a crash interrupts belongs to a life that is over: events carry the life of their server, and
a new one never hears of them.
"""

from __future__ import annotations

import heapq
import zlib
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from adsum.consensus import commands, effects, reports
from adsum.consensus.settings import ServerSettings
from adsum.effects import LogLine
from adsum.now import MILLISECOND, SECOND, Now
from adsum.raft.batch import Batch
from adsum.raft.changer import decode_configuration
from adsum.raft.messages import Message
from adsum.raft.settings import RaftSettings
from adsum.raft.types import Configuration, DedupKey, EntryKind, MemberId, Restored, Role, bootstrap
from adsum.storage.failures import StorageFailed
from adsum.storage.files import DiskFull
from adsum.storage.log_jobs import DiskJob
from adsum.testing.block_disk import DiskFaults, PowerLost
from adsum.testing.block_transfer import Transfer
from adsum.testing.checkers import Invariants, demand
from adsum.testing.fault_atlas import FaultAtlas
from adsum.testing.raft_calls import Forwarded
from adsum.testing.raft_disk import ServerDisk
from adsum.testing.raft_network import RaftNetwork
from adsum.testing.raft_server import ServerWatch, SimulatedServer
from adsum.testing.raft_told import told_message, told_store

TRACE_LINES_MAX = 400  # the last ones tell the story
RESTART_NS = SECOND  # after a failure, by whoever supervises the process
TURN_NS_MAX = MILLISECOND  # from when something came in until the loop gets round to the tick

# Small enough that windows fill, slices end, caps bite and snapshots are made within seconds.
SETTINGS = ServerSettings(
    raft=RaftSettings(
        append_bytes_max=600,
        inflight_messages_max=4,
        inflight_bytes_max=2_000,
        uncommitted_bytes_max=20_000,
        apply_bytes_max=1_000,
        applying_bytes_max=2_500,
    ),
    snapshot_entries=150,
    snapshot_interval_s=3.0,
    entries_kept=40,
)

Answered = Callable[[bytes | int | Exception], None]


def nobody(_outcome: bytes | int | Exception) -> None:
    """Waits for the answer."""


class ServerHost:
    """A server's place in the world: its clock, its disk's queue, and how often it was started."""

    def __init__(self, server: SimulatedServer, random: Random) -> None:
        self.server = server
        self.life = 0
        self.clock_rate = random.uniform(0.97, 1.03)  # clocks drift
        self.clock_ahead_ns = 0  # and agree on nothing after a restart
        self.paused_until_ns = 0
        self.disk_ns_max = 2 * MILLISECOND
        self.disk_stalled_until_ns = 0
        self.forget()

    def forget(self) -> None:
        """What a life had begun."""
        self.jobs: deque[DiskJob] = deque()  # of the thread that writes the log
        self.is_disk_busy = False
        self.turn_comes = False
        self.alarm_ns: int | None = None

    @property
    def job_under_way(self) -> DiskJob | None:
        return self.jobs[0] if self.is_disk_busy else None


class RaftCluster:
    def __init__(
        self,
        seed: int,
        *,
        voters: int = 3,
        strangers: int = 0,
        settings: ServerSettings = SETTINGS,
        is_traced: bool = False,
    ) -> None:
        self.random = Random(seed)
        self.now_ns = 0
        self.events = 0
        self.digest = 0  # of everything that happened
        self.trace: deque[str] = deque(maxlen=TRACE_LINES_MAX)
        self.happened: Counter[str] = Counter()
        self.is_traced = is_traced
        self.network = RaftNetwork(Random(self.random.getrandbits(64)))
        self.invariants = Invariants()
        self.atlas = FaultAtlas(self.in_force)
        self.hosts: dict[MemberId, ServerHost] = {}
        self.lost: dict[MemberId, MemberId] = {}  # members whose log was corrupt, and who came after them
        self._retired: dict[MemberId, None] = {}
        self._settings = settings
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        names = [MemberId(f"n{number}", "a") for number in range(voters + strangers)]
        first = bootstrap(Configuration(voters=tuple(names[:voters])))
        for position, me in enumerate(names):
            restored = Restored(snapshot=first) if position < voters else Restored()
            self.found(me, ServerDisk(me, restored, Random(zlib.crc32(f"{seed} {me}".encode()))))

    # Time.

    def at(self, delay_ns: int, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._queue, (self.now_ns + delay_ns, self._sequence, action))

    def run_for(self, duration_ns: int) -> None:
        end_ns = self.now_ns + duration_ns
        while self._queue and self._queue[0][0] <= end_ns:
            self._step()
        self.now_ns = end_ns

    def run_until(self, is_so: Callable[[], bool], *, within_ns: int) -> bool:
        end_ns = self.now_ns + within_ns
        while not is_so():
            if not self._queue or self._queue[0][0] > end_ns:
                return False
            self._step()
        return True

    def _step(self) -> None:
        self.now_ns, _sequence, action = heapq.heappop(self._queue)
        self.events += 1
        action()

    def later(self, host: ServerHost, delay_ns: int, action: Callable[[], object]) -> None:
        """In this life of the host, and not while it is paused."""
        life = host.life

        def act() -> None:
            if host.life != life or not host.server.is_up:
                return
            if host.paused_until_ns > self.now_ns:
                self.at(host.paused_until_ns - self.now_ns, act)
            else:
                self._guarded(host, action)

        if delay_ns:
            self.at(delay_ns, act)
        else:
            act()

    # How lives begin and end.

    def found(self, me: MemberId, store: ServerDisk) -> None:
        server = SimulatedServer(me, store, self._settings, Random(self.random.getrandbits(64)))
        self.hosts[me] = ServerHost(server, self.random)
        self._begin(self.hosts[me])

    def crash(self, me: MemberId) -> None:
        """The power goes: what was on its way to the disk may have come there, in part."""
        host = self.hosts[me]
        if host.server.is_up:
            self.told("crash", me)
            host.server.lose_power(host.job_under_way)
            host.life += 1

    def kill(self, me: MemberId) -> None:
        """The process only: nothing written is lost, and nothing unsynced became durable."""
        self.told("kill", me)
        self.store(me).kill()
        self._end_life(self.hosts[me])

    def retire(self, me: MemberId) -> None:
        """It is never started again, whoever still means to."""
        self._retired[me] = None
        self.crash(me)

    def boot(self, me: MemberId) -> None:
        host = self.hosts[me]
        if me in self.lost or host.server.is_up or me in self._retired:
            return
        store = self.store(me)
        try:
            store.load()
        except (StorageFailed, DiskFull) as failure:
            self._try_again_later(me, failure)
        except PowerLost as loss:
            self.told("power lost at start", me)
            store.disk.lose_power()
            self._try_again_later(me, loss)
        else:
            store.disk.faults.crash_before = None
            if store.log.identity.log != me.log:
                self._lose(me)
                return
            self.atlas.healed(me)
            self.told("boot", me)
            host.clock_ahead_ns = self.random.randrange(10**12)
            self._begin(host)

    def pause(self, me: MemberId, duration_ns: int) -> None:
        self.told("pause", me, duration_ns // MILLISECOND)
        self.hosts[me].paused_until_ns = self.now_ns + duration_ns

    def heal_disks(self) -> None:
        for me in self.hosts:
            self.store(me).disk.faults = DiskFaults()

    def _begin(self, host: ServerHost) -> None:
        host.forget()
        host.paused_until_ns = host.disk_stalled_until_ns = 0
        server = host.server
        server.boot(
            self.now_of(host),
            ServerWatch(
                took=lambda batch: self._see_batch(server, batch),
                applied=lambda entry: self.invariants.applied(server, entry),
            ),
        )
        self.invariants.booted(server)
        self._expect_turn(host)

    def _end_life(self, host: ServerHost) -> None:
        host.server.is_up = False
        host.life += 1
        self.at(RESTART_NS, lambda: self.boot(host.server.me))

    def _try_again_later(self, me: MemberId, reason: BaseException) -> None:
        self.told("no start", me, type(reason).__name__)
        self.store(me).kill()
        self.at(RESTART_NS, lambda: self.boot(me))

    def _lose(self, me: MemberId) -> None:
        store = self.store(me)
        stranger = self.lost[me] = MemberId(me.node, store.log.identity.log)
        self.told("corrupt", me, "comes back as", stranger)
        demand(me in self.atlas.harmed, f"nobody harmed {me}, and its log says: {store.opened.doubt}")
        self.found(stranger, store)

    # Who is there.

    def store(self, me: MemberId) -> ServerDisk:
        return self.hosts[me].server.store

    def leaders(self) -> list[ServerHost]:
        """Who thinks so; of several, the latest elected first."""
        leading = [host for host in self.up() if host.server.raft.replica.role is Role.LEADER]
        return sorted(leading, key=lambda host: -host.server.raft.replica.term)

    def up(self) -> list[ServerHost]:
        return [host for host in self.hosts.values() if host.server.is_up]

    def in_force(self) -> list[Configuration]:
        """What servers go by, and what their logs say comes next. What a lost member went by went with it."""
        hosts = [host for me, host in self.hosts.items() if me not in self.lost]
        return [each for host in hosts for each in in_force(host)]

    def told(self, what: str, *facts: object) -> None:
        self.happened[what] += 1
        line = f"{self.now_ns} {what} {' '.join(map(str, facts))}"
        self.digest = zlib.crc32(line.encode(), self.digest)
        if self.is_traced:
            self.trace.append(line)

    # What somebody asks of a server.

    def propose(
        self, host: ServerHost, data: bytes, dedup: DedupKey | None = None, *, answered: Answered = nobody
    ) -> None:
        """What the API of this server would do with a write; raises what it refuses."""
        self.command(host, commands.Propose(data, answered, dedup))

    def command(self, host: ServerHost, request: commands.ConsensusCommand) -> None:
        self._carry_out(host, host.server.core.command(self.now_of(host), request))

    def report(self, host: ServerHost, report: reports.ConsensusReport) -> None:
        self._carry_out(host, host.server.core.report(self.now_of(host), report))
        if type(report) is reports.GroupStored:
            self.invariants.stored(host.server)
        self.invariants.looked_at(host.server)

    def compact(self, host: ServerHost, keep: int) -> None:
        """A snapshot out of turn, with so many entries kept behind it."""
        core = host.server.core
        core.settings = replace(core.settings, entries_kept=keep)
        core.compaction.make()
        self._turn_soon(host)

    def act(self, host: ServerHost, action: Callable[[], object]) -> None:
        """Also what goes past the core's verbs, and straight to raft. The loop gets round to it at once."""
        self._guarded(host, action)
        if host.server.is_up and host.paused_until_ns <= self.now_ns:
            self._guarded(host, lambda: self._turn(host))

    # One host's course.

    def now_of(self, host: ServerHost) -> Now:
        monotonic_ns = int(self.now_ns * host.clock_rate) + host.clock_ahead_ns
        return Now(monotonic_ns, monotonic_ns // MILLISECOND)

    def _guarded(self, host: ServerHost, action: Callable[[], object]) -> None:
        """Something happens to a server, and may end it."""
        try:
            action()
        except StorageFailed as failure:
            self.report(host, reports.StoringFailed(str(failure)))
        except PowerLost:
            self.told("power lost", host.server.me)
            host.server.store.power_is_gone()
            self._end_life(host)
        if host.server.is_up:
            self._expect_turn(host)

    def _expect_turn(self, host: ServerHost) -> None:
        """A tick when the core wants one; a little later, for nobody is always in time."""
        due_ns = host.server.core.deadline()
        if due_ns is None:
            return
        delay_ns = int((due_ns - self.now_of(host).monotonic_ns) / host.clock_rate) + 1
        if delay_ns <= 1:
            self._turn_soon(host)
        elif host.alarm_ns is None or self.now_ns + delay_ns < host.alarm_ns:
            host.alarm_ns = self.now_ns + delay_ns
            self.later(host, delay_ns, lambda: self._ring(host))

    def _turn_soon(self, host: ServerHost) -> None:
        if host.server.is_up and not host.turn_comes:
            host.turn_comes = True
            self.later(host, 1 + self.random.randrange(TURN_NS_MAX), lambda: self._turn(host))

    def _ring(self, host: ServerHost) -> None:
        """What is due is seen to by whoever acts on the host."""
        if host.alarm_ns is not None and host.alarm_ns <= self.now_ns:
            host.alarm_ns = None

    def _turn(self, host: ServerHost) -> None:
        host.turn_comes = False
        self._carry_out(host, host.server.core.tick(self.now_of(host)))
        self.invariants.looked_at(host.server)

    def _carry_out(self, host: ServerHost, wanted: Sequence[effects.ConsensusEffect]) -> None:
        for effect in wanted:
            match effect:
                case effects.SendMessage(message):
                    self._send(host, message)
                case effects.AnswerRequests(answers):
                    for answered, outcome in answers:
                        answered(outcome)
                case effects.StoreGroup() | effects.RecordSnapshot():
                    host.jobs.append(effect)
                    self._begin_job(host)
                case effects.WriteSnapshot() | effects.PrepareSegment() | effects.SpendBallast():
                    self._begin_beside_the_log(host, effect)
                case effects.AskLeader():
                    Forwarded(self, host, effect).send()
                case effects.BringSnapshot(offer, ref):
                    self.told("bring", ref.index, offer.target.node)
                    Transfer(self, host, offer, ref).begin()
                case effects.AppliedTo():
                    machine = host.server.machine
                    self.told("applied", host.server.me, machine.index, machine.digest)
                    self.invariants.rests(host.server)
                case effects.Turned(role, _leader, term):
                    self.told("role", host.server.me.node, role.value, term)
                case LogLine(_severity, sentence):
                    self.told("log", host.server.me, sentence)
                case effects.ServerBroken(sentence):
                    self.told("failed", host.server.me, sentence)
                    self.kill(host.server.me)

    # Its disk.

    def _begin_job(self, host: ServerHost) -> None:
        """What changes the log, one after the other."""
        if host.jobs and not host.is_disk_busy:
            host.is_disk_busy = True
            stall_ns = max(0, host.disk_stalled_until_ns - self.now_ns)
            self.later(host, stall_ns + self._disk_ns(host), lambda: self._end_job(host))

    def _end_job(self, host: ServerHost) -> None:
        report = host.server.done(host.jobs[0])
        host.jobs.popleft()
        host.is_disk_busy = False
        self._come_back(host, report)
        self._begin_job(host)

    def _begin_beside_the_log(self, host: ServerHost, job: DiskJob) -> None:
        self.later(host, self._disk_ns(host), lambda: self._come_back(host, host.server.done(job)))

    def _come_back(self, host: ServerHost, report: reports.ConsensusReport) -> None:
        match report:
            case reports.GroupFoundNoRoom() | reports.SegmentPrepared(is_full=True):
                self.told("no room", host.server.me)
        self.report(host, report)

    def _disk_ns(self, host: ServerHost) -> int:
        return self.random.randrange(MILLISECOND // 10, host.disk_ns_max)

    # Messages.

    def _send(self, host: ServerHost, message: Message) -> None:
        self.invariants.sent(message)
        self.told("send", type(message).__name__, message.source.node, message.target.node, message.term)
        if self.is_traced:
            self.trace.append(f"    {told_message(message)}")
        arrivals_ns = self.network.arrivals_ns(message.source, message.target)
        for delay_ns in arrivals_ns:
            self._deliver(message, delay_ns)
        if not arrivals_ns and self.random.random() < 0.3:  # a transport sometimes notices
            report = reports.NodeUnreachable(message.target.node)
            self.later(host, 1, lambda: self.report(host, report))

    def _deliver(self, message: Message, delay_ns: int) -> None:
        """A message is not of this life or that: it meets whoever is there. What is for a lost log arrives at
        its node, whose new one has nothing to do with it."""
        target = message.target
        while target in self.lost:
            target = self.lost[target]
        if target in self.hosts:
            host = self.hosts[target]
            self.at(delay_ns, lambda: self.arrive(host, message))

    def host_of(self, node: str) -> ServerHost:
        """Whoever is there by that name."""
        return [host for me, host in self.hosts.items() if me.node == node][-1]

    def arrive(self, target: ServerHost, message: Message) -> None:
        if target.server.is_up:
            core = target.server.core
            self.later(target, 0, lambda: self._carry_out(target, core.receive(self.now_of(target), message)))

    def _see_batch(self, server: SimulatedServer, batch: Batch) -> None:
        self.invariants.took(server, batch)
        if self.is_traced and batch.must_store:
            self.trace.append(f"    {server.me.node} stores {batch.ticket}: {told_store(batch)}")


def in_force(host: ServerHost) -> list[Configuration]:
    log = host.server.raft.replica.log
    changes = [
        decode_configuration(entry.data)
        for entry in log.entries(log.first_index, log.last_index)
        if entry.kind is EntryKind.CONFIGURATION
    ]
    known = [host.server.raft.replica.configuration, log.snapshot.configuration, *changes]
    return [configuration for configuration in known if configuration.voters]


def seconds(count: float) -> int:
    return int(count * SECOND)
