"""A request on its way from one simulated server to the leader, and its answer back: over the same links as
messages, so either may be lost, or come twice. Then the line has broken, and after a while the one who asked
hears what that means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adsum.consensus.effects import AskLeader
from adsum.consensus.errors import OutcomeUnknown, Unavailable
from adsum.consensus.reports import LeaderAnswered
from adsum.now import MILLISECOND

if TYPE_CHECKING:
    from adsum.testing.raft_cluster import RaftCluster
    from adsum.testing.raft_server import SimulatedServer

BROKEN_NS_MIN, BROKEN_NS_MAX = 50 * MILLISECOND, 900 * MILLISECOND  # until a broken line is noticed
SILENT_LINES = 0.2  # of them: that of a host that stands still is never seen to break


class Forwarded:
    def __init__(self, cluster: RaftCluster, server: SimulatedServer, asked: AskLeader) -> None:
        self._cluster = cluster
        self._server = server
        self._asked = asked
        self._life = server.life
        self._target = cluster.of_node(asked.node)
        self._is_over = False

    def send(self) -> None:
        cluster = self._cluster
        arrivals_ns = cluster.delays_ns(self._server.me, self._target.me)
        for delay_ns in arrivals_ns[:1]:  # a line carries a call once
            cluster.at(delay_ns, self._arrive)
        broken = OutcomeUnknown("the line broke") if arrivals_ns else Unavailable("it was not sent")
        wait_ns = min(self._asked.timeout_ns, cluster.random.randint(BROKEN_NS_MIN, BROKEN_NS_MAX))
        if cluster.random.random() < SILENT_LINES:
            wait_ns = self._asked.timeout_ns
        cluster.later(self._server, wait_ns, lambda: self._come_back(broken))

    # At the leader.

    def _arrive(self) -> None:
        asked, cluster = self._asked, self._cluster
        cluster.later(
            self._target, 0, lambda: cluster.ask(self._target, asked.data, self._answer, asked.dedup)
        )

    def _answer(self, outcome: bytes | int | Exception) -> None:
        for delay_ns in self._cluster.delays_ns(self._target.me, self._server.me)[:1]:
            self._cluster.at(delay_ns, lambda: self._arrive_back(outcome))

    # Where it was asked.

    def _arrive_back(self, outcome: bytes | int | Exception) -> None:
        if self._server.life == self._life:
            self._cluster.later(self._server, 0, lambda: self._come_back(outcome))

    def _come_back(self, outcome: bytes | int | Exception) -> None:
        if not self._is_over:
            self._is_over = True
            self._cluster.tell(self._server, LeaderAnswered(self._asked.ticket, outcome))
