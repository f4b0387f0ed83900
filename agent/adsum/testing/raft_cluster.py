"""The servers of consensus in a simulated world, as they ship: what their cores want is carried out on the
world's clock and network and on the disks of its hosts.

Beside consensus there may be a whole agent on each host (`testing.cluster`), or nothing (`raft_cluster`); and
a server may be of no cluster yet (`founding_world`): then it is up, and takes no part.
What a core wants done takes a while: a disk does one job after the other, messages are lost and come late,
files travel in pieces, and the loop gets round to a tick a little after something came in. Each event ends
with the invariants of what it touched.

A failed sync ends the process; its machine goes on, so the next one reads whatever the page cache kept. A
server that finds its log corrupt comes back as another member: under its node's name, with a new log id, in
no membership until somebody takes it in. The old member never comes back, and what is sent to it meets the
new one. That a disk is called corrupt which nobody has harmed is a finding: power losses and failed syncs
leave nothing worse than a torn batch.
"""

from __future__ import annotations

import errno
import os
import zlib
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, cast

from adsum.agent.server_agent import AnswerServer, ConsensusMessage, ConsensusPart, LeaderAsked, ServerEffect
from adsum.consensus import effects, reports
from adsum.consensus.settings import ServerSettings
from adsum.dedup import DedupKey
from adsum.effects import AnyCommand, LogLine, Reply
from adsum.gossip.settings import MemberIdentity
from adsum.now import MILLISECOND, SECOND
from adsum.raft.batch import Batch
from adsum.raft.changer import decode_configuration
from adsum.raft.messages import Message
from adsum.raft.settings import RaftSettings
from adsum.raft.types import Configuration, EntryKind, MemberId, Restored, Role, bootstrap
from adsum.storage.failures import StorageFailed
from adsum.storage.files import DiskFull
from adsum.storage.log_jobs import DiskJob
from adsum.storage.opening import DOUBT
from adsum.testing.block_disk import PowerLost
from adsum.testing.block_transfer import Transfer
from adsum.testing.checkers import Invariants, demand
from adsum.testing.fault_atlas import FaultAtlas
from adsum.testing.fault_table import FaultTable
from adsum.testing.hosts import Plays, SimulatedHost, State
from adsum.testing.network import Conditions
from adsum.testing.raft_calls import Forwarded
from adsum.testing.raft_disk import ServerDisk
from adsum.testing.raft_server import BareServer, MakeMachine, RegisterMachine, SimulatedServer
from adsum.testing.raft_told import told_message, told_store
from adsum.testing.server_gossip import ServerGossip
from adsum.testing.server_limits import ServerLimits
from adsum.testing.world import World

TRACE_LINES_MAX = 400  # the last ones tell the story
RESTART_NS = SECOND  # after a failure, by whoever supervises the process
TURN_NS_MAX = MILLISECOND  # from when something came in until the loop gets round to the tick
DRIFT_PPM_MAX = 30_000
READING_NS_MAX = (2 * MILLISECOND, 200 * MILLISECOND, 4 * SECOND)  # to read a state out of a snapshot
CONDITIONS = Conditions(latency_ns=200_000, jitter_ns=1_800_000)

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
    hash_entries=32,
    snapshot_entries=150,
    snapshot_interval_s=3.0,
    entries_kept=40,
)
DESCRIPTOR_NS_MAX = SECOND  # until a client closes one
OUT_OF_FILES = os.strerror(errno.EMFILE)

Answered = Callable[[bytes | int | Exception], None]


