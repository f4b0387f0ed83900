"""One agent floods a leader, another writes now and then: what that costs the quiet one."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest

from adsum.agent.server_agent import Proposal
from adsum.consensus.proposing import ProposalQueue
from adsum.dedup import DedupKey
from adsum.effects import Reply
from adsum.now import MILLISECOND, SECOND
from adsum.testing.raft_cluster import SETTINGS, RaftCluster, raft_cluster
from adsum.testing.raft_machine import ClientCall

NARROW = replace(SETTINGS, proposals_under_way_max=16, proposals_queued_max=400)
FLOOD_AT_ONCE = 300  # more than its share of the queue
QUIET_WRITES = 60


class Agent:
    """So many of its writes are under way all the time; what is refused is asked again a little later."""

    def __init__(self, cluster: RaftCluster, name: str, at_once: int) -> None:
        self.times_ms: list[float] = []
        self.refused = 0
        self._cluster = cluster
        self._name = name
        self._sequence = 0
        for _ in range(at_once):
            self._write()

    def _write(self) -> None:
        self._sequence += 1
        cluster, number, began_ns = self._cluster, self._sequence, self._cluster.now_ns
        call = ClientCall("set", self._name, f"{self._name} {number}")

        def answered(reply: Reply) -> None:
            if reply.refusal is None:
                self.times_ms.append((cluster.now_ns - began_ns) / MILLISECOND)
                cluster.at(0, self._write)
            else:
                self.refused += 1
                cluster.at(20 * MILLISECOND, self._write)

        # Each write is one of a client of its own, for the registers remember one of each.
        key = DedupKey(self._name, 1, number, 1)
        cluster.submit(cluster.leaders()[0], Proposal(call.encoded(), key), answered)


def quiet_times_ms(seed: int, flood: int) -> tuple[list[float], int]:
    """Of the quiet agent's writes, and how many of the other's were refused."""
    cluster = raft_cluster(seed, settings=NARROW)
    assert cluster.run_until(lambda: bool(cluster.leaders()), within_ns=10 * SECOND)
    cluster.run_for(SECOND)
    flooding = Agent(cluster, "flood", flood)
    cluster.run_for(SECOND // 2)
    quiet = Agent(cluster, "quiet", 1)
    assert cluster.run_until(lambda: len(quiet.times_ms) >= QUIET_WRITES, within_ns=60 * SECOND)
    assert quiet.refused == 0
    return quiet.times_ms, flooding.refused


@pytest.mark.parametrize("seed", range(4))
def test_a_flood_costs_a_quiet_agent_the_time_of_what_is_under_way(seed: int) -> None:
    alone, _ = quiet_times_ms(seed, flood=0)
    beside, refused = quiet_times_ms(seed, flood=FLOOD_AT_ONCE)
    assert refused > 0
    print(f"median alone {median(alone):.1f} ms, beside a flood {median(beside):.1f} ms")
    assert median(beside) < 4 * median(alone)
    assert max(beside) < 12 * median(alone)


def test_in_one_line_with_all_others_it_would_wait_behind_the_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, _ = quiet_times_ms(1, flood=0)
    add = ProposalQueue.add
    monkeypatch.setattr(
        ProposalQueue,
        "add",
        lambda self, _client, proposal, urgency: add(self, "all", proposal, urgency),
    )
    behind, _ = quiet_times_ms(1, flood=FLOOD_AT_ONCE)
    assert median(behind) > 8 * median(alone)
