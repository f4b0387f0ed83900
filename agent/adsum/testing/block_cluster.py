"""A simulated cluster on the shipped log, and what happens to servers whose disks fail.

A failed sync ends the process; its machine goes on, so the next one reads whatever the page cache kept. A
server that finds its log corrupt comes back as another member: under its node's name, with a new log id,
in no membership until somebody takes it in. The old member never comes back, and what is sent to it meets
the new one. A full disk makes a server wait: nothing is acknowledged until there is room, the leader hands
over and refuses writes, and reads go on.

That a disk is called corrupt which nobody has harmed is a finding: power losses and failed syncs leave
nothing worse than a torn batch.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from random import Random

from adsum.now import MILLISECOND, SECOND
from adsum.raft.errors import RaftRefused
from adsum.raft.messages import Message, SnapshotOffer
from adsum.raft.settings import RaftSettings
from adsum.raft.types import Configuration, DedupKey, MemberId, Position, Restored, Role, Ticket
from adsum.storage.failures import StorageFailed
from adsum.storage.files import DiskFull
from adsum.testing.block_disk import DiskFaults, PowerLost
from adsum.testing.block_store import BlockStore
from adsum.testing.block_transfer import Transfer
from adsum.testing.checkers import demand
from adsum.testing.raft_cluster import SETTINGS, MakeStore, RaftCluster, ServerHost, in_force

RESTART_NS = SECOND  # after a failure, by whoever supervises the process
ROOM_NS = 100 * MILLISECOND  # between two looks at a full disk


class ServerDiskFull(RaftRefused):
    """The disk is full: free space; reads go on, and nothing has changed."""


def on_block_disks(seed: int) -> MakeStore:
    def make_store(me: MemberId, restored: Restored) -> BlockStore:
        return BlockStore(me, restored, Random(zlib.crc32(f"{seed} {me}".encode())))

    return make_store


class BlockCluster(RaftCluster):
    def __init__(
        self,
        seed: int,
        *,
        voters: int = 3,
        strangers: int = 0,
        settings: RaftSettings = SETTINGS,
        is_traced: bool = False,
    ) -> None:
        self.lost: dict[MemberId, MemberId] = {}  # members whose log was corrupt, and who came after them
        super().__init__(
            seed,
            voters=voters,
            strangers=strangers,
            settings=settings,
            make_store=on_block_disks(seed),
            is_traced=is_traced,
        )

    def store(self, me: MemberId) -> BlockStore:
        store = self.hosts[me].server.store
        assert isinstance(store, BlockStore)
        return store

    def in_force(self) -> list[Configuration]:
        """What a lost member went by went with it."""
        hosts = [host for me, host in self.hosts.items() if me not in self.lost]
        return [each for host in hosts for each in in_force(host)]

    def heal_disks(self) -> None:
        for me in self.hosts:
            self.store(me).disk.faults = DiskFaults()

    # How lives end and begin.

    def kill(self, me: MemberId) -> None:
        """The process only: nothing written is lost, and nothing unsynced became durable."""
        self.told("kill", me)
        self.store(me).kill()
        self._end_life(self.hosts[me])

    def _end_life(self, host: ServerHost) -> None:
        host.server.is_up = False
        host.life += 1
        host.on_applied, host.on_read, host.confirmed = {}, {}, []
        self.at(RESTART_NS, lambda: self.boot(host.server.me))

    def boot(self, me: MemberId) -> None:
        if me in self.lost or self.hosts[me].server.is_up or me in self._retired:
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
            else:
                self.atlas.healed(me)
                super().boot(me)

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

    # Failures on the way.

    def act(self, host: ServerHost, action: Callable[[], object]) -> None:
        try:
            super().act(host, action)
        except StorageFailed as failure:
            self.told("failed", host.server.me, failure)
            self.kill(host.server.me)
        except DiskFull as full:
            self.told("full", host.server.me, full)
        except PowerLost:
            self.told("power lost", host.server.me)
            self.store(host.server.me).power_is_gone()
            self._end_life(host)

    def propose(self, host: ServerHost, data: bytes, dedup: DedupKey | None = None) -> Position:
        if self.store(host.server.me).log.is_full:
            raise ServerDiskFull("the disk is full")
        return super().propose(host, data, dedup)

    def _end_store(self, host: ServerHost, through: Ticket) -> None:
        try:
            super()._end_store(host, through)
        except DiskFull:
            host.is_disk_busy = True  # with waiting
            self.later(host, ROOM_NS, lambda: self._end_store(host, through))

    def _tick(self, host: ServerHost) -> None:
        super()._tick(host)
        if self.store(host.server.me).log.is_full:
            self._make_room(host)

    def _make_room(self, host: ServerHost) -> None:
        """A snapshot makes room, if it finds some itself; and somebody else should lead meanwhile."""
        self.told("no room", host.server.me)
        log = self.store(host.server.me).log
        log.prepare_next()
        if log.is_full and host.server.core.snapshot_point() is not None and log.spend_ballast():
            host.server.compact(0)
            log.prepare_next()
        if log.is_full and host.server.core.replica.role is Role.LEADER:
            self._hand_over(host)

    def _hand_over(self, host: ServerHost) -> None:
        for member in host.server.core.status().members:
            other = self.hosts.get(member.member)
            if other is None or other is host or not member.is_active:
                continue
            if not self.store(member.member).log.is_full:  # it would say so in its answers
                try:
                    host.server.core.transfer(member.member)
                except RaftRefused as refused:
                    self.told("refused", refused)
                return

    # Messages.

    def bring_snapshot(self, host: ServerHost, offer: SnapshotOffer) -> None:
        Transfer(self, host, offer).begin()

    def _deliver(self, message: Message, delay_ns: int) -> None:
        """What is for a lost log arrives at its node, whose new one has nothing to do with it."""
        target = message.target
        while target in self.lost:
            target = self.lost[target]
        if target in self.hosts:
            host = self.hosts[target]
            self.at(delay_ns, lambda: self.arrive(host, message))
