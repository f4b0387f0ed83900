"""A request on its way from one simulated server to the leader, and its answer back: over the same links as
messages, so either may be lost, or come twice. Then the line has broken, and after a while the one who asked
hears what that means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adsum.consensus.commands import ConfirmRead, Propose
from adsum.consensus.effects import AskLeader
from adsum.consensus.errors import OutcomeUnknown, Unavailable
from adsum.consensus.reports import LeaderAnswered
from adsum.consensus.requests import PASSING
from adsum.now import MILLISECOND
from adsum.raft.errors import RaftRefused

if TYPE_CHECKING:
    from adsum.testing.raft_cluster import RaftCluster, ServerHost

BROKEN_NS_MIN, BROKEN_NS_MAX = 50 * MILLISECOND, 900 * MILLISECOND  # until a broken line is noticed


class Forwarded:
    def __init__(self, cluster: RaftCluster, host: ServerHost, asked: AskLeader) -> None:
        self._cluster = cluster
        self._host = host
        self._asked = asked
        self._life = host.life
        self._target = cluster.host_of(asked.node)
        self._is_over = False

    def send(self) -> None:
        cluster, source, target = self._cluster, self._host.server.me, self._target.server.me
        arrivals_ns = cluster.network.arrivals_ns(source, target)
        for delay_ns in arrivals_ns[:1]:  # a line carries a call once
            cluster.at(delay_ns, self._arrive)
        broken = OutcomeUnknown("the line broke") if arrivals_ns else Unavailable("it was not sent")
        wait_ns = min(self._asked.timeout_ns, cluster.random.randint(BROKEN_NS_MIN, BROKEN_NS_MAX))
        cluster.at(wait_ns, lambda: self._come_back(broken))

    # At the leader.

    def _arrive(self) -> None:
        if self._target.server.is_up:
            self._cluster.later(self._target, 0, self._begin)

    def _begin(self) -> None:
        asked = self._asked
        try:
            if asked.data is None:
                self._cluster.command(self._target, ConfirmRead(self._answer))
            else:
                self._cluster.command(self._target, Propose(asked.data, self._answer, asked.dedup))
        except (RaftRefused, Unavailable) as error:
            self._answer(error)

    def _answer(self, outcome: bytes | int | Exception) -> None:
        if isinstance(outcome, PASSING):
            outcome = Unavailable(str(outcome))
        source, target = self._target.server.me, self._host.server.me
        for delay_ns in self._cluster.network.arrivals_ns(source, target)[:1]:
            self._cluster.at(delay_ns, lambda: self._come_back(outcome))

    # Where it was asked.

    def _come_back(self, outcome: bytes | int | Exception) -> None:
        host = self._host
        if not self._is_over and host.life == self._life and host.server.is_up:
            self._is_over = True
            report = LeaderAnswered(self._asked.ticket, outcome)
            self._cluster.later(host, 0, lambda: self._cluster.report(host, report))
