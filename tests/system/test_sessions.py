"""Sessions of real agents: whose node is lost, whose check fails, who is renewed while leaders change."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import pytest

from tests.system.agents import adsum_program, until
from tests.system.clusters import Cluster, Member, emptied, joining, loopbacks

LEADER_S_MAX = 30.0
TTL_S = 10


@pytest.fixture(name="cluster")
def made_cluster() -> Iterator[Cluster]:
    """Three servers and two clients."""
    places = loopbacks(5)
    with emptied(Cluster(adsum_program())) as cluster:
        for place in places[:3]:
            cluster.add(place, {"server": True, "bootstrap_expect": 3, **joining(places[0])})
        for place in places[3:]:
            cluster.add(place, joining(places[0]))
        cluster.wait_for_one_view()
        assert until(lambda: leader_of(cluster.members[3]), within_s=LEADER_S_MAX)
        assert until(lambda: created(cluster.members[3], {"TTL": "10s"}), within_s=LEADER_S_MAX)
        yield cluster


def leader_of(member: Member) -> str:
    return str(json.loads(member.ask("/v1/status/leader") or b'""'))


def created(member: Member, body: dict[str, object]) -> str:
    status, answer = member.put("/v1/session/create", body)
    return str(json.loads(answer)["ID"]) if status == 200 else ""


def is_there(member: Member, session_id: str) -> bool:
    return bool(json.loads(member.ask(f"/v1/session/info/{session_id}") or b"[]"))


class Renewing:
    """A client that renews twice in a TTL."""

    def __init__(self, member: Member, session_id: str) -> None:
        self.gone = 0
        self._member = member
        self._session_id = session_id
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Renewing:
        self._thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ends.wait(TTL_S / 2):
            status, _body = self._member.agent.put(f"/v1/session/renew/{self._session_id}")
            self.gone += status == 404


def test_while_leaders_are_killed_a_renewed_session_stays_and_a_forgotten_one_goes(cluster: Cluster) -> None:
    client = cluster.members[3]
    live, dead = created(client, {"TTL": "10s"}), created(client, {"TTL": "10s"})
    with Renewing(client, live) as renewing:
        for _ in range(2):
            leader = next(
                each
                for each in cluster.members[:3]
                if str(each.place.ports.server) == leader_of(client).rpartition(":")[2]
            )
            leader.kill()
            assert until(lambda: put(client) == 200, within_s=LEADER_S_MAX)
            leader.restart()
            assert until(lambda leader=leader: leader_of(leader), within_s=LEADER_S_MAX)  # type: ignore[misc]
            assert is_there(client, dead)
        started_s = time.monotonic()
        assert until(lambda: not is_there(client, dead), within_s=3 * 2 * TTL_S)
        assert time.monotonic() - started_s < 2 * TTL_S + 2
        assert is_there(client, live)
    assert renewing.gone == 0


def put(member: Member) -> int:
    return member.put("/v1/kv/k", "v")[0]


def test_a_host_that_is_lost_loses_its_sessions_and_no_others(cluster: Cluster) -> None:
    client, other = cluster.members[3], cluster.members[4]
    lost, kept = created(other, {}), created(client, {})
    assert cluster.members[0].put(f"/v1/kv/lock?acquire={lost}", "x") == (200, b"true")
    other.kill()
    started_s = time.monotonic()
    assert until(lambda: not is_there(client, lost), within_s=60)
    assert time.monotonic() - started_s > 10
    assert is_there(client, kept)
    assert "Session" not in json.loads(client.ask("/v1/kv/lock"))[0]


def test_a_check_that_fails_ends_what_hangs_on_it_and_one_that_was_just_made_well_does_not(
    cluster: Cluster,
) -> None:
    client = cluster.members[3]
    assert client.put("/v1/agent/check/register", {"Name": "web", "TTL": "60s"})[0] == 200
    for _ in range(5):
        # Nobody else has heard of this yet when the session is created.
        assert client.put("/v1/agent/check/pass/web")[0] == 200
        session_id = created(client, {"NodeChecks": ["serfHealth", "web"]})
        assert session_id
        time.sleep(2.5)
        assert is_there(client, session_id)
        assert client.put("/v1/agent/check/fail/web")[0] == 200
        assert until(lambda it=session_id: not is_there(client, it), within_s=10)  # type: ignore[misc]
