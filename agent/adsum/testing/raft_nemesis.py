"""What goes wrong in a simulated cluster. One seed mixes a few kinds, each at its own pace; then all of it
ends.

Whatever harms acknowledged data asks the cluster's fault atlas first. An operator who knows his trade is
part of it: a member that came back as a stranger is taken out, and the stranger in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from adsum.now import MILLISECOND, SECOND
from adsum.raft.changer import ChangeVerb, ConfigurationChange, Step, Transition, changed
from adsum.raft.errors import RaftRefused
from adsum.raft.types import Configuration, MemberId
from adsum.storage.files import SECTOR_BYTES
from adsum.storage.segment_files import SPARE, segment_name, segment_sequences
from adsum.storage.snapshots import snapshot_name
from adsum.testing.block_disk import BlockDisk, DiskFaults
from adsum.testing.raft_cluster import CONDITIONS, RESTART_NS, RaftCluster
from adsum.testing.raft_server import SimulatedServer

MEND_NS = 300 * MILLISECOND
BRIEF_NS = 100 * MILLISECOND  # of what is over at once, but for what comes of it
FOR_GOOD_NS = 1 << 60  # until it is changed or healed
SUSPENDED_NS_MIN = 400 * MILLISECOND  # long enough to be noticed
HARM_NS = SECOND  # what was harmed is met at the next start, soon
VALUE_BYTES = (600, 1_500, 3_000)
REPAIR_OPERATIONS = 60  # of a start that finds damage

Fault = Callable[[], int | None]


class Nemesis:
    """Each method named like a fault makes it happen once, and says how long it holds; None: it did not
    happen."""

    def __init__(self, cluster: RaftCluster, random: Random) -> None:
        self.kinds: list[str] = []
        self._cluster = cluster
        self._random = random
        self._has_ended = False

    def begin(self, kinds: list[str]) -> None:
        self.kinds = kinds
        for kind in kinds:
            pace_ns = int(self._random.uniform(0.15, 2.0) * SECOND)
            self._repeat(getattr(self, kind), pace_ns)
        self._repeat(self._mend, MEND_NS)

    def _repeat(self, fault: Fault, pace_ns: int) -> None:
        def act() -> None:
            if not self._has_ended:
                self._happen(fault)
                self._repeat(fault, pace_ns)

        self._cluster.at(self._random.randrange(2 * pace_ns), act)

    def _happen(self, fault: Fault) -> None:
        table = self._cluster.table
        operations = table.under_way()
        duration_ns = fault()
        if duration_ns is not None:
            table.holds(fault.__name__, duration_ns, operations)

    def end(self) -> None:
        """Everything heals; whoever is down comes back."""
        self._has_ended = True
        cluster = self._cluster
        cluster.network.heal()
        cluster.network.conditions = CONDITIONS
        cluster.gossip.tell_the_truth()
        cluster.value_bytes_max = cluster.piece_ns_max = 0
        cluster.table.heal()
        for me, server in list(cluster.servers.items()):
            server.store.disk.faults = DiskFaults()
            server.store.disk.release_descriptors()
            cluster.world.resume(server.host.index)
            server.disk_stalled_until_ns = 0
            server.disk_ns_max = 2 * MILLISECOND
            cluster.boot(me)

    def spare(self) -> None:
        """Somebody stays down for good, as long as no quorum that may be in force misses him."""
        servers = self._living()
        self._random.shuffle(servers)
        down: list[MemberId] = []
        for server in servers:
            if self._cluster.atlas.may_miss([*down, server.me]):
                down.append(server.me)
        for me in down:
            self._cluster.retire(me)

    # Conditions.

    def loss(self) -> int | None:
        return self._become("loss", loss=self._random.choice((0.0, 0.02, 0.1, 0.3)))

    def repeat(self) -> int | None:
        return self._become("repeat", duplicated=self._random.choice((0.0, 0.1, 0.5)))

    def delay(self) -> int | None:
        return self._become("delay", held_back=self._random.choice((0.0, 0.02, 0.1)))

    def slow_network(self) -> int | None:
        return self._become("slow_network", jitter_ns=self._random.choice((2, 20, 100)) * MILLISECOND)

    def _become(self, kind: str, **changed: Any) -> int | None:
        network = self._cluster.network
        network.conditions = replace(network.conditions, **changed)
        if any(changed.values()):
            return FOR_GOOD_NS
        self._cluster.table.lifted(kind)
        return None

    # Links.

    def split(self) -> int | None:
        servers = list(self._cluster.servers)
        self._random.shuffle(servers)
        count = self._random.randrange(1, len(servers))
        self._cluster.told("split", *(me.node for me in servers[:count]))
        self._cluster.network.heal()
        self._cluster.split(servers[:count], servers[count:])
        return self._for_a_while(self._cluster.network.heal)

    def split_leader(self) -> int | None:
        for server in self._cluster.leaders()[:1]:
            rest = [me for me in self._cluster.servers if me != server.me]
            companions = self._random.sample(rest, min(len(rest), self._random.randrange(2)))
            self._cluster.told("split leader", server.me.node)
            self._cluster.split([server.me, *companions], [me for me in rest if me not in companions])
            return self._for_a_while(self._cluster.network.heal)
        return None

    def one_way(self) -> int | None:
        source, target = self._random.sample(list(self._cluster.servers), 2)
        self._cluster.told("one way", source.node, target.node)
        self._cluster.cut(source, target)
        return self._for_a_while(self._cluster.network.heal)

    # Gossip and clients.

    def rumours(self) -> int | None:
        """Gossip is wrong about the others, here or everywhere, while the network is as it is."""
        servers = self._living()
        observers = servers if self._random.random() < 0.5 else [self._any()]
        way = self._cluster.gossip.mislead(observers, servers, self._random)
        self._cluster.told("rumours", way, *(server.me.node for server in observers))
        return self._for_a_while(self._cluster.gossip.tell_the_truth)

    def slow_snapshots(self) -> int | None:
        """As if they were large: they are on their way for longer than it takes to make the next."""
        self._cluster.piece_ns_max = self._random.choice((200, 500, 1_000)) * MILLISECOND
        return FOR_GOOD_NS

    def large_values(self) -> int | None:
        self._cluster.value_bytes_max = self._random.choice(VALUE_BYTES)
        return FOR_GOOD_NS

    # Servers.

    def crash(self) -> int | None:
        return self._crash(self._any())

    def crash_leader(self) -> int | None:
        for server in self._cluster.leaders()[:1]:
            return self._crash(server)
        return None

    def power_loss(self) -> int | None:
        """All at once, in the middle of whatever they write."""
        return max([self._crash(server) for server in list(self._cluster.servers.values())])

    def pause(self) -> int | None:
        server, duration_ns = self._leader_mostly(), self._while()
        self._cluster.pause(server.me, duration_ns)
        return duration_ns

    def suspend(self) -> int | None:
        server, duration_ns = self._leader_mostly(), SUSPENDED_NS_MIN + self._while()
        is_noticed = self._random.random() < 0.7
        self._cluster.suspend(server.me, duration_ns, is_noticed=is_noticed)
        return duration_ns

    def _leader_mostly(self) -> SimulatedServer:
        leaders = self._cluster.leaders()
        return leaders[0] if leaders and self._random.random() < 0.6 else self._any()

    def stall_disk(self) -> int | None:
        server, duration_ns = self._any(), self._while()
        server.disk_stalled_until_ns = self._cluster.now_ns + duration_ns
        return duration_ns

    def slow_disk(self) -> int | None:
        self._any().disk_ns_max = self._random.choice((2, 20, 200)) * MILLISECOND
        return FOR_GOOD_NS

    def descriptors(self) -> int | None:
        """Clients hold all of them."""
        disk = self._disk(self._any())
        disk.hold_descriptors()
        return self._for_a_while(disk.release_descriptors)

    def _crash(self, server: SimulatedServer) -> int:
        me, duration_ns = server.me, self._while()
        self._cluster.crash(me)
        self._cluster.at(duration_ns, lambda: self._cluster.boot(me))
        return duration_ns

    # What operators do.

    def compact(self) -> int | None:
        server = self._any()
        keep = self._random.choice((0, 0, 3, 20))
        self._cluster.later(server, 0, partial(self._cluster.compact, server, keep))
        return BRIEF_NS

    def leave_behind(self) -> int | None:
        """Somebody is away while the others drop what he would need: only a snapshot can bring him back."""
        duration_ns = self._crash(self._any())
        self._cluster.at(300 * MILLISECOND, self._compact_all)
        return duration_ns

    def _compact_all(self) -> None:
        for server in self._cluster.up():
            self._cluster.later(server, 0, partial(self._cluster.compact, server, 0))

    def transfer(self) -> int | None:
        target = self._any().me
        for server in self._cluster.leaders()[:1]:
            self._ask(server, partial(server.raft.transfer, target), "transfer")
            return BRIEF_NS
        return None

    def campaign(self) -> int | None:
        server = self._any()
        if server.is_up:
            self._ask(server, server.raft.campaign)
            return BRIEF_NS
        return None

    def change(self) -> int | None:
        """Anything at all, sometimes twice at once, sometimes just as the network breaks. Most of it is
        refused, and that is fine.
        """
        leaders = self._cluster.leaders()
        if not leaders:
            return None
        server = self._random.choice(leaders)
        for _ in range(self._random.choice((1, 1, 3))):
            self._propose("change", server, self._a_change(server.raft.replica.configuration))
        if len(self._cluster.servers) > 1 and self._random.random() < 0.3:
            self._cluster.at(self._random.randrange(15 * MILLISECOND), partial(self._happen, self.split))
        return BRIEF_NS

    def move_votes(self) -> int | None:
        """Most voters become learners, or all learners voters, and the network breaks in the middle of it:
        one half of a joint membership must never be enough.
        """
        for server in self._cluster.leaders()[:1]:
            self._propose("move", server, self._a_move(server))
            breaks = partial(self._happen, self.split_leader)
            self._cluster.at(self._random.randrange(15 * MILLISECOND), breaks)
            return BRIEF_NS
        return None

    def _a_move(self, server: SimulatedServer) -> ConfigurationChange:
        configuration = server.raft.replica.configuration
        if configuration.is_joint:
            return ConfigurationChange()
        if configuration.learners:
            steps = [Step(ChangeVerb.VOTE, learner) for learner in configuration.learners]
        else:
            others = [voter for voter in configuration.voters if voter != server.me]
            count = min(len(others), len(configuration.voters) // 2 + 1)
            steps = [Step(ChangeVerb.LEARN, voter) for voter in self._random.sample(others, count)]
        return ConfigurationChange(
            tuple(steps), self._random.choice((Transition.JOINT, Transition.JOINT_EXPLICIT))
        )

    def _propose(self, what: str, server: SimulatedServer, change: ConfigurationChange) -> None:
        if self._is_sane(server, change):
            self._cluster.told(what, *(f"{step.verb.value} {step.member.node}" for step in change.steps))
            self._ask(server, partial(server.raft.propose_conf, change), "change")

    def _is_sane(self, server: SimulatedServer, change: ConfigurationChange) -> bool:
        """No operator hands the votes to disks that are known, or about to be known, to be broken."""
        try:
            after = changed(server.raft.replica.configuration, change)
        except RaftRefused:
            return True  # the server will say so
        return self._cluster.atlas.allows(after)

    def _a_change(self, configuration: Configuration) -> ConfigurationChange:
        if configuration.is_joint and not configuration.auto_leave:
            return ConfigurationChange()
        count = self._random.choice((1, 1, 2, 4))
        steps = tuple(self._a_step(configuration) for _ in range(count))
        return ConfigurationChange(steps, self._random.choice(list(Transition)))

    def _a_step(self, configuration: Configuration) -> Step:
        member = self._any().me
        if member not in configuration.members():
            return Step(ChangeVerb.LEARN, member)
        if configuration.is_learner(member):
            return Step(self._random.choice((ChangeVerb.VOTE, ChangeVerb.VOTE, ChangeVerb.LEAVE)), member)
        return Step(self._random.choice((ChangeVerb.LEARN, ChangeVerb.LEAVE)), member)

    # Disks: what is harmed stays harmed.

    def rot(self) -> int | None:
        for server, disk, name in self._harmed():
            self._rot(server, disk, name)
            return HARM_NS
        return None

    def bad_sector(self) -> int | None:
        for server, disk, name in self._harmed():
            sector = self._sector(disk, name)
            disk.make_unreadable(name, sector)
            self._cluster.told("bad sector", server.me, name, sector)
            return HARM_NS
        return None

    def broken_repair(self) -> int | None:
        """A disk rots while its host is down. The start that repairs the log ends before any of its
        operations, by a kill or without power, and so may the next ones.
        """
        server = self._any()
        if not self._may_harm(server.me):
            return None
        duration_ns, disk = self._crash(server), self._disk(server)
        names = self._read_to_the_end(server)
        if names:
            self._rot(server, disk, self._random.choice(names))
        starts = self._random.choice((1, 2, 2, 3))
        first, *later = [self._random.randrange(REPAIR_OPERATIONS) for _ in range(starts)]
        disk.faults.crash_before, disk.faults.later_crashes = first, later
        disk.faults.spares_power = self._random.random() < 0.5
        return duration_ns + starts * RESTART_NS

    def _rot(self, server: SimulatedServer, disk: BlockDisk, name: str) -> None:
        bits = list(disk.used_bits(name)) or [0]
        for bit in self._random.sample(bits, min(len(bits), self._random.randint(1, 8))):
            disk.rot(name, bit)
        self._cluster.told("rot", server.me, name)

    def misdirect(self) -> int | None:
        """The next write goes elsewhere. But zeros are never what ends the segment in use: what they take
        away was never written, for all that a log can know."""
        for server, disk, name in self._harmed():
            if server.is_up:
                disk.faults.misdirected_to = (name, self._sector(disk, name) * SECTOR_BYTES)
                in_use = segment_name(segment_sequences(disk)[-1])
                disk.faults.spares_zeros = name == in_use
                self._cluster.told("misdirect", server.me, name)
                return HARM_NS
        return None

    # Disks: what passes.

    def failing_sync(self) -> int | None:
        self._disk(self._any()).faults.failing_syncs = True
        return HARM_NS

    def full_disk(self) -> int | None:
        """Almost, or quite: now and then on all of them at once."""
        servers = self._living() if self._random.random() < 0.2 else [self._any()]
        for server in servers:
            disk = self._disk(server)
            disk.faults.capacity_bytes = disk.used_bytes + self._random.choice((0, 200, 20_000))
            self._cluster.told("fills", server.me)
        return self._for_a_while(lambda: self._make_room(servers))

    def flicker(self) -> int | None:
        """The power goes, and again while what the first time left is being read and repaired."""
        server = self._any()
        self._cluster.crash(server.me)
        self._disk(server).faults.crash_before = self._random.randrange(30)
        return self._for_a_while(lambda: self._cluster.boot(server.me))

    def cut_power(self) -> int | None:
        """Before any of the next operations on its disk, whatever they are for."""
        self._disk(self._any()).faults.crash_before = self._random.randrange(80)
        return HARM_NS

    def _make_room(self, servers: list[SimulatedServer]) -> None:
        for server in servers:
            self._disk(server).faults.capacity_bytes = None

    # What the operator does about it.

    def _mend(self) -> None:
        for server in self._cluster.leaders()[:1]:
            configuration = server.raft.replica.configuration
            for old, new in self._cluster.lost.items():
                change = replacement(configuration, old, new)
                if change.steps and self._is_sane(server, change):
                    self._cluster.told("replace", old, new)
                    self._ask(server, partial(server.raft.propose_conf, change), "change")
                    return

    # Where.

    def _disk(self, server: SimulatedServer) -> BlockDisk:
        return self._cluster.store(server.me).disk

    def _harmed(self) -> Iterator[tuple[SimulatedServer, BlockDisk, str]]:
        """One file that a start reads to the end, of one server, if that does not ask the impossible."""
        server = self._any()
        disk = self._disk(server)
        names = self._read_to_the_end(server)
        if names and self._may_harm(server.me):
            yield server, disk, self._random.choice(names)

    def _read_to_the_end(self, server: SimulatedServer) -> list[str]:
        """The files that a start reads so. An earlier snapshot, kept for who is being brought it, is none: a
        write that went there instead of to the end of the log leaves no trace."""
        snapshot = self._cluster.store(server.me).log.snapshot
        newest = snapshot_name(snapshot) if snapshot is not None else ""
        names = self._disk(server).names()
        return [name for name in names if name.endswith(".segment") or name in (SPARE, newest)]

    def _may_harm(self, member: MemberId) -> bool:
        return self._cluster.atlas.may_harm(member)

    def _sector(self, disk: BlockDisk, name: str) -> int:
        used = list(disk.used_bits(name)) or [0]
        return self._random.choice(used) // 8 // SECTOR_BYTES

    def _ask(self, server: SimulatedServer, action: Callable[[], object], operation: str = "") -> None:
        def ask() -> None:
            try:
                action()
            except RaftRefused as refused:
                self._cluster.told("refused", refused)
            else:
                if operation:
                    self._cluster.table.began(operation, server.me)

        self._cluster.act(server, ask)

    def _any(self) -> SimulatedServer:
        return self._random.choice(self._living())

    def _living(self) -> list[SimulatedServer]:
        """Up, or down for a while."""
        return [server for me, server in self._cluster.servers.items() if me not in self._cluster.lost]

    def _for_a_while(self, end: Callable[[], None]) -> int:
        duration_ns = self._while()
        self._cluster.at(duration_ns, end)
        return duration_ns

    def _while(self) -> int:
        return int(self._random.expovariate(1.2) * SECOND) + 20 * MILLISECOND


KINDS = [
    *("loss", "repeat", "delay", "slow_network", "split", "split_leader", "one_way"),
    *("crash", "crash_leader", "power_loss", "pause", "suspend", "stall_disk", "slow_disk"),
    *("rumours", "large_values", "slow_snapshots", "descriptors"),
    *("compact", "leave_behind", "transfer", "campaign", "change", "move_votes"),
]
DISK_KINDS = [
    *("rot", "bad_sector", "misdirect", "broken_repair"),
    *("failing_sync", "full_disk", "flicker", "cut_power"),
]
OPERATIONS = [
    *("propose", "read", "snapshot sent", "snapshot installed", "compaction", "start", "repair"),
    *("election", "transfer", "change"),
]


def replacement(configuration: Configuration, old: MemberId, new: MemberId) -> ConfigurationChange:
    """The next step on the way to have the new one in place of the old; none if that is done."""
    steps = []
    if old in configuration.members():
        steps.append(Step(ChangeVerb.LEAVE, old))
    if new not in configuration.members() and steps:
        steps.append(Step(ChangeVerb.LEARN, new))
    if configuration.is_learner(new):
        steps.append(Step(ChangeVerb.VOTE, new))
    return ConfigurationChange(tuple(steps))
