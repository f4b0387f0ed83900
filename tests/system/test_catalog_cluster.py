"""What an agent answers about all the others when they die, cannot be reached, or were never met again."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import dns.exception
import dns.message
import dns.query
import dns.rdatatype
import pytest

from tests.system.agents import adsum_program, until
from tests.system.clusters import Cluster, Member, Place, Status, gathered, loopbacks
from tests.system.namespaces import Network, network, why_no_namespaces

AGENTS = 5
SERVICE = "/v1/health/service/web?passing"
HIDDEN_S_MAX = 5.0  # of the dead, by what the issue promises
KNOWN_S_MAX = 60.0
JUDGED_S_MAX = 60.0
SAVED_S_MAX = 150.0  # the copy is saved every minute
ASK_S_MAX = 5.0


class Answers(NamedTuple):
    """Of one agent about the service that all of them have."""

    over_http: frozenset[str]
    over_dns: frozenset[str]
    stale: str


class Wired(NamedTuple):
    network: Network
    cluster: Cluster


@contextmanager
def shop(places: list[Place]) -> Iterator[Cluster]:
    """Each has an instance of `web` at an address of its own, and everybody shows all of them."""
    with gathered(adsum_program(), places) as cluster:
        cluster.wait_for_one_view()
        for member in cluster.members:
            definition = {
                "Name": "web",
                "ID": f"web-{member.name}",
                "Address": address(cluster, member),
                "Port": 80,
                "Check": {"TTL": "1h", "Status": "passing"},
            }
            assert member.put("/v1/agent/service/register", definition) == (200, b"")
        for member in cluster.members:
            assert reaches(member, everyone(cluster))
        yield cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with shop(loopbacks(AGENTS)) as cluster:
        yield cluster


@pytest.fixture
def wired() -> Iterator[Wired]:
    if sentence := why_no_namespaces():
        pytest.skip(sentence)
    with network(AGENTS) as hosts, shop(list(hosts.hosts)) as cluster:
        yield Wired(hosts, cluster)


def test_who_is_killed_is_hidden_by_the_last_agent_which_answers_for_itself(cluster: Cluster) -> None:
    *dying, last = cluster.members
    alone = frozenset([address(cluster, last)])
    for member in dying:
        member.kill()
    killed = time.monotonic()
    assert reaches(last, alone, within_s=HIDDEN_S_MAX), answers(last)
    assert time.monotonic() - killed <= HIDDEN_S_MAX
    assert answers(last) == Answers(alone, alone, stale="")
    for member in dying:
        member.restart()
    for member in cluster.members:
        assert reaches(member, everyone(cluster))


def test_agent_that_is_cut_off_goes_on_answering_for_all_and_says_that_it_is_stale(wired: Wired) -> None:
    cluster = wired.cluster
    *others, last = cluster.members
    shown: set[Answers] = set()

    def seen() -> list[Status]:
        shown.add(answers(last))
        view = last.view()
        return [view[member.name] for member in others]

    wired.network.part(wired.network.hosts[:-1])
    # Who accuses everybody doubts itself, so it may take its time over the rest.
    assert until(lambda: Status.FAILED in seen(), within_s=JUDGED_S_MAX), last.view()
    assert {each[:2] for each in shown} == {(everyone(cluster), everyone(cluster))}
    assert answers(last) == Answers(everyone(cluster), everyone(cluster), stale="isolated")
    assert 'adsum_catalog_stale{reason="isolated"} 1' in scraped(last)
    for member in others:
        assert reaches(member, everyone(cluster) - {address(cluster, last)}), answers(member)

    wired.network.heal()
    assert until(lambda: set(seen()) == {Status.ALIVE}, within_s=KNOWN_S_MAX), last.view()
    assert {each[:2] for each in shown} == {(everyone(cluster), everyone(cluster))}
    for member in cluster.members:
        assert reaches(member, everyone(cluster))


def test_restarted_agent_that_reaches_nobody_answers_from_its_copy_and_says_so(cluster: Cluster) -> None:
    last = cluster.members[-1]
    copy = last.agent.folder / "data" / "catalog-copy"
    assert until(copy.exists, within_s=SAVED_S_MAX)
    for member in cluster.members:
        member.kill()
    last.restart()
    first = until(lambda: attempted(lambda: answers(last)), within_s=KNOWN_S_MAX)
    assert first == Answers(everyone(cluster), everyone(cluster), stale="saved copy")
    assert 'adsum_catalog_stale{reason="saved copy"} 1' in scraped(last)
    for member in cluster.members[:-1]:
        member.restart()
    for member in cluster.members:
        assert reaches(member, everyone(cluster))


def reaches(member: Member, expected: frozenset[str], within_s: float = KNOWN_S_MAX) -> bool:
    """It shows just these, over both, and not for want of better knowledge."""
    wanted = Answers(expected, expected, stale="")
    return until(lambda: attempted(lambda: answers(member)) == wanted, within_s=within_s)


def attempted(ask: Callable[[], Answers]) -> Answers | None:
    """None while it is not there."""
    try:
        return ask()
    except (OSError, http.client.HTTPException, dns.exception.DNSException):
        return None


def answers(member: Member) -> Answers:
    with member.place.entered():
        connection = http.client.HTTPConnection("127.0.0.1", member.place.ports.http, timeout=ASK_S_MAX)
        try:
            connection.request("GET", SERVICE)
            response = connection.getresponse()
            instances = json.loads(response.read())
        finally:
            connection.close()
        question = dns.message.make_query("web.service.consul", "A", use_edns=0, payload=1232)
        records = dns.query.udp(question, "127.0.0.1", ASK_S_MAX, member.place.ports.dns).answer
    over_http = frozenset(each["Service"]["Address"] for each in instances)
    over_dns = frozenset(record.address for rrset in records for record in rrset)
    return Answers(over_http, over_dns, response.headers.get("X-Adsum-Stale", ""))


def scraped(member: Member) -> list[str]:
    with member.place.entered():
        _, body = member.agent.call("GET", "/metrics")
    return [line.removesuffix(".0") for line in body.decode().splitlines()]


def everyone(cluster: Cluster) -> frozenset[str]:
    return frozenset(address(cluster, member) for member in cluster.members)


def address(cluster: Cluster, member: Member) -> str:
    return f"10.1.0.{cluster.members.index(member) + 1}"
