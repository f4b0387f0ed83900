"""Sessions and locks in the simulated world of keys: each server has the keeper of sessions as it ships, next
to the store and the questions of agents.

What servers see of the nodes that sessions belong to is for whoever runs the world to say: a node is there
until it is called failed, which each server hears at a time of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

from adsum.consensus.effects import Turned
from adsum.consensus.errors import NoLeader, Unavailable
from adsum.gossip.settings import MemberIdentity
from adsum.kv import KeyCause, KeyRefusal
from adsum.now import SECOND
from adsum.servers.renewals import AllRenewed
from adsum.sessions.sees import CheckSeen, HostVerdict
from adsum.sessions.settings import KeeperSettings
from adsum.store_requests import RenewAnswered
from adsum.testing.hosts import Plays, SimulatedHost
from adsum.testing.key_world import RESULTS_BYTES_MAX, SERVERS, KeyWorld
from adsum.testing.lock_requests import LockRequest
from adsum.testing.session_world import LAGS_NS, KeepingServer, NodeStanding, SightOfNodes

KEEPING = KeeperSettings(node_grace_ns=2 * SECOND, long_ttl_ms=5_000)  # sessions live for seconds here
PRESENT = NodeStanding(HostVerdict.PRESENT, 1, 1, CheckSeen.FINE)


class LeadersRenewals:
    """It `RenewsSessions`: a leader renews, and whoever does not lead says who does."""

    def __init__(self, keeping: KeepingServer) -> None:
        self._keeping = keeping

    def renew(self, _session_id: str, answered: RenewAnswered) -> object:
        answered(KeyRefusal(KeyCause.NO_LEADER, "servers have no clients of their own here"))
        return None

    def renew_all(self, ids: Sequence[str], answered: AllRenewed) -> object:
        core = self._keeping.core
        if core is None or core.leader is None:
            answered(NoLeader("no leader is known here"))
        elif core.leader != self._keeping.server.me:
            answered(Unavailable("this server does not lead"))
        else:
            self._keeping.keeping.renew(ids, answered)
        return None

    def give_up(self, asked: object) -> None:
        """It is answered all the same, and nobody listens."""


class LockWorld(KeyWorld):
    def __init__(
        self,
        *,
        seed: int,
        results_bytes_max: int = RESULTS_BYTES_MAX,
        hold_ns: int | None = None,
        is_traced: bool = False,
    ) -> None:
        """As a world of keys."""
        self.requests: list[LockRequest] = []
        self.failures: list[tuple[bytes, int]] = []  # of nodes, and when they truly were over
        self.keepers: dict[int, KeepingServer] = {}  # by host
        self.sights = [SightOfNodes(partial(self._decides_alone, index)) for index in range(SERVERS)]
        super().__init__(seed=seed, results_bytes_max=results_bytes_max, hold_ns=hold_ns, is_traced=is_traced)
        for agent in self.agents:
            for sight in self.sights:
                sight.heard[agent.node_id] = PRESENT

    def _boot(self, host: SimulatedHost, identity: MemberIdentity, random: Random) -> Plays:
        plays = super()._boot(host, identity, random)
        if host.index < SERVERS:
            keeper = KeepingServer(self, self.raft.on_host[host.index], self.sights, KEEPING)
            self.keepers[host.index] = keeper
            self.key_servers[host.index].keys.renewals = LeadersRenewals(keeper)
        return plays

    def _do(self, host: SimulatedHost, effects: Sequence[Any]) -> None:
        super()._do(host, effects)
        if host.index >= SERVERS:
            return
        keeping = self.keepers[host.index].keeping
        for effect in effects:
            if isinstance(effect, Turned):
                keeping.turned(effect)
        if host.is_up:
            keeping.applied()

    def fail(self, node_id: bytes, duration_ns: int) -> None:
        """It truly has, for so long."""
        self.failures.append((node_id, self.now_ns + duration_ns))
        self._tell_all(node_id, HostVerdict.FAILED)
        self.call(self.now_ns + duration_ns, lambda: self._tell_all(node_id, HostVerdict.PRESENT))

    def _tell_all(self, node_id: bytes, verdict: HostVerdict) -> None:
        """Each server after a lag of its own."""
        for index, sight in enumerate(self.sights):
            lag_ns = self.random.choice(LAGS_NS[:3])
            self.call(self.now_ns + lag_ns, partial(self._heard, index, sight, node_id, verdict))

    def _decides_alone(self, index: int) -> bool:
        """As the only voter."""
        server = self.raft.on_host[index]
        if not server.has_consensus:
            return False
        configuration = server.raft.replica.configuration
        return {*configuration.voters, *configuration.voters_outgoing} == {server.me}

    def call_wrongly_failed(self, index: int, node_id: bytes | None) -> None:
        """By one server, unless it is the only voter, or by none any more."""
        sight = self.sights[index]
        before, sight.called_failed = sight.called_failed, node_id
        for each in dict.fromkeys((before, node_id)):
            if each is not None:
                self._moved(index, each)

    def _heard(self, index: int, sight: SightOfNodes, node_id: bytes, verdict: HostVerdict) -> None:
        sight.heard[node_id] = PRESENT._replace(verdict=verdict)
        self._moved(index, node_id)

    def _moved(self, index: int, node_id: bytes) -> None:
        keeper = self.keepers[index]
        self.raft.later(keeper.server, 0, lambda: keeper.keeping.host_moved((node_id, "")))
