"""What must hold of servers beside safety: they keep within their bounds, whoever is brought a snapshot
catches up, and a leader that stood still does not trust the time.

Of a leader's log in memory there is what its last snapshot left, and what grew since: up to the size at which
the next one is made, what may be uncommitted, and what comes in until that snapshot is in the log. Who reads
the state of a snapshot that was brought to it makes none meanwhile, so its log may grow until the first that
holds what came while it read.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from adsum.consensus.settings import ServerSettings
from adsum.raft.messages import SnapshotOffer
from adsum.raft.types import MemberId, Role
from adsum.testing.checkers import demand
from adsum.testing.hosts import SimulatedHost

if TYPE_CHECKING:
    from adsum.testing.raft_server import SimulatedServer

# By the clients of a swarm, in the second until it is looked at and while the snapshot is written.
GROWTH_BYTES = 150_000
# Each follows on the one before because what came behind that was gone when it arrived. One or two may be bad
# luck: who is silent for a while is waited for no longer.
OFFERS_IN_VAIN_MAX = 2
# More than clients write while a snapshot is on its way. Where less is kept for whom it is brought to, some
# are in vain.
AWAITED_BYTES = 200_000


class ServerLimits:
    def __init__(self, settings: ServerSettings) -> None:
        kept_bytes = max(settings.entries_kept_bytes, settings.entries_awaited_bytes)
        grown_bytes = settings.snapshot_log_bytes + settings.raft.uncommitted_bytes_max + GROWTH_BYTES
        self.log_bytes_max = kept_bytes + grown_bytes
        self._keeps_enough = settings.entries_awaited_bytes >= AWAITED_BYTES
        self.log_bytes_seen = 0
        # By leader, term and member: what has arrived since the last offer, and how often in vain.
        self._arrived: dict[tuple[MemberId, int, MemberId], int] = {}
        self._in_vain: Counter[tuple[MemberId, int, MemberId]] = Counter()

        self._woken: dict[int, None] = {}  # hosts that have done nothing since
        self._restored: dict[int, int] = {}  # by host, up to where its log had grown meanwhile

    def woken(self, host: SimulatedHost) -> None:
        """Its clock says that it stood still."""
        self._woken[host.index] = None

    def looked_at(self, server: SimulatedServer) -> None:
        if server.host.index in self._woken:
            del self._woken[server.host.index]
            replica = server.raft.replica
            if replica.role is Role.LEADER and len(replica.configuration.voters) > 1:
                is_trusted = server.core.pace.is_time_trusted
                demand(not is_trusted, f"{server.me} trusts the time after it stood still")
        log = server.raft.replica.log
        log_bytes = log.bytes_between(log.first_index - 1, log.last_index)
        if self._makes_no_snapshot(server):
            return
        if log_bytes > self.log_bytes_seen:
            self.log_bytes_seen = log_bytes
            demand(log_bytes <= self.log_bytes_max, f"{server.me} holds {log_bytes} bytes of log in memory")

    def _makes_no_snapshot(self, server: SimulatedServer) -> bool:
        host, log = server.host.index, server.raft.replica.log
        newest = server.core.storing.newest
        index = newest.index if newest is not None else 0
        if log.is_restoring:
            self._restored[host] = log.last_index
        elif index >= self._restored.get(host, log.last_index + 1):
            del self._restored[host]
        return host in self._restored

    def died(self, member: MemberId) -> None:
        """What had arrived and was not installed is gone."""
        self._arrived = {key: index for key, index in self._arrived.items() if key[2] != member}

    def offered(self, server: SimulatedServer, offer: SnapshotOffer) -> None:
        """In vain, if it is another than the last one that has arrived, and the member never got further. The
        same again costs nothing: its file is there, and its disk is slow to install it."""
        key = (offer.source, offer.term, offer.target)
        index = self._arrived.get(key, 0)
        if not index or offer.snapshot.index == index or not self._keeps_enough:
            return
        del self._arrived[key]
        matches = {each.member: each.match for each in server.raft.status().members}
        self._in_vain[key] = self._in_vain[key] + 1 if matches.get(offer.target, 0) <= index else 0
        is_enough = self._in_vain[key] <= OFFERS_IN_VAIN_MAX
        demand(is_enough, f"{offer.target} is brought one snapshot after the other, and never catches up")

    def arrived(self, offer: SnapshotOffer) -> None:
        self._arrived[offer.source, offer.term, offer.target] = offer.snapshot.index
