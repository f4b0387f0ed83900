"""What an agent answers before it has heard the others again: after it was stopped, and after kill -9.

Clients ask all the time, on connections from before and on new ones, so their first requests wait in the
kernel for a process that goes on, or for one that is not there yet.
"""

from __future__ import annotations

import http.client
import json
import selectors
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from typing import NamedTuple

import pytest

from tests.system.agents import adsum_program, until
from tests.system.clusters import Cluster, Member, Place, gathered, loopbacks

CLIENTS = 4
KNOWN_BY_NOW = 3  # requests, after which their very bytes are
HEARD_S_MAX = 10.0
ANSWERED_S_MAX = 30.0
WEB = "/v1/health/service/web"


class Answer(NamedTuple):
    instances: frozenset[str]
    stale: str | None
    age_ms: int


class Client:
    """One connection that asks the same again and again, in the same bytes."""

    def __init__(self, place: Place) -> None:
        self.socket = socket.create_connection((place.address, place.ports.http), timeout=ANSWERED_S_MAX)

    def ask(self) -> None:
        self.socket.sendall(b"GET %b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % WEB.encode())

    def heard(self) -> Answer:
        response = http.client.HTTPResponse(self.socket)
        response.begin()
        rows = json.loads(response.read())
        assert response.status == http.client.OK
        age_ms = int(response.headers["X-Consul-Lastcontact"])
        instances = frozenset(row["Service"]["ID"] for row in rows)
        return Answer(instances, response.headers["X-Adsum-Stale"], age_ms)

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Four, each with an instance, which all know."""
    with gathered(adsum_program(), loopbacks(4)) as cluster:
        cluster.wait_for_one_view()
        for member in cluster.members:
            register(member, member.name)
        for member in cluster.members:
            assert until(partial(is_current, member, cluster.names), within_s=HEARD_S_MAX)
        yield cluster


def register(member: Member, service_id: str) -> None:
    status, _ = member.put("/v1/agent/service/register", {"Name": "web", "ID": service_id})
    assert status == http.client.OK


def is_current(member: Member, instances: set[str]) -> bool:
    with closing(Client(member.place)) as client:
        client.ask()
        answer = client.heard()
    return answer.instances == instances and answer.stale is None


def knows(member: Member, service_id: str) -> bool:
    with closing(Client(member.place)) as client:
        client.ask()
        return service_id in client.heard().instances


def answers(clients: list[Client], is_enough: Callable[[Answer], bool]) -> list[Answer]:
    """Of clients that have asked, and ask again until each of them has had enough."""
    heard: list[Answer] = []
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.socket, selectors.EVENT_READ, client)
        while selector.get_map():
            ready = selector.select(ANSWERED_S_MAX)
            assert ready, "no answer came"
            for key, _ in ready:
                heard.append(key.data.heard())
                if is_enough(heard[-1]):
                    selector.unregister(key.fileobj)
                else:
                    key.data.ask()
    return heard


@pytest.mark.parametrize("pause_s", [5.0, 120.0])
def test_after_a_pause_no_answer_from_before_it_passes_for_a_new_one(
    cluster: Cluster, pause_s: float
) -> None:
    member = cluster.members[3]
    with ExitStack() as stack:
        clients = [stack.enter_context(closing(Client(member.place))) for _ in range(CLIENTS)]
        for client in clients * KNOWN_BY_NOW:
            client.ask()
            assert client.heard().stale is None
        member.pause()
        try:
            time.sleep(pause_s)  # it is the test
            register(cluster.members[1], "late")
            for other in cluster.members[:3]:  # with whom it compares: what they lack it cannot miss
                assert until(partial(knows, other, "late"), within_s=HEARD_S_MAX)
            clients += [stack.enter_context(closing(Client(member.place))) for _ in range(CLIENTS)]
            for client in clients:
                client.ask()
        finally:
            member.resume()
        heard = answers(clients, lambda each: "late" in each.instances and each.stale is None)
    # What gossip brought meanwhile may be there with the first answer, and is not all that there is.
    old = [heard[0], *(each for each in heard if "late" not in each.instances)]
    assert {each.stale for each in old} == {"paused"}
    assert min(each.age_ms for each in old) >= pause_s * 1_000
    assert until(cluster.has_one_view, within_s=HEARD_S_MAX)
    assert [failed(each, member.name) for each in cluster.members] == [set()] * 4
    assert member.agent.log().count("this process stood still") == 1


def failed(observer: Member, paused: str) -> set[str]:
    """Whom it has called failed, but for the one that was silent for as long as the dead are."""
    entries = observer.agent.get_json("/v1/membership/timeline")["Entries"]
    return {entry["Node"] for entry in entries if entry["To"] == "failed"} - {paused}


@pytest.mark.parametrize("keeps_folder", [True, False], ids=["with its folder", "without"])
def test_one_that_was_killed_says_from_its_first_answer_on_that_others_are_missing(
    cluster: Cluster, keeps_folder: bool
) -> None:
    member = cluster.members[3]
    member.kill()
    if not keeps_folder:
        shutil.rmtree(member.agent.folder / "data")
    others = cluster.members[:3]
    for other in others:
        other.pause()  # or they might be quicker than the first question
    member.restart()
    with closing(connected(member.place)) as client:
        client.ask()
        first = client.heard()
        for other in others:
            other.resume()
        client.ask()
        heard = answers([client], lambda each: each.instances >= cluster.names - {member.name})
    assert not first.instances & {other.name for other in others}
    assert {each.stale for each in (first, *heard[:-1])} == {"joining"}


def connected(place: Place) -> Client:
    """As soon as anybody accepts."""

    def attempt() -> Client | None:
        try:
            return Client(place)
        except ConnectionRefusedError:
            return None

    client = until(attempt, within_s=ANSWERED_S_MAX)
    assert client is not None
    return client
