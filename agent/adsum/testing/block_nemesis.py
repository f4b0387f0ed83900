"""What goes wrong with the disks of a simulated cluster, beside forgetting what was not synced.

Whatever harms acknowledged data asks the cluster's fault atlas first. An operator who knows his trade is
part of it: a member that came back as a stranger is taken out, and the stranger in.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from adsum.now import MILLISECOND
from adsum.raft.changer import ChangeVerb, ConfigurationChange, Step
from adsum.raft.types import Configuration, MemberId
from adsum.storage.files import SECTOR_BYTES
from adsum.storage.segment_files import SPARE
from adsum.testing.block_disk import BlockDisk
from adsum.testing.raft_nemesis import Nemesis
from adsum.testing.raft_server import SimulatedServer

MEND_NS = 300 * MILLISECOND


class BlockNemesis(Nemesis):
    def begin(self, kinds: list[str]) -> None:
        super().begin(kinds)
        self._repeat(self._mend, MEND_NS)

    def end(self) -> None:
        self._cluster.heal_disks()
        super().end()

    # What is harmed stays harmed.

    def rot(self) -> None:
        for host, disk, name in self._harmed():
            bits = list(disk.used_bits(name)) or [0]
            for bit in self._random.sample(bits, min(len(bits), self._random.randint(1, 8))):
                disk.rot(name, bit)
            self._cluster.told("rot", host.me, name)

    def bad_sector(self) -> None:
        for host, disk, name in self._harmed():
            sector = self._sector(disk, name)
            disk.make_unreadable(name, sector)
            self._cluster.told("bad sector", host.me, name, sector)

    def misdirect(self) -> None:
        """The next write goes elsewhere."""
        for host, disk, name in self._harmed():
            if host.is_up:
                disk.faults.misdirected_to = (name, self._sector(disk, name) * SECTOR_BYTES)
                self._cluster.told("misdirect", host.me, name)

    # What passes.

    def failing_sync(self) -> None:
        self._disk(self._any()).faults.failing_syncs = True

    def full_disk(self) -> None:
        """Almost, or quite: now and then on all of them at once."""
        hosts = self._living() if self._random.random() < 0.2 else [self._any()]
        for host in hosts:
            disk = self._disk(host)
            disk.faults.capacity_bytes = disk.used_bytes + self._random.choice((0, 200, 20_000))
            self._cluster.told("fills", host.me)
        self._cluster.at(self._while(), lambda: self._make_room(hosts))

    def flicker(self) -> None:
        """The power goes, and again while what the first time left is being read and repaired."""
        host = self._any()
        self._cluster.crash(host.me)
        self._disk(host).faults.crash_before = self._random.randrange(30)
        self._cluster.at(self._while(), lambda: self._cluster.boot(host.me))

    def cut_power(self) -> None:
        """Before any of the next operations on its disk, whatever they are for."""
        self._disk(self._any()).faults.crash_before = self._random.randrange(80)

    def _make_room(self, hosts: list[SimulatedServer]) -> None:
        for host in hosts:
            self._disk(host).faults.capacity_bytes = None

    # What the operator does about it.

    def _mend(self) -> None:
        for host in self._cluster.leaders()[:1]:
            configuration = host.raft.replica.configuration
            for old, new in self._cluster.lost.items():
                change = replacement(configuration, old, new)
                if change.steps and self._is_sane(host, change):
                    self._cluster.told("replace", old, new)
                    self._ask(host, partial(host.raft.propose_conf, change))
                    return

    # Where.

    def _disk(self, host: SimulatedServer) -> BlockDisk:
        return self._cluster.store(host.me).disk

    def _harmed(self) -> Iterator[tuple[SimulatedServer, BlockDisk, str]]:
        """One file that a start reads to the end, of one server, if that does not ask the impossible."""
        host = self._any()
        disk = self._disk(host)
        names = [name for name in disk.names() if name.endswith((".segment", ".snapshot")) or name == SPARE]
        if names and self._cluster.atlas.may_harm(host.me):
            yield host, disk, self._random.choice(names)

    def _sector(self, disk: BlockDisk, name: str) -> int:
        used = list(disk.used_bits(name)) or [0]
        return self._random.choice(used) // 8 // SECTOR_BYTES


DISK_KINDS = ["rot", "bad_sector", "misdirect", "failing_sync", "full_disk", "flicker", "cut_power"]


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
