"""The vocabularies of the metrics: what is counted has one of the names that were there from the start."""

from __future__ import annotations

from typing import get_args

from adsum.gossip.commands import ForceLeave, Join, Leave
from adsum.gossip.order import MemberStatus
from adsum.gossip.tally import TRANSITIONS, Drop
from adsum.now import SECOND
from adsum.testing.gossip_world import GossipWorld
from adsum.testing.network import Conditions


def test_whatever_happens_to_members_is_in_the_table_of_transitions() -> None:
    """Crashes, pauses, restarts, departures by will and by force, and a name taken over."""
    world = GossipWorld(20, seed=3, conditions=Conditions(loss=0.1, duplicated=0.05, reordered=0.2))
    world.form()
    for index, trouble in enumerate((world.kill, world.lose, world.pause, world.hold)):
        trouble(index + 1)
    world.command(6, Leave())
    world.run_for(40 * SECOND)
    for index in (3, 4):
        world.resume(index)
    world.command(7, ForceLeave(world.hosts[2].profile.name, is_pruned=True))
    world.start(1)
    world.command(1, Join((world.hosts[0].address,)))
    world.run_for(40 * SECOND)
    seen = {each for host in world.hosts for each in host.core.tally.transitions}
    assert {cause for _, _, cause in seen} >= {"suspected", "silent", "left", "forced", "restarted"}
    assert seen - set(TRANSITIONS) == set()
    dropped = {reason for host in world.hosts for reason in host.core.tally.dropped}
    assert dropped - set(get_args(Drop)) == set()


def test_news_told_in_a_cluster_is_as_old_as_it_takes_to_get_around() -> None:
    world = GossipWorld(50, seed=4)
    world.form()
    world.run_for(5 * SECOND)
    told_ns = world.now_ns
    learned_s: list[float] = []
    world.command(6, Leave())
    while len(learned_s) < 49 and world.now_ns < told_ns + 5 * SECOND:
        world.run_for(SECOND // 100)
        gone = sum(
            host.core.membership.counts()[MemberStatus.LEFT] for host in world.hosts if host.index != 6
        )
        learned_s += [(world.now_ns - told_ns) / SECOND] * (gone - len(learned_s))
    tallies = [host.core.tally for host in world.hosts]
    assert sum(sum(tally.news_age_s.counts) for tally in tallies) == 49
    assert sum(tally.news_by_datagram + tally.news_by_sync for tally in tallies) == 49
    mean_told_s = sum(tally.news_age_s.total for tally in tallies) / 49
    assert abs(mean_told_s - sum(learned_s) / 49) < 0.1
