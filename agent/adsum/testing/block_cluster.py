"""A simulated cluster on the shipped log, and what happens to servers whose disks fail.

A failed sync ends the process; its machine goes on, so the next one reads whatever the page cache kept. A
server that finds its log corrupt comes back as another member: under its node's name, with a new log id,
in no membership until somebody takes it in. The old member never comes back.
"""

from __future__ import annotations

import zlib
from random import Random

from adsum.raft.settings import Settings
from adsum.raft.types import MemberId, Restored, Ticket
from adsum.storage.files import StorageFailed
from adsum.testing.block_store import BlockStore
from adsum.testing.raft_cluster import SETTINGS, Cluster, Host, MakeStore


def on_block_disks(seed: int) -> MakeStore:
    def make_store(me: MemberId, restored: Restored) -> BlockStore:
        return BlockStore(me, restored, Random(zlib.crc32(f"{seed} {me}".encode())))

    return make_store


class BlockCluster(Cluster):
    def __init__(self, seed: int, *, voters: int = 3, settings: Settings = SETTINGS) -> None:
        self.lost: set[MemberId] = set()  # members whose log was corrupt
        super().__init__(seed, voters=voters, settings=settings, make_store=on_block_disks(seed))

    def store(self, me: MemberId) -> BlockStore:
        store = self.hosts[me].server.store
        assert isinstance(store, BlockStore)
        return store

    def kill(self, me: MemberId) -> None:
        """The process only: nothing written is lost, and nothing unsynced became durable."""
        host = self.hosts[me]
        self.told("kill", me)
        self.store(me).kill()
        host.server.is_up = False
        host.life += 1
        host.on_applied, host.on_read, host.confirmed = {}, {}, []

    def boot(self, me: MemberId) -> None:
        if me in self.lost or self.hosts[me].server.is_up:
            return
        store = self.store(me)
        store.load()
        if store.is_corrupt:
            self.lost.add(me)
            stranger = MemberId(me.node, store.log.identity.log)
            self.told("corrupt", me, "comes back as", stranger)
            self._found(stranger, store)
        else:
            super().boot(me)

    def _end_store(self, host: Host, through: Ticket) -> None:
        try:
            super()._end_store(host, through)
        except StorageFailed:
            self.kill(host.server.me)