class RaftCluster:
    def __init__(
        self,
        world: World,
        *,
        settings: ServerSettings = SETTINGS,
        is_traced: bool = False,
        make_machine: MakeMachine = RegisterMachine,
    ) -> None:
        self.world = world
        self.random, self.network = world.random, world.network
        self.told_digest = 0  # of all that was told
        self.trace: deque[str] = deque(maxlen=TRACE_LINES_MAX)
        self.happened: Counter[str] = Counter()
        self.is_traced = is_traced
        self.invariants = Invariants()
        self.atlas = FaultAtlas(self.in_force)
        self.servers: dict[MemberId, SimulatedServer] = {}
        self.lost: dict[MemberId, MemberId] = {}  # members whose log was corrupt, and who came after them
        self.on_host: dict[int, SimulatedServer] = {}
        self._of_node: dict[str, SimulatedServer] = {}
        self._retired: dict[MemberId, None] = {}
        self.settings = settings
        self.gossip = ServerGossip(has_keys=world.seed % 2 == 0)
        self.limits = ServerLimits(settings)
        self.table = FaultTable(lambda: world.now_ns)
        self.may_differ = False  # for whoever breaks a state on purpose
        self.value_bytes_max = 0  # of what clients write beside their values
        self.piece_ns_max = 0  # how long the piece of a snapshot takes beside what any message does
        self._make_machine = make_machine
        self._questions = 0
        self._asked: dict[int, Answered] = {}  # at a leader

    # Time.

    @property
    def now_ns(self) -> int:
        return self.world.now_ns

    def at(self, delay_ns: int, action: Callable[[], None]) -> None:
        self.world.call(self.world.now_ns + delay_ns, action)

    def run_for(self, duration_ns: int) -> None:
        self.world.run_for(duration_ns)

    def run_until(self, is_so: Callable[[], bool], *, within_ns: int) -> bool:
        return self.world.run_until_so(is_so, within_ns=within_ns)

    def later(self, server: SimulatedServer, delay_ns: int, action: Callable[[], object]) -> None:
        """In this life of the server, and not while it is paused."""
        host, guarded = server.host, partial(self._guarded, server, action)
        if server.is_up and delay_ns:
            self.world.later(host, delay_ns, guarded)
        elif server.is_up:
            self.world.act(host, host.life, guarded)

    # How lives begin and end.

    def found(self, members: Sequence[MemberId], hosts: Sequence[SimulatedHost], *, voters: int) -> None:
        """The first of them vote, the others belong to nothing yet."""
        first = Restored(snapshot=bootstrap(Configuration(voters=tuple(sorted(members[:voters])))))
        for position, (me, host) in enumerate(zip(members, hosts, strict=True)):
            restored = first if position < voters else Restored()
            self._settle(me, host, ServerDisk(me, restored, host.disk))
            host.turn_ns_max = TURN_NS_MAX
            host.clock_drift_ppm = self.random.randint(-DRIFT_PPM_MAX, DRIFT_PPM_MAX)

    def begin(self, host: SimulatedHost) -> ConsensusPart:
        """The process of this host begins, and takes part in consensus."""
        self.on_host[host.index].begin()
        return self.take_part(host)

    def take_part(self, host: SimulatedHost) -> ConsensusPart:
        """From now on: the process was of no cluster before."""
        server = self.on_host[host.index]
        part = server.boot(self.world.now_at(host), self.settings, self._see_batch, self.invariants.applied)
        self.invariants.booted(server)
        return part

    def crash(self, me: MemberId) -> None:
        """The power goes: what was on its way to the disk may have come there, in part."""
        server = self.servers[me]
        if server.is_up:
            self.told("crash", me)
            self._died(me)
            self.world.lose(server.host.index)
            server.lose_power()

    def kill(self, me: MemberId) -> None:
        """The process only: nothing written is lost, and nothing unsynced became durable."""
        self.told("kill", me)
        self._died(me)
        self.store(me).kill()
        self.world.kill(self.servers[me].host.index)
        self.at(RESTART_NS, lambda: self.boot(me))

    def _died(self, me: MemberId) -> None:
        self.table.died(me)
        self.limits.died(me)

    def retire(self, me: MemberId) -> None:
        """It is never started again, whoever still means to."""
        self._retired[me] = None
        self.crash(me)

    def boot(self, me: MemberId) -> None:
        server, store = self.servers[me], self.store(me)
        if me in self.lost or server.host.is_up or me in self._retired:
            return
        try:
            store.load()
        except (StorageFailed, DiskFull) as failure:
            self._try_again_later(me, failure)
        except PowerLost as loss:
            if DOUBT in store.disk.names():
                self.told("repair interrupted", me)
                self.table.happened("repair")
            if not store.disk.faults.spares_power:
                self.told("power lost at start", me)
                store.power_is_gone()
            self._try_again_later(me, loss)
        else:
            store.disk.faults.crash_before, store.disk.faults.later_crashes = None, []
            self.table.happened("start")
            if store.log.identity.log != me.log:
                me = self._lose(server)
            self.atlas.healed(me)
            self.told("boot", me)
            server.host.clock_ahead_ns = self.random.randrange(10**12)  # clocks agree on nothing after that
            self.world.start(server.host.index)

    def lose_disk(self, host: SimulatedHost, stranger: MemberId) -> None:
        """The next process finds an empty one: it is another server, and belongs to nothing."""
        me = self.on_host[host.index].me
        demand(self.atlas.may_harm(me), f"without the disk of {me} the others may have lost something")
        self.lost[me] = stranger
        self._settle(stranger, host, ServerDisk(stranger, Restored(), host.disk))

    def suspend(self, me: MemberId, duration_ns: int, *, is_noticed: bool) -> None:
        """The whole host; its tasks wake in any order. If not noticed, its clock stood still as well."""
        host = self.servers[me].host
        if host.state is not State.RUNNING:
            return
        self.told("suspend", me, duration_ns // MILLISECOND, is_noticed)
        self.world.pause(host.index)
        life, waiting = host.life, host.waiting

        def wake() -> None:
            if host.life != life or host.state is not State.PAUSED or host.waiting is not waiting:
                return  # somebody else woke it
            host.random.shuffle(waiting)
            if not is_noticed:
                host.clock_ahead_ns -= duration_ns
            elif isinstance(host.core, BareServer):  # beside others consensus may not be the first to hear
                self.limits.woken(host)
            self.world.resume(host.index)

        self.at(duration_ns, wake)

    def pause(self, me: MemberId, duration_ns: int) -> None:
        host = self.servers[me].host
        if host.is_up:
            self.told("pause", me, duration_ns // MILLISECOND)
            self.world.pause(host.index)
            self.at(duration_ns, lambda: self.world.resume(host.index))

    def _settle(self, me: MemberId, host: SimulatedHost, store: ServerDisk) -> None:
        server = SimulatedServer(me, host, store, Random(self.random.getrandbits(64)), self._make_machine)
        self.servers[me] = self._of_node[me.node] = self.on_host[host.index] = server

    def _try_again_later(self, me: MemberId, reason: BaseException) -> None:
        self.told("no start", me, type(reason).__name__)
        self.store(me).kill()
        self.at(RESTART_NS, lambda: self.boot(me))

    def _lose(self, server: SimulatedServer) -> MemberId:
        me, store = server.me, server.store
        stranger = self.lost[me] = MemberId(me.node, store.log.identity.log)
        self.table.happened("repair")
        self.told("corrupt", me, "comes back as", stranger)
        demand(bool(store.opened.doubt), f"{me} does not know any more that its log was damaged")
        demand(me in self.atlas.harmed, f"nobody harmed {me}, and its log says: {store.opened.doubt}")
        self._settle(stranger, server.host, store)
        return stranger

    # Who is there.

    def store(self, me: MemberId) -> ServerDisk:
        return self.servers[me].store

    def leaders(self) -> list[SimulatedServer]:
        """Who thinks so; of several, the latest elected first."""
        leading = [server for server in self.up() if server.raft.replica.role is Role.LEADER]
        return sorted(leading, key=lambda server: -server.raft.replica.term)

    def up(self) -> list[SimulatedServer]:
        return [server for server in self.on_host.values() if server.takes_part]

    def of_node(self, node: str) -> SimulatedServer:
        """Whoever is there by that name."""
        return self._of_node[node]

    def in_force(self) -> list[Configuration]:
        """What servers go by, and what their logs say comes next. What a lost member went by went with it."""
        known: list[Configuration] = []
        members = [server for server in self.servers.values() if server.has_consensus]
        for replica in (server.raft.replica for server in members if server.me not in self.lost):
            log = replica.log
            known += [replica.configuration, log.snapshot.configuration]
            known += [
                decode_configuration(entry.data)
                for entry in log.entries(log.first_index, log.last_index)
                if entry.kind is EntryKind.CONFIGURATION
            ]
        return [configuration for configuration in known if configuration.voters]

    # Links.

    def cut(self, source: MemberId, target: MemberId) -> None:
        """In this direction only."""
        self.network.cut(self._place(source), self._place(target))

    def split(self, *sides: Sequence[MemberId]) -> None:
        self.network.partition(*(list(map(self._place, side)) for side in sides))

    def _place(self, me: MemberId) -> int:
        return self.servers[me].host.index

    # What is recorded of it.

    def told(self, what: str, *facts: object) -> None:
        self.happened[what] += 1
        line = f"{self.now_ns} {what} {' '.join(map(str, facts))}"
        self.told_digest = zlib.crc32(line.encode(), self.told_digest)
        if self.is_traced:
            self.trace.append(line)

    # What somebody asks of a server.

    def submit(self, server: SimulatedServer, command: AnyCommand, answered: Callable[[Reply], None]) -> None:
        """As a client of its API."""
        self.world.submit(server.host, command, answered)

    def ask(
        self, server: SimulatedServer, data: bytes | None, answered: Answered, dedup: DedupKey | None = None
    ) -> None:
        """As another server does that takes this one for the leader; without data, to confirm a read."""
        self._questions += 1
        self._asked[self._questions] = answered
        self.tell(server, LeaderAsked(self._questions, data, dedup))

    def tell(self, server: SimulatedServer, message: ConsensusMessage | reports.FoundingReport) -> None:
        self.world.tell(server.host, message)
        if type(message) is reports.GroupStored:
            self.invariants.stored(server)

    def compact(self, server: SimulatedServer, keep: int) -> None:
        """A snapshot out of turn, with so many entries kept behind it."""
        core = server.core
        core.settings = replace(core.settings, entries_kept=keep)
        self.act(server, core.compaction.make)

    def act(self, server: SimulatedServer, action: Callable[[], object]) -> None:
        """Also what goes past the core's verbs, and straight to raft. The loop gets round to it at once."""
        self._guarded(server, action)
        if server.host.state is State.RUNNING:
            self.world.tick(server.host)

    # One server's course.

    def _guarded(self, server: SimulatedServer, action: Callable[[], object]) -> None:
        """Something happens to a server, and may end it."""
        try:
            action()
        except StorageFailed as failure:
            self.tell(server, reports.StoringFailed(str(failure)))
        except PowerLost:
            self.told("power lost", server.me)
            self._died(server.me)
            self.world.lose(server.host.index)
            server.store.power_is_gone()
            self.at(RESTART_NS, lambda: self.boot(server.me))

    def carry_out(self, host: SimulatedHost, effect: ServerEffect | effects.FoundingEffect) -> None:
        server = self.on_host[host.index]
        if type(effect) is effects.WriteSnapshot:
            self.table.began("compaction", server.me)
        match effect:
            case effects.SendMessage(message):
                self._send(server, message)
            case AnswerServer(ticket, outcome):
                self._asked.pop(ticket)(outcome)
            case (
                effects.StoreGroup()
                | effects.RecordSnapshot()
                | effects.StoreFirstSnapshot()
                | effects.WriteClusterId()
                | effects.WriteConsent()
            ):
                server.jobs.append(effect)
                self._begin_job(server)
            case effects.WriteSnapshot() | effects.PrepareSegment() | effects.SpendBallast():
                self._begin_beside_the_log(server, effect, self._disk_ns(server))
            case effects.ReadSnapshot():
                reading_ns_max = self.random.choice(READING_NS_MAX)
                self._begin_beside_the_log(server, effect, self.random.randrange(reading_ns_max))
            case effects.AskLeader():
                Forwarded(self, server, effect).send()
            case effects.BringSnapshot(offer, ref):
                self.told("bring", ref.index, offer.target.node)
                self.table.began("snapshot sent", server.me)
                self.limits.offered(server, offer)
                Transfer(self, server, offer, ref).begin()
            case effects.AppliedTo():
                self.told("applied", server.me, server.machine.index, server.machine.digest)
                self.table.ended("snapshot installed", server.me)
                self.table.ended("change", server.me)
                self.invariants.rests(server)
            case effects.StateDoubted(reason):
                demand(self.may_differ, f"{server.me} is told that its state differs: {reason}")
            case effects.Turned(role, _leader, term, _turn):
                self.told("role", server.me.node, role.value, term)
                self.table.ended("transfer", server.me)
                if role is Role.CANDIDATE:
                    self.table.began("election", server.me)
                else:
                    self.table.ended("election", server.me)
            case LogLine(_severity, sentence):
                self.told("log", server.me, sentence)
            case effects.ServerBroken(sentence):
                self.told("failed", server.me, sentence)
                demand(OUT_OF_FILES not in sentence, f"{server.me} ended for want of a descriptor")
                self.kill(server.me)

    def looked_at(self, host: SimulatedHost) -> None:
        """After whatever it did."""
        if host.is_up:
            server = self.on_host[host.index]
            self.invariants.looked_at(server)
            self.limits.looked_at(server)

    # Its disk.

    def _begin_job(self, server: SimulatedServer) -> None:
        """What changes the log, one after the other."""
        if server.jobs and not server.is_disk_busy:
            stall_ns = max(0, server.disk_stalled_until_ns - self.now_ns) + self._waited_ns(server)
            server.begin_job(self.now_ns + stall_ns)
            self.later(server, stall_ns + self._disk_ns(server), lambda: self._end_job(server))

    def _end_job(self, server: SimulatedServer) -> None:
        report = server.done(server.jobs[0])
        server.jobs.popleft()
        server.is_disk_busy = False
        self._come_back(server, report)
        self._begin_job(server)

    def _begin_beside_the_log(self, server: SimulatedServer, job: DiskJob, duration_ns: int) -> None:
        self.later(server, duration_ns, lambda: self._come_back(server, server.done(job)))

    def _come_back(
        self, server: SimulatedServer, report: reports.ConsensusReport | reports.FoundingReport
    ) -> None:
        match report:
            case reports.GroupFoundNoRoom() | reports.SegmentPrepared(is_full=True):
                self.told("no room", server.me)
            case reports.SnapshotRecorded():
                self.table.ended("compaction", server.me)
        self.tell(server, report)

    def _waited_ns(self, server: SimulatedServer) -> int:
        """Of its last job, for a descriptor."""
        if not server.store.disk.has_waited:
            return 0
        server.store.disk.has_waited = False
        self.told("no descriptor", server.me)
        return self.random.randrange(DESCRIPTOR_NS_MAX)

    def _disk_ns(self, server: SimulatedServer) -> int:
        return self.random.randrange(MILLISECOND // 10, server.disk_ns_max)

    # Messages.

    def _send(self, server: SimulatedServer, message: Message) -> None:
        self.invariants.sent(message)
        self.told("send", type(message).__name__, message.source.node, message.target.node, message.term)
        if self.is_traced:
            self.trace.append(f"    {told_message(message)}")
        if message.target.node not in self._of_node:
            return
        delays_ns = self.delays_ns(message.source, message.target)
        for delay_ns in delays_ns:
            self.at(delay_ns, partial(self.arrive, message))
        if not delays_ns and self.random.random() < 0.3:  # a transport sometimes notices
            report = reports.NodeUnreachable(message.target.node)
            self.later(server, 1, lambda: self.tell(server, report))

    def delays_ns(self, source: MemberId, target: MemberId) -> tuple[int, ...]:
        """On the way between their hosts."""
        sender, receiver = self._of_node[source.node], self._of_node[target.node]
        if not self.gossip.has_line(sender, receiver):
            return ()
        return self.network.delays_ns(sender.host.index, receiver.host.index)

    def arrive(self, message: Message) -> None:
        """A message is not of this life or that: it meets whoever is there. What is for a lost log arrives at
        its node, whose new one has nothing to do with it."""
        server = self.of_node(message.target.node)
        self.later(server, 0, lambda: self.tell(server, message))

    def _see_batch(self, server: SimulatedServer, batch: Batch) -> None:
        self.invariants.took(server, batch)
        if self.is_traced and batch.must_store:
            self.trace.append(f"    {server.me.node} stores {batch.ticket}: {told_store(batch)}")


class BareServers(World):
    """Hosts with nothing on them but consensus, by the thousand seeds."""

    def __init__(
        self,
        hosts: int,
        *,
        seed: int,
        settings: ServerSettings,
        is_traced: bool,
        make_machine: MakeMachine = RegisterMachine,
    ) -> None:
        super().__init__(hosts, seed=seed, conditions=CONDITIONS)
        self.raft = RaftCluster(self, settings=settings, is_traced=is_traced, make_machine=make_machine)

    def _boot(self, host: SimulatedHost, _identity: MemberIdentity, _random: Random) -> Plays:
        return cast("Plays", BareServer(self.raft.begin(host)))

    def _do(self, host: SimulatedHost, effects: Sequence[Any]) -> None:
        for effect in effects:
            if type(effect) is Reply:
                self._replied(effect)
            else:
                self.raft.carry_out(host, effect)
        self.raft.looked_at(host)
        self._schedule(host)


def raft_cluster(
    seed: int,
    *,
    voters: int = 3,
    strangers: int = 0,
    settings: ServerSettings = SETTINGS,
    is_traced: bool = False,
) -> RaftCluster:
    """Servers and nothing else, which run."""
    world = BareServers(voters + strangers, seed=seed, settings=settings, is_traced=is_traced)
    members = [MemberId(f"n{number}", "a") for number in range(voters + strangers)]
    world.raft.found(members, world.hosts, voters=voters)
    for host in world.hosts:
        world.start(host.index)
    return world.raft


def seconds(count: float) -> int:
    return int(count * SECOND)
