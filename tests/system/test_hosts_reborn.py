"""Hosts that come back without their data folder, as containers without a volume do: under the name and the
address of before, with a node id that nobody has met.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.system.agents import adsum_program
from tests.system.clusters import Cluster, Member, emptied, loopbacks, pace, sweeping
from tests.system.offers import differences, expected, offer

AGENTS = 12
ASKED_TO_JOIN = 3
PAUSE_S = 1.0
LOOK_S = 60.0  # after the last restart: longer than an agent counts as new to the others
LOOK_EVERY_S = 1.0
# An operator who reads one of these looks for a second agent, and there is none.
DISPUTES = ("Two members are called", "Two agents have the node id", "has its node id", "has its name")


@contextmanager
def offering() -> Iterator[Cluster]:
    """All of them know the first three, as they would by a name in DNS."""
    places = loopbacks(AGENTS)
    seeds = [f"{place.address}:{place.ports.serf_lan}" for place in places[:ASKED_TO_JOIN]]
    config = {"retry_join": seeds, "retry_interval": "1s", "leave_on_terminate": False}
    with emptied(Cluster(adsum_program())) as cluster:
        for place in places:
            cluster.add(place, config)
        cluster.wait_for_one_view()
        for member in cluster.members:
            offer(member)
        yield cluster


@pytest.mark.parametrize("end", [Member.stop, Member.kill], ids=["stopped", "killed"])
def test_after_a_rolling_restart_without_volumes_everybody_shows_everybody(
    end: Callable[[Member], None],
) -> None:
    with offering() as cluster:
        for member in cluster.members:
            end(member)
            member.lose_data()
            member.restart()
            offer(member)
            pace(time.monotonic() + PAUSE_S)
        problems = last_differences(cluster, time.monotonic() - PAUSE_S + LOOK_S) + disputes(cluster)
    assert not problems, "\n".join(problems)


def last_differences(cluster: Cluster, until_s: float) -> list[str]:
    """What the last look shows is what counts: a view that was right may not stay so."""
    wanted, last = expected(cluster), list[str]()

    def look() -> bool:
        last[:] = differences(cluster, wanted)
        return False

    sweeping(look, within_s=until_s - time.monotonic(), every_s=LOOK_EVERY_S)
    return last


def disputes(cluster: Cluster) -> list[str]:
    return [
        f"{member.name}: {line}"
        for member in cluster.members
        for line in member.agent.log().splitlines()
        if any(words in line for words in DISPUTES)
    ]
