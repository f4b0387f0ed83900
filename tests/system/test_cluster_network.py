"""What the network does to a cluster: it parts, it heals, and hosts lose their cable. Each agent has a host
of its own, made of a network namespace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest

from tests.system.agents import adsum_program
from tests.system.clusters import Cluster, Member, Status, gathered, sweeping
from tests.system.namespaces import Network, network, why_no_namespaces

HOSTS = 5
JUDGED_S_MAX = 40.0
HEALED_S_MAX = 60.0


class Wired(NamedTuple):
    network: Network
    cluster: Cluster


@pytest.fixture
def wired() -> Iterator[Wired]:
    if sentence := why_no_namespaces():
        pytest.skip(sentence)
    with network(HOSTS) as hosts, gathered(adsum_program(), hosts.hosts) as cluster:
        cluster.wait_for_one_view()
        yield Wired(hosts, cluster)


def test_parted_cluster_sees_the_other_side_failed_and_heals_to_one_view(wired: Wired) -> None:
    many, few = wired.cluster.members[:3], wired.cluster.members[3:]
    wired.network.part(wired.network.hosts[3:])
    assert sweeping(lambda: judge(many, few) and judge(few, many), within_s=JUDGED_S_MAX)
    wired.network.heal()
    wired.cluster.wait_for_one_view(HEALED_S_MAX)


def test_host_without_its_cable_is_judged_by_all_others_and_taken_back(wired: Wired) -> None:
    *others, cut_off = wired.cluster.members
    host = wired.network.hosts[-1]
    host.pull_cable()
    assert sweeping(lambda: judge(others, [cut_off]), within_s=JUDGED_S_MAX)
    host.plug_in()
    wired.cluster.wait_for_one_view(HEALED_S_MAX)


def test_agent_killed_behind_a_switch_is_judged_by_all_others(wired: Wired) -> None:
    *others, dead = wired.cluster.members
    dead.kill()
    assert sweeping(lambda: judge(others, [dead]), within_s=JUDGED_S_MAX)
    dead.restart()
    wired.cluster.wait_for_one_view(HEALED_S_MAX)


def judge(side: Sequence[Member], subjects: Sequence[Member]) -> bool:
    """Every one of the side calls every subject failed, and its own side alive."""
    expected = {subject.name: Status.FAILED for subject in subjects}
    expected |= {member.name: Status.ALIVE for member in side}
    return all(member.view() == expected for member in side)
