"""Patroni keeps its primary by a session and a key in us: through a client agent of three servers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.system.agents import adsum_program, until
from tests.system.clusters import Cluster, emptied, joining, loopbacks
from tests.system.installed import PIP, had
from tests.system.patroni import PACKAGES, Patroni, patroni, postgres_binaries
from tests.system.test_client_keys import LEADER_S_MAX, leader_of, leading


@pytest.fixture(name="cluster", scope="module")
def made_cluster() -> Iterator[Cluster]:
    """The last member is the client."""
    places = loopbacks(4)
    with emptied(Cluster(adsum_program())) as cluster:
        for place in places[:3]:
            cluster.add(place, {"server": True, "bootstrap_expect": 3, **joining(places[0])})
        cluster.add(places[3], joining(places[0]))
        cluster.wait_for_one_view()
        assert until(lambda: leader_of(cluster.members[3]), within_s=LEADER_S_MAX)
        yield cluster


def test_a_primary_moves_when_it_is_asked_to_and_when_it_or_our_leader_is_killed(
    cluster: Cluster, debian_tool: Callable[[str], str]
) -> None:
    debian_tool("pg_ctlcluster")
    binaries, packages = postgres_binaries(), had(PIP, *PACKAGES)
    client = cluster.members[3]
    with patroni(client.place.ports.http, binaries, packages) as pair:
        first = pair.wait_for_primary()
        second = pair.wait_for_replica()
        first.switch_over_to(second)
        assert pair.wait_for_primary(besides=first) is second
        assert pair.wait_for_replica() is first

        leading(cluster, client).kill()
        assert until(lambda: leader_of(client), within_s=LEADER_S_MAX)
        assert_it_stays(pair)

        second.kill()
        assert pair.wait_for_primary(besides=second) is first


def assert_it_stays(pair: Patroni) -> None:
    """Whoever is the primary renews its session through the next leader, also after its TTL."""
    primary = pair.wait_for_primary()
    seen = {primary.name}

    def has_renewed_twice() -> bool:
        found = pair.primary()
        seen.add(found.name if found is not None else "")
        return primary.log().count("no action. I am") >= renewals + 8  # one each three seconds

    renewals = primary.log().count("no action. I am")
    assert until(has_renewed_twice, within_s=60.0)
    assert seen == {primary.name}
