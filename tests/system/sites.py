"""Servers and one client agent as real processes, and who votes, which the client agent asks the servers."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.system.agents import AgentFailed, adsum_program, until
from tests.system.clusters import Cluster, Member, Place, emptied, loopbacks
from tests.system.test_servers_lost import Traffic

ELECTED_S_MAX = 20.0
CHANGED_S_MAX = 30.0  # one server after the other learns for a second before it votes
COMMON: Mapping[str, object] = {
    "retry_interval": "1s",
    "log_level": "INFO",
    "autopilot": {"server_stabilization_time": "1s"},
}
CONFIGURATION = "/v1/operator/raft/configuration"


class Site:
    """The first member is a client agent; the others are servers."""

    def __init__(self, cluster: Cluster, places: list[Place]) -> None:
        self.cluster = cluster
        self.places = places

    @property
    def client(self) -> Member:
        return self.cluster.members[0]

    @property
    def servers(self) -> list[Member]:
        return self.cluster.members[1:]

    def add(self, name: str, place: Place, **config: object) -> Member:
        return self.cluster.add(place, {**COMMON, "retry_join": joined(self.places), **config}, name)

    def add_server(self, name: str, place: Place, **config: object) -> Member:
        return self.add(name, place, server=True, **config)

    def peers(self, asked: Member | None = None) -> list[Mapping[str, Any]]:
        told = (asked or self.client).ask(f"{CONFIGURATION}?stale")
        return json.loads(told)["Servers"] if told else []

    def voters(self) -> list[str]:
        return sorted(peer["Node"] for peer in self.peers() if peer["Voter"])

    def wait_for_voters(self, *names: str) -> None:
        def is_so() -> bool:
            return self.voters() == sorted(names) and len(self.peers()) == len(names)

        if not until(is_so, within_s=CHANGED_S_MAX):
            tails = "\n".join(f"{each.name}:\n{each.agent.log_tail()}" for each in self.cluster.members)
            raise AgentFailed(f"{self.peers()} are not {names}\n{tails}")

    def leader(self) -> Member:
        def find() -> Member | None:
            names = [peer["Node"] for peer in self.peers() if peer["Leader"]]
            return next((each for each in self.servers if each.name in names), None)

        found = until(find, within_s=ELECTED_S_MAX)
        assert found is not None, self.peers()
        return found


def joined(places: list[Place]) -> list[str]:
    return [f"{place.address}:{place.ports.serf_lan}" for place in places]


@contextmanager
def site(servers: int, **config: object) -> Iterator[Site]:
    """So many servers of this configuration, named s1 and so on, and a client agent."""
    places = loopbacks(servers + 1)
    with emptied(Cluster(adsum_program())) as cluster:
        made = Site(cluster, places[1:])
        made.add("client", places[0])
        for number, place in enumerate(made.places, 1):
            made.add_server(f"s{number}", place, bootstrap_expect=servers, **config)
        made.wait_for_voters(*(f"s{number}" for number in range(1, servers + 1)))
        assert until(lambda: made.client.put("/v1/kv/ready")[0] == http.client.OK, within_s=ELECTED_S_MAX)
        yield made


def assert_nothing_was_lost(made: Site, traffic: Traffic, running: list[Member]) -> None:
    assert (traffic.refused, traffic.went_back) == ([], [])
    assert traffic.acknowledged > 0
    assert until(lambda: set(map(number_in, running)) == {traffic.acknowledged}, within_s=ELECTED_S_MAX)


def number_in(member: Member) -> int:
    told = member.ask("/v1/kv/a?stale&raw")
    return int(told) if told else 0
