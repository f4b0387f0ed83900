"""A cluster of shipped cores in one process: simulated clocks, network and disks, all drawn from one seed.

Every server takes its batches, stores them one group at a time while the next gathers, sends what may leave
at once and later what waited for the disk, and applies what is committed after some delay: what the driver
does, at the pace of the lot. Each event ends with the invariants of what it touched.

What a pause or a crash interrupts belongs to a life that is over: events carry the life of their server,
and a new one never hears of them.
"""

from __future__ import annotations

import heapq
import zlib
from collections import Counter, deque
from collections.abc import Callable
from random import Random

from adsum.now import MILLISECOND, SECOND, Now
from adsum.raft.batch import Batch
from adsum.raft.changer import decode_configuration
from adsum.raft.messages import Message, MessageStamp, SnapshotOffer
from adsum.raft.reads import ConfirmedRead
from adsum.raft.settings import TICK_MS, RaftSettings
from adsum.raft.types import (
    Configuration,
    DedupKey,
    Entry,
    EntryKind,
    MemberId,
    Position,
    Restored,
    Role,
    Ticket,
    bootstrap,
)
from adsum.testing.checkers import Invariants
from adsum.testing.fault_atlas import FaultAtlas
from adsum.testing.raft_machine import Registers
from adsum.testing.raft_network import RaftNetwork
from adsum.testing.raft_server import SimulatedServer
from adsum.testing.raft_store import LogStore, MemoryStore
from adsum.testing.raft_told import told_message, told_store

STAMP = MessageStamp("simulated", 0)
TRACE_LINES_MAX = 400  # the last ones tell the story
COMMIT_NEWS_NS_MAX = 6 * MILLISECOND  # the driver waits some 3 ms for entries that could carry it
SNAPSHOT_NS_MIN, SNAPSHOT_NS_MAX = 5 * MILLISECOND, 400 * MILLISECOND  # to bring a file, or to give up

# Small enough that windows fill, slices end and caps bite within seconds.
SETTINGS = RaftSettings(
    append_bytes_max=600,
    inflight_messages_max=4,
    inflight_bytes_max=2_000,
    uncommitted_bytes_max=20_000,
    apply_bytes_max=1_000,
    applying_bytes_max=2_500,
)

MakeStore = Callable[[MemberId, Restored], LogStore]


def in_memory(_me: MemberId, restored: Restored) -> LogStore:
    return MemoryStore(restored)


class ServerHost:
    """A server's place in the world: its pace, its disk's queue, and how often it was started."""

    def __init__(self, server: SimulatedServer, random: Random) -> None:
        self.server = server
        self.life = 0
        self.tick_ns = int(TICK_MS * MILLISECOND * random.uniform(0.97, 1.03))  # clocks drift
        self.clock_ahead_ns = 0  # and agree on nothing after a restart
        self.paused_until_ns = 0
        self.disk_ns_max = 2 * MILLISECOND
        self.disk_stalled_until_ns = 0
        self.is_disk_busy = False
        self.is_applying = False
        self.owes_news = False
        self.tells_news = False
        self.on_applied: dict[int, Callable[[Entry, str], None]] = {}  # by index, for clients
        self.on_read: dict[int, Callable[[Registers], None]] = {}  # by context
        self.confirmed: list[ConfirmedRead] = []


