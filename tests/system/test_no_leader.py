"""Two servers that wait for a third: nobody leads them, and each says so wherever one would look."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from functools import partial

import pytest

from tests.system.agents import adsum_program, until
from tests.system.clusters import Cluster, Member, emptied, joining, loopbacks

SAID_S_MAX = 20.0  # after ten it is said for the first time
SENTENCE = "this server belongs to no cluster yet: 2 servers are alive in dc1, and 3 are expected"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    places = loopbacks(2)
    with emptied(Cluster(adsum_program())) as made:
        for place in places:
            made.add(place, {"server": True, "bootstrap_expect": 3, **joining(places[0])})
        made.wait_for_one_view()
        yield made


def test_it_stands_in_the_banner_and_in_the_log(cluster: Cluster) -> None:
    for member in cluster.members:
        assert until(partial(has_said_it, member), within_s=SAID_S_MAX)
        assert "Leader: elected when 3 servers have met" in member.agent.log()


def test_the_commands_say_it(cluster: Cluster) -> None:
    members, info = told(cluster.members[0], "members"), told(cluster.members[0], "info")
    assert members.stdout.splitlines()[1].startswith("m00 ")
    assert members.stderr == f"No leader: {SENTENCE}.\n"
    assert f"\tno_leader = {SENTENCE}\n" in info.stdout
    assert "\tleader = false\n" in info.stdout


def test_the_api_and_the_metrics_name_no_leader(cluster: Cluster) -> None:
    for member in cluster.members:
        assert member.agent.get_json("/v1/status/leader") == ""
        assert member.agent.get_json("/v1/status/peers") == []
        gauges = member.agent.get_json("/v1/agent/metrics")["Gauges"]
        assert [each["Value"] for each in gauges if each["Name"] == "consul.server.isLeader"] == [0]


def has_said_it(member: Member) -> bool:
    return f"agent: no leader: {SENTENCE}" in member.agent.log()


def told(member: Member, command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CONSUL_HTTP_ADDR": f"127.0.0.1:{member.place.ports.http}"}
    words = [*member.agent.program.command, command]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
