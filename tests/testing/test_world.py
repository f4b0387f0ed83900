"""The world's own rules: clocks, lives, pauses, links, and a disk with everything of its host on it."""

from __future__ import annotations

from random import Random

import pytest

from adsum.now import MILLISECOND, SECOND, Now
from adsum.testing.clock import FIRST_WALL_MS
from adsum.testing.disk import SimulatedDisk
from adsum.testing.gossip_world import GossipWorld
from adsum.testing.network import Conditions, Network


def running(members: int = 2) -> GossipWorld:
    world = GossipWorld(members, seed=1)
    world.form()
    return world


def test_a_clock_that_runs_fast_shows_more_and_its_alarm_is_due_earlier() -> None:
    (host,) = GossipWorld(1).hosts
    host.clock_drift_ppm, host.clock_ahead_ns, host.wall_ahead_ms = 20_000, 7, 60_000
    assert host.now(10 * SECOND) == Now(10_200_000_007, FIRST_WALL_MS + 10_000 + 60_000)
    assert host.world_ns(10_200_000_007) == 10 * SECOND


def test_a_clock_that_changes_its_speed_does_not_jump() -> None:
    (host,) = GossipWorld(1).hosts
    host.drift(10 * SECOND, 100_000)
    assert host.now(10 * SECOND).monotonic_ns == 10 * SECOND
    assert host.now(20 * SECOND).monotonic_ns == 21 * SECOND
    host.drift(20 * SECOND, -100_000)
    assert host.now(20 * SECOND).monotonic_ns == 21 * SECOND
    assert host.now(30 * SECOND).monotonic_ns == 30 * SECOND


@pytest.mark.parametrize("drift_ppm", [-30_000, -1, 0, 1, 29_999])
def test_an_alarm_never_rings_before_the_clock_shows_its_time(drift_ppm: int) -> None:
    (host,) = GossipWorld(1).hosts
    host.clock_drift_ppm, host.clock_ahead_ns = drift_ppm, 999_999_999
    for due_ns in range(10**12, 10**12 + 200):
        rings_ns = host.world_ns(due_ns)
        assert host.now(rings_ns - 1).monotonic_ns < due_ns <= host.now(rings_ns).monotonic_ns


def test_what_is_meant_for_a_process_waits_for_a_pause_and_never_reaches_the_next() -> None:
    world = running()
    happened: list[str] = []
    host = world.hosts[0]
    world.pause(0)
    world.later(host, MILLISECOND, lambda: happened.append("paused"))
    world.run_for(SECOND)
    assert happened == []
    world.resume(0)
    assert happened == ["paused"]
    world.later(host, MILLISECOND, lambda: happened.append("killed"))
    world.kill(0)
    world.start(0)
    world.run_for(SECOND)
    assert happened == ["paused"]


def test_a_link_is_cut_in_one_direction_until_all_is_healed() -> None:
    network = Network(Random(1), Conditions())
    network.cut(0, 1)
    assert [len(network.delays_ns(*link)) for link in ((0, 1), (1, 0), (0, 2))] == [0, 1, 1]
    network.partition([2], [0, 1])
    assert [len(network.delays_ns(*link)) for link in ((0, 2), (2, 1), (1, 0))] == [0, 0, 1]
    network.take_side(3, 2)
    assert [len(network.delays_ns(*link)) for link in ((3, 2), (2, 3), (3, 1))] == [1, 1, 0]
    network.heal()
    assert [len(network.delays_ns(*link)) for link in ((0, 1), (0, 2))] == [1, 1]


def test_a_message_that_is_held_back_may_come_seconds_later() -> None:
    network = Network(Random(1), Conditions(held_back=0.5))
    delays_ns = [network.delays_ns(0, 1)[0] for _message in range(1_000)]
    late = [delay_ns for delay_ns in delays_ns if delay_ns > MILLISECOND]
    assert 450 < len(late) < 550
    assert 2.9 * SECOND < max(late) <= 3 * SECOND + MILLISECOND


def test_when_the_power_goes_the_files_and_the_log_of_a_host_lose_what_was_not_synced() -> None:
    disk = SimulatedDisk("seed")
    disk.write_durably("kept", b"1")
    disk.replace("lost", b"2")
    disk.blocks.create("segment").write(0, b"3")
    disk.lose_power()
    assert (disk.files, disk.blocks.names()) == ({"kept": b"1"}, [])