class RaftCluster:
    def __init__(
        self,
        seed: int,
        *,
        voters: int = 3,
        strangers: int = 0,
        settings: RaftSettings = SETTINGS,
        make_store: MakeStore = in_memory,
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
        self._retired: dict[MemberId, None] = {}
        self._settings = settings
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        names = [MemberId(f"n{number}", "a") for number in range(voters + strangers)]
        first = bootstrap(Configuration(voters=tuple(names[:voters])))
        for position, me in enumerate(names):
            restored = Restored(snapshot=first) if position < voters else Restored()
            self.found(me, make_store(me, restored))

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
                self.act(host, action)

        if delay_ns:
            self.at(delay_ns, act)
        else:
            act()

    # What happens to servers.

    def found(self, me: MemberId, store: LogStore) -> None:
        server = SimulatedServer(
            me, STAMP, self._settings, store, Random(self.random.getrandbits(64)), Now(0, 0)
        )
        host = self.hosts[me] = ServerHost(server, self.random)
        self._begin(host)

    def crash(self, me: MemberId) -> None:
        host = self.hosts[me]
        if host.server.is_up:
            self.told("crash", me)
            host.server.crash()
            host.life += 1
            host.on_applied, host.on_read, host.confirmed = {}, {}, []

    def boot(self, me: MemberId) -> None:
        host = self.hosts[me]
        if not host.server.is_up and me not in self._retired:
            self.told("boot", me)
            host.clock_ahead_ns = self.random.randrange(10**12)
            host.server.boot(self._now(host))
            self._begin(host)

    def retire(self, me: MemberId) -> None:
        """It is never started again, whoever still means to."""
        self._retired[me] = None
        self.crash(me)

    def pause(self, me: MemberId, duration_ns: int) -> None:
        self.told("pause", me, duration_ns // MILLISECOND)
        self.hosts[me].paused_until_ns = self.now_ns + duration_ns

    def leaders(self) -> list[ServerHost]:
        """Who thinks so; of several, the latest elected first."""
        leading = [host for host in self.up() if host.server.core.replica.role is Role.LEADER]
        return sorted(leading, key=lambda host: -host.server.core.replica.term)

    def up(self) -> list[ServerHost]:
        return [host for host in self.hosts.values() if host.server.is_up]

    def in_force(self) -> list[Configuration]:
        """What servers go by, and what their logs say comes next."""
        return [each for host in self.hosts.values() for each in in_force(host)]

    def told(self, what: str, *facts: object) -> None:
        self.happened[what] += 1
        line = f"{self.now_ns} {what} {' '.join(map(str, facts))}"
        self.digest = zlib.crc32(line.encode(), self.digest)
        if self.is_traced:
            self.trace.append(line)

    # One host's course.

    def _begin(self, host: ServerHost) -> None:
        self.invariants.booted(host.server)
        host.is_disk_busy = host.is_applying = host.owes_news = host.tells_news = False
        host.paused_until_ns = host.disk_stalled_until_ns = 0
        self.later(host, self.random.randrange(host.tick_ns), lambda: self._tick(host))

    def _tick(self, host: ServerHost) -> None:
        host.server.core.tick(self._now(host))
        self.later(host, host.tick_ns, lambda: self._tick(host))

    def _now(self, host: ServerHost) -> Now:
        monotonic_ns = self.now_ns + host.clock_ahead_ns
        return Now(monotonic_ns, monotonic_ns // MILLISECOND)

    def act(self, host: ServerHost, action: Callable[[], object]) -> None:
        """Somebody asks something of a server, now."""
        action()
        self._pump(host)

    def propose(self, host: ServerHost, data: bytes, dedup: DedupKey | None = None) -> Position:
        """What the API of this server would do with a write; `Refused` otherwise."""
        return host.server.core.propose(data, dedup=dedup)

    def _pump(self, host: ServerHost) -> None:
        while (batch := host.server.take(with_commit_news=host.tells_news)) is not None:
            self._tell_batch(host, batch)
            self.invariants.took(host.server, batch)
            for message in batch.send_now:
                self._send(host, message)
            host.confirmed += batch.reads
        host.tells_news = False
        if host.server.core.owes_commit_news and not host.owes_news:
            host.owes_news = True
            self.later(host, self.random.randint(1, COMMIT_NEWS_NS_MAX), lambda: self._tell_news(host))
        self._answer_reads(host)
        self.invariants.looked_at(host.server)
        if host.server.unsynced and not host.is_disk_busy:
            self._begin_store(host)
        if host.server.unapplied and not host.is_applying:
            host.is_applying = True
            self.later(host, self.random.randrange(3 * MILLISECOND), lambda: self._apply(host))

    def _tell_news(self, host: ServerHost) -> None:
        host.owes_news, host.tells_news = False, True

    def _begin_store(self, host: ServerHost) -> None:
        """One group at a time: what comes meanwhile is the next group."""
        host.is_disk_busy = True
        last = host.server.unsynced[-1].ticket
        stall_ns = max(0, host.disk_stalled_until_ns - self.now_ns)
        delay_ns = stall_ns + self.random.randrange(MILLISECOND // 10, host.disk_ns_max)
        self.later(host, delay_ns, lambda: self._end_store(host, last))

    def _end_store(self, host: ServerHost, through: Ticket) -> None:
        host.is_disk_busy = False
        messages = host.server.sync(through)
        self.invariants.stored(host.server)
        for message in messages:
            self._send(host, message)
        self.invariants.rests(host.server)

    def _apply(self, host: ServerHost) -> None:
        host.is_applying = False
        for entry, answer in host.server.apply(self.random.randint(1, 20)):
            self.invariants.applied(host.server, entry)
            told = host.on_applied.pop(entry.index, None)
            if told is not None:
                told(entry, answer)
        self.told("applied", host.server.me, host.server.machine.index, host.server.machine.digest)
        self.invariants.rests(host.server)

    def _answer_reads(self, host: ServerHost) -> None:
        """A read that was confirmed still waits for the state machine."""
        ready = [read for read in host.confirmed if read.index <= host.server.machine.index]
        host.confirmed = [read for read in host.confirmed if read.index > host.server.machine.index]
        for read in ready:
            told = host.on_read.pop(read.context, None)
            if told is not None:
                told(host.server.machine)

    # Messages.

    def _send(self, host: ServerHost, message: Message) -> None:
        self.invariants.sent(message)
        self.told("send", type(message).__name__, message.source.node, message.target.node, message.term)
        if self.is_traced:
            self.trace.append(f"    {told_message(message)}")
        if isinstance(message, SnapshotOffer):
            self.bring_snapshot(host, message)
            return
        arrivals_ns = self.network.arrivals_ns(message.source, message.target)
        for delay_ns in arrivals_ns:
            self._deliver(message, delay_ns)
        if not arrivals_ns and self.random.random() < 0.3:  # a transport sometimes notices
            host.server.core.report_unreachable(message.target)

    def _deliver(self, message: Message, delay_ns: int) -> None:
        target = self.hosts.get(message.target)
        if target is not None:
            # A message is not of this life or that: it meets whoever is there.
            self.at(delay_ns, lambda: self.arrive(target, message))

    def arrive(self, target: ServerHost, message: Message) -> None:
        if target.server.is_up:
            self.later(target, 0, lambda: target.server.core.step(message))

    def bring_snapshot(self, host: ServerHost, offer: SnapshotOffer) -> None:
        """The driver's part: the file goes over the same links, takes its time, and may fail."""
        data = host.server.store.snapshot_data(offer.snapshot)
        delay_ns = self.random.randint(SNAPSHOT_NS_MIN, SNAPSHOT_NS_MAX)
        target = self.hosts.get(offer.target)

        def arrive() -> None:
            is_ok = target is not None and target.server.is_up
            is_ok = is_ok and bool(self.network.arrivals_ns(offer.source, offer.target))
            if is_ok and target is not None:
                target.server.store.save_snapshot(offer.snapshot, data)
                self.arrive(target, offer)
            if host.server.is_up:
                self.later(host, 0, lambda: host.server.core.report_snapshot(offer.target, is_ok=is_ok))

        self.at(delay_ns, arrive)

    def _tell_batch(self, host: ServerHost, batch: Batch) -> None:
        me = host.server.me.node
        if batch.soft is not None:
            self.told("role", me, batch.soft.role.value, batch.soft.term)
        if self.is_traced and batch.must_store:
            self.trace.append(f"    {me} stores {batch.ticket}: {told_store(batch)}")


def in_force(host: ServerHost) -> list[Configuration]:
    log = host.server.core.replica.log
    changes = [
        decode_configuration(entry.data)
        for entry in log.entries(log.first_index, log.last_index)
        if entry.kind is EntryKind.CONFIGURATION
    ]
    known = [host.server.core.replica.configuration, log.snapshot.configuration, *changes]
    return [configuration for configuration in known if configuration.voters]


def seconds(count: float) -> int:
    return int(count * SECOND)
