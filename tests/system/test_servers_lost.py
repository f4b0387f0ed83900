"""Three real servers that are killed, paused, restarted and killed together, while somebody writes through a
client agent.

What was acknowledged is there afterwards; what is read never goes back; and losing the leader costs a pause.
A writer raises a number in a key of its own with each write, so that what must be there is one number.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from tests.system.agents import Agent, AgentFailed, adsum_program, until
from tests.system.clusters import Cluster, Member, emptied, loopbacks

SERVERS = 3
BACK_S_MAX = 3.0  # of service after a leader is lost
CALM_S = 1.0
ELECTED_S_MAX = 20.0
CALL_S = 15.0


class Traffic:
    """One client of one agent: it writes the next number and reads it back, again and again."""

    def __init__(self, agent: Agent, key: str) -> None:
        self.acknowledged = 0
        self.slowest_s = 0.0
        self.refused: list[str] = []
        self.went_back: list[tuple[int, int]] = []
        self._agent = agent
        self._key = key
        self._read = 0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._ends.is_set():
            number += 1
            started_s = time.monotonic()
            try:
                status, body = self._agent.call(
                    "PUT", f"/v1/kv/{self._key}", b"%d" % number, timeout_s=CALL_S
                )
                if status == http.client.OK:
                    self.acknowledged = number
                    self._look()
                else:
                    self.refused.append(f"{status} {body[:200]!r}")
            except (OSError, http.client.HTTPException) as error:  # its own agent is gone
                self.refused.append(repr(error))
                time.sleep(0.05)
            self.slowest_s = max(self.slowest_s, time.monotonic() - started_s)

    def _look(self) -> None:
        status, body = self._agent.call("GET", f"/v1/kv/{self._key}?raw", timeout_s=CALL_S)
        if status == http.client.OK:
            if int(body) < max(self._read, self.acknowledged):
                self.went_back.append((self._read, int(body)))
            self._read = int(body)


@contextmanager
def three_servers_and_a_client() -> Iterator[Cluster]:
    places = loopbacks(SERVERS + 1)
    common = {
        "retry_join": [f"{place.address}:{place.ports.serf_lan}" for place in places[:SERVERS]],
        "retry_interval": "1s",
        "log_level": "INFO",
    }
    with emptied(Cluster(adsum_program())) as cluster:
        for place in places[:SERVERS]:
            cluster.add(place, {"server": True, "bootstrap_expect": SERVERS, **common})
        cluster.add(places[-1], common)
        leader_of(cluster)
        client = client_of(cluster)
        if not until(lambda: client.put("/v1/kv/ready")[0] == http.client.OK, within_s=ELECTED_S_MAX):
            raise AgentFailed(client.agent.log_tail())
        yield cluster


def servers_of(cluster: Cluster) -> list[Member]:
    return cluster.members[:SERVERS]


def client_of(cluster: Cluster) -> Member:
    return cluster.members[-1]


def leader_of(cluster: Cluster, *, besides: Member | None = None) -> Member:
    def find() -> Member | None:
        for member in servers_of(cluster):
            if member is besides or member.agent.process.poll() is not None:
                continue
            told = member.ask("/v1/agent/self")
            if told and json.loads(told)["Stats"]["consul"]["leader"] == "true":
                return member
        return None

    found = until(find, within_s=ELECTED_S_MAX)
    if found is None:
        raise AgentFailed("\n".join(member.agent.log_tail() for member in cluster.members))
    return found


def number_in(member: Member, key: str) -> int:
    return int(member.ask(f"/v1/kv/{key}?raw"))


@pytest.mark.parametrize("way", ["killed", "paused", "stopped"])
def test_losing_the_leader_costs_clients_a_pause(way: str) -> None:
    with three_servers_and_a_client() as cluster:
        leader = leader_of(cluster)
        client = client_of(cluster)
        others = [member for member in servers_of(cluster) if member is not leader]
        with Traffic(client.agent, "a") as one, Traffic(others[0].agent, "b") as other:
            time.sleep(CALM_S)
            lose: dict[str, Callable[[], None]] = {
                "killed": leader.kill,
                "paused": leader.pause,
                "stopped": leader.stop,
            }
            lose[way]()
            leader_of(cluster, besides=leader)
            time.sleep(CALM_S)
        for traffic, key in ((one, "a"), (other, "b")):
            assert (traffic.refused, traffic.went_back) == ([], [])
            assert traffic.slowest_s < BACK_S_MAX
            assert number_in(client, key) >= traffic.acknowledged > 0
        if way == "paused":  # it learns that it leads no more, and has what was written meanwhile
            leader.resume()
            assert until(lambda: number_in(leader, "a") >= one.acknowledged, within_s=ELECTED_S_MAX)


def test_a_rolling_restart_of_all_servers_loses_nothing() -> None:
    with three_servers_and_a_client() as cluster:
        client = client_of(cluster)
        with Traffic(client.agent, "a") as traffic:
            for member in servers_of(cluster):
                time.sleep(CALM_S)
                member.stop()
                member.restart()
                assert until(partial(member.ask, "/v1/kv/?keys"), within_s=ELECTED_S_MAX)
            time.sleep(CALM_S)
        assert (traffic.refused, traffic.went_back) == ([], [])
        assert traffic.slowest_s < BACK_S_MAX
        assert number_in(client, "a") == traffic.acknowledged > 0


def test_all_servers_killed_at_once_come_back_with_all_that_was_acknowledged() -> None:
    with three_servers_and_a_client() as cluster:
        with Traffic(client_of(cluster).agent, "a") as traffic:
            time.sleep(CALM_S)
            for member in servers_of(cluster):
                member.agent.process.kill()
            for member in servers_of(cluster):
                member.kill()
        acknowledged = traffic.acknowledged
        assert acknowledged > 0
        for member in servers_of(cluster):
            member.restart()
        leader_of(cluster)
        for member in cluster.members:
            assert until(partial(member.ask, "/v1/kv/a?raw"), within_s=ELECTED_S_MAX)
            assert number_in(member, "a") >= acknowledged


def test_with_one_of_three_left_writes_are_refused_and_stale_reads_go_on() -> None:
    with three_servers_and_a_client() as cluster:
        leader = leader_of(cluster)
        status, _ = leader.agent.call("PUT", "/v1/kv/a", b"1")
        assert status == http.client.OK
        last, *others = servers_of(cluster)
        assert until(lambda: last.ask("/v1/kv/a?stale&raw") == b"1", within_s=ELECTED_S_MAX)
        for member in others:
            member.kill()
        status, body = last.agent.call("PUT", "/v1/kv/a", b"2", timeout_s=CALL_S)
        assert status == http.client.INTERNAL_SERVER_ERROR
        assert body == b"No cluster leader" or body.startswith(b"it may have been done")
        assert last.ask("/v1/kv/a?stale&raw") == b"1"
        for member in others:
            member.restart()
        leader_of(cluster)
        assert until(lambda: last.ask("/v1/kv/a?raw") in (b"1", b"2"), within_s=ELECTED_S_MAX)
