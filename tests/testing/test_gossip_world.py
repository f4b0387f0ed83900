"""Whole clusters of shipped cores: what they do together, from one seed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from adsum.gossip.commands import Describe, Join
from adsum.gossip.effects import MemberChanged
from adsum.gossip.order import MemberStatus
from adsum.now import SECOND
from adsum.testing.gossip_world import GossipWorld
from adsum.testing.network import Conditions

ROUGH = Conditions(loss=0.1, duplicated=0.05, reordered=0.2)


def is_complete(world: GossipWorld) -> bool:
    present = sum(host.is_up for host in world.hosts) - 1
    return all(
        host.core.membership.counts()[MemberStatus.ALIVE] == present for host in world.hosts if host.is_up
    )


def until(world: GossipWorld, seconds: int) -> float:
    """How long it took to become complete, at most so long."""
    began_ns = world.now_ns
    while not (is_complete(world) and world.is_one_view()):
        assert world.now_ns - began_ns < seconds * SECOND, "views still differ"
        world.run_for(SECOND // 10)
    return (world.now_ns - began_ns) / SECOND


STORY = """
from adsum.testing.simulate import simulate
from adsum.testing.simulate_figures import Plan, Scenario
from adsum.now import SECOND
from dataclasses import asdict
figures = simulate(Plan(40, Scenario.CRASH, 0.1, 40 * SECOND, seed=7))
print(figures.events, figures.digest, figures.bytes_per_s, figures.verdict_first, figures.update_all)
"""


def test_one_seed_gives_one_run_whatever_the_hash_seed() -> None:
    runs = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        run = subprocess.run(
            [sys.executable, "-c", STORY], env=environment, capture_output=True, text=True, check=True
        )
        runs.append(run.stdout)
    assert runs[0] == runs[1]
    assert len(runs[0].split()) > 5


def test_another_seed_is_another_run() -> None:
    digests = []
    for seed in (1, 1, 2):
        world = GossipWorld(10, seed=seed)
        world.form()
        world.run_for(10 * SECOND)
        digests.append(world.digest)
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("seeds", [1, 3])
def test_fifty_that_start_at_once_are_of_one_mind_within_ten_seconds(seeds: int) -> None:
    world = GossipWorld(50, seed=seeds, conditions=Conditions(loss=0.02))
    world.join_all(seeds=seeds)
    assert until(world, 10) <= 10


def test_fifty_killed_at_once_and_started_again_are_of_one_mind_within_ten_seconds() -> None:
    world = GossipWorld(50, seed=8)
    world.form()
    world.run_for(5 * SECOND)
    for host in world.hosts:
        world.kill(host.index)
    world.run_for(3 * SECOND)
    for host in world.hosts:
        world.start(host.index)
    for host in world.hosts:
        peers = world.random.sample(world.hosts, 3)
        world.command(host.index, Join(tuple(peer.address for peer in peers)))
    assert until(world, 10) <= 10


def test_loss_duplicates_and_disorder_change_no_verdict() -> None:
    world = GossipWorld(30, seed=9, conditions=ROUGH)
    world.join_all()
    until(world, 20)
    failed: list[str] = []

    def watch(_time_ns: int, _observer: int, effect: object) -> None:
        if isinstance(effect, MemberChanged) and effect.after and effect.after.status is MemberStatus.FAILED:
            failed.append(effect.member.name)

    world.watchers.append(watch)
    world.run_for(60 * SECOND)
    assert failed == []


def test_a_dead_process_is_known_to_all_within_three_seconds_and_a_dead_host_later() -> None:
    world = GossipWorld(30, seed=10)
    world.form()
    world.run_for(40 * SECOND)
    world.kill(3)
    world.lose(4)
    world.run_for(3 * SECOND)
    assert world.views(3) == {MemberStatus.FAILED: 28}
    assert MemberStatus.FAILED not in world.views(4)
    world.run_for(17 * SECOND)
    assert world.views(4) == {MemberStatus.FAILED: 28}


def test_a_paused_process_refuses_nobody_and_is_not_accused_fast() -> None:
    world = GossipWorld(30, seed=10)
    world.form()
    world.run_for(40 * SECOND)
    world.pause(3)
    world.run_for(5 * SECOND)
    assert MemberStatus.FAILED not in world.views(3)
    world.resume(3)
    assert until(world, 5) < 5


def test_a_partition_heals_to_one_view_without_burying_anybody_again() -> None:
    world = GossipWorld(30, seed=11)
    world.form()
    world.network.partition(range(15), range(15, 30))
    world.run_for(60 * SECOND)
    assert world.hosts[0].core.membership.counts()[MemberStatus.FAILED] == 15
    world.network.heal()
    buried: list[str] = []

    def watch(_time_ns: int, _observer: int, effect: object) -> None:
        if isinstance(effect, MemberChanged) and effect.after and effect.after.status is MemberStatus.FAILED:
            buried.append(effect.member.name)

    world.watchers.append(watch)
    until(world, 60)
    assert buried == []


def test_a_member_that_comes_back_under_another_name_and_address_replaces_itself() -> None:
    world = GossipWorld(10, seed=12)
    world.form()
    old = world.hosts[3].profile
    world.run_for(5 * SECOND)
    world.kill(3)
    world.run_for(5 * SECOND)
    world.start(3, name="renamed", address=old.address._replace(host="10.50.0.1"))
    world.command(3, Join((world.hosts[0].address,)))
    until(world, 10)
    membership = world.hosts[7].core.membership
    assert (membership.member_named(old.name), len(membership.members())) == (None, 9)
    renamed = membership.member_named("renamed")
    assert renamed is not None
    assert renamed.profile.address.host == "10.50.0.1"


def test_a_copied_data_folder_ends_in_a_conflict_and_not_in_a_war() -> None:
    world = GossipWorld(11, seed=13)
    for host in world.hosts[:10]:
        world.start(host.index)
    for host in world.hosts[1:10]:
        world.command(host.index, Join((world.hosts[0].address,)))
    world.run_for(10 * SECOND)
    original, copy = world.hosts[3], world.hosts[10]
    copy.profile = type(copy.profile)(original.profile.node_id, original.profile.name, copy.address)
    copy.generation = original.generation
    world.start(10)
    world.command(10, Join((world.hosts[0].address,)))
    world.run_for(60 * SECOND)
    member = world.hosts[0].core.membership.member_by_id(original.profile.node_id)
    assert member is not None
    assert member.profile.address == original.address
    assert member.status is MemberStatus.ALIVE
    assert sum(host.core.tally.conflicts for host in world.hosts) > 0
    assert original.core.membership.own_standing.generation - original.generation < 10


def test_a_thousand_members_hear_an_update_in_two_seconds_and_of_a_dead_process_in_four() -> None:
    world = GossipWorld(1_000, seed=14, conditions=Conditions(loss=0.05))
    world.form()
    world.run_for(SECOND)
    world.command(12, Describe(b"new"))
    world.kill(500)
    world.run_for(2 * SECOND)
    told = world.hosts[12].profile.node_id
    views = [host.core.membership for host in world.hosts if host.index not in (12, 500)]
    members = [view.member_by_id(told) for view in views]
    assert sum(member is not None and member.profile.meta == b"new" for member in members) >= 998
    world.run_for(2 * SECOND)
    assert world.views(500)[MemberStatus.FAILED] >= 990
