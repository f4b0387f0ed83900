"""Servers that do not keep within their bounds are found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from adsum.now import MILLISECOND, SECOND
from adsum.raft.messages import SnapshotOffer
from adsum.raft.types import MemberId, Role
from adsum.testing.checkers import Violation
from adsum.testing.raft_cluster import SETTINGS, RaftCluster, raft_cluster
from adsum.testing.raft_machine import ClientCall
from adsum.testing.raft_server import SimulatedServer


def led(*, snapshot_log_bytes: int = 32 << 20) -> tuple[RaftCluster, SimulatedServer]:
    settings = replace(
        SETTINGS, snapshot_log_bytes=snapshot_log_bytes, entries_kept_bytes=0, entries_awaited_bytes=1 << 20
    )
    cluster = raft_cluster(3, settings=settings)
    assert cluster.run_until(lambda: bool(cluster.leaders()), within_ns=10 * SECOND)
    cluster.run_for(SECOND)
    return cluster, cluster.leaders()[0]


def test_a_log_that_outgrows_its_bytes_is_found() -> None:
    cluster, leader = led(snapshot_log_bytes=1 << 30)
    cluster.limits.log_bytes_max = 78_000
    value = ClientCall("set", "x", "y", ballast=bytes(8_000)).encoded()
    for _ in range(9):
        cluster.ask(leader, value, lambda _outcome: None)
        cluster.run_for(100 * MILLISECOND)
    with pytest.raises(Violation, match=r"holds 80\d\d\d bytes of log in memory"):
        cluster.ask(leader, value, lambda _outcome: None)


def offer_of(leader: SimulatedServer, target: MemberId, number: int) -> SnapshotOffer:
    replica = leader.raft.replica
    snapshot = replace(replica.log.snapshot, index=replica.log.last_index + number)
    return SnapshotOffer(replica.stamp, leader.me, target, replica.term, 1, snapshot)


def test_snapshots_that_follow_each_other_without_end_are_found() -> None:
    cluster, leader = led()
    target = next(me for me in cluster.servers if me != leader.me)
    for number in (1, 1, 1, 1, 2, 3):  # the same again is nothing new
        offer = offer_of(leader, target, number)
        cluster.limits.offered(leader, offer)
        cluster.limits.arrived(offer)
    cluster.limits.died(target)  # what had arrived may not have been installed
    cluster.limits.offered(leader, offer_of(leader, target, 4))
    cluster.limits.arrived(offer_of(leader, target, 4))
    with pytest.raises(Violation, match="one snapshot after the other"):
        cluster.limits.offered(leader, offer_of(leader, target, 5))


@pytest.mark.parametrize("is_noticed", [True, False], ids=["its clock says so", "its clock stood still"])
def test_a_leader_that_stood_still_is_another_servers_follower_when_it_wakes(*, is_noticed: bool) -> None:
    cluster, leader = led()
    before_ns = leader.host.now(cluster.now_ns).monotonic_ns
    cluster.suspend(leader.me, 10 * SECOND, is_noticed=is_noticed)
    cluster.run_for(11 * SECOND)
    gone_ns = leader.host.now(cluster.now_ns).monotonic_ns - before_ns
    assert round(gone_ns / SECOND) == (11 if is_noticed else 1)
    assert leader.raft.replica.role is Role.FOLLOWER
    assert cluster.leaders()[0] is not leader


def test_a_leader_that_trusts_the_time_after_it_stood_still_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, leader = led()
    monkeypatch.setattr(leader.core.pace, "stood_still_ns", lambda *_args, **_more: 0)
    cluster.suspend(leader.me, 400 * MILLISECOND, is_noticed=True)
    with pytest.raises(Violation, match="trusts the time after it stood still"):
        cluster.run_for(SECOND)
