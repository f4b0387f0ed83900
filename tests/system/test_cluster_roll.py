"""Three agents on loopback: what one is told, the others list. Both command lines, ours and Consul's, show
the same of it.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from functools import partial

import pytest

from tests.system.agents import adsum_program, consul_program, until
from tests.system.clusters import Cluster, Member, Status, gathered, loopbacks

KEY = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
OTHER = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="
KEYRING = "/v1/operator/keyring"
HEARD_S_MAX = 10.0
FAILED_S_MAX = 20.0
# Each member probes one other a second, and needs an answer to know where it is.
PLACED_S_MAX = 30.0
ADSUM = adsum_program().command[0]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with gathered(adsum_program(), loopbacks(3), {"encrypt": KEY}) as cluster:
        cluster.wait_for_one_view()
        yield cluster


@pytest.fixture(scope="module")
def consul() -> str:
    program = consul_program()
    if program is None:
        pytest.skip("real Consul is not here: set PEERS, or run the script that unpacks it")
    return program.command[0]


def call(member: Member, program: str, *words: str) -> tuple[int, str, str]:
    environment = os.environ | {"CONSUL_HTTP_ADDR": f"127.0.0.1:{member.place.ports.http}"}
    done = subprocess.run([program, *words], capture_output=True, text=True, env=environment, timeout=30)
    return done.returncode, done.stdout, done.stderr


# Events.


def payloads(member: Member, name: str) -> list[str]:
    return [event["Payload"] for event in member.agent.get_json(f"/v1/event/list?name={name}")]


def fire(member: Member, target: str, payload: bytes = b"") -> None:
    status, _ = member.agent.call("PUT", f"/v1/event/fire/{target}", payload)
    assert status == 200


def test_an_event_is_listed_once_by_every_agent_and_in_each_with_the_same_id(cluster: Cluster) -> None:
    fire(cluster.members[1], "deploy", b"v7")
    for member in cluster.members:
        assert until(partial(payloads, member, "deploy"), within_s=HEARD_S_MAX) == ["djc="]
    fire(cluster.members[2], "after")  # what would be told twice has been told by then
    for member in cluster.members:
        assert until(partial(payloads, member, "after"), within_s=HEARD_S_MAX)
    ids = {member.agent.get_json("/v1/event/list?name=deploy")[0]["ID"] for member in cluster.members}
    assert len(ids) == 1
    assert all(payloads(member, "deploy") == ["djc="] for member in cluster.members)


def test_who_is_meant_decides_where_an_event_is_listed(cluster: Cluster) -> None:
    first, second, _ = cluster.members
    second.put("/v1/agent/service/register", {"Name": "web", "ID": "web1", "Tags": ["blue"]})
    fire(first, "for-third?node=m02")
    fire(first, "for-web?service=%5Eweb&tag=blue")
    fire(first, "for-all")
    for member in cluster.members:
        assert until(partial(payloads, member, "for-all"), within_s=HEARD_S_MAX)
    assert [len(payloads(member, "for-third")) for member in cluster.members] == [0, 0, 1]
    assert [len(payloads(member, "for-web")) for member in cluster.members] == [0, 1, 0]


def test_consul_s_watch_wakes_on_an_event_fired_elsewhere(cluster: Cluster, consul: str) -> None:
    first, second, _ = cluster.members
    fire(first, "watched", b"now")
    assert until(partial(payloads, second, "watched"), within_s=HEARD_S_MAX)
    status, out, err = call(second, consul, "watch", "-type=event", "-name=watched")
    assert (status, err) == (0, "")
    assert [event["Payload"] for event in json.loads(out)] == ["bm93"]


# Keyrings.


def held(member: Member) -> dict[str, int]:
    (pool,) = member.agent.get_json(KEYRING)
    keys: dict[str, int] = pool["Keys"]
    return keys


def change(member: Member, method: str, key: str) -> tuple[int, str]:
    status, body = member.agent.call(method, KEYRING, json.dumps({"Key": key}).encode())
    return status, body.decode()


def test_a_key_is_used_only_once_all_hold_it_and_the_one_without_is_named(cluster: Cluster) -> None:
    first, second, third = cluster.members
    assert change(second, "POST", OTHER) == (200, "")
    assert held(first) == {KEY: 3, OTHER: 3}
    third.pause()
    try:
        status, sentence = change(first, "PUT", OTHER)
    finally:
        third.resume()
    assert status == 500
    assert "dc1 (LAN) error: 1/3 nodes reported failure" in sentence
    assert "* m02: " in sentence
    assert KEY not in sentence
    assert until(cluster.has_one_view, within_s=HEARD_S_MAX)
    status, sentence = change(first, "DELETE", KEY)
    assert (status, sentence.count("this is its primary key")) == (500, 3)
    assert change(first, "DELETE", OTHER) == (200, "")
    assert held(third) == {KEY: 3}


def test_keys_are_in_no_log(cluster: Cluster) -> None:
    change(cluster.members[0], "POST", OTHER)
    change(cluster.members[0], "DELETE", OTHER)
    for member in cluster.members:
        assert KEY not in member.agent.log()
        assert OTHER not in member.agent.log()


# Command lines.


@pytest.mark.parametrize(
    "words",
    [
        ["members"],
        ["members", "-detailed"],
        ["members", "-wan"],
        ["members", "-status=alive"],
        ["keyring", "-list"],
        ["keyring", "-list-primary"],
        ["keyring", "-list", "-local-only"],
        ["rtt", "m00", "m00"],
        ["catalog", "nodes", "-near=m01"],
        ["catalog", "datacenters"],
    ],
    ids=" ".join,
)
def test_both_command_lines_show_the_same(cluster: Cluster, consul: str, words: list[str]) -> None:
    server = cluster.members[0]
    ours, theirs = (comparable(call(server, program, *words)) for program in (ADSUM, consul))
    assert ours == theirs
    assert ours[0] == 0


def comparable(outcome: tuple[int, str, str]) -> tuple[int, list[str]]:
    """Blanks at a line's end mean nothing; where everybody is moves between two calls."""
    status, out, _ = outcome
    return status, [line.rstrip().partition(" rtt: ")[0] for line in out.splitlines()]


def test_both_command_lines_change_keys_and_fire_events(cluster: Cluster, consul: str) -> None:
    for program in (ADSUM, consul):
        for word, headline in (("-install", "Installing new"), ("-use", "Changing primary")):
            status, out, err = call(cluster.members[0], program, "keyring", f"{word}={OTHER}")
            assert (status, headline in out, err) == (0, True, "")
        assert call(cluster.members[0], program, "keyring", f"-use={KEY}")[0] == 0
        assert call(cluster.members[0], program, "keyring", f"-remove={OTHER}")[0] == 0
        status, out, _ = call(cluster.members[0], program, "event", "-name=shell", "done")
        assert (status, out.startswith("Event ID: ")) == (0, True)
    found = partial(has_events, cluster.members[2], "shell", 2)
    assert until(found, within_s=HEARD_S_MAX)


def has_events(member: Member, name: str, count: int) -> bool:
    return len(payloads(member, name)) == count


def test_round_trips_between_any_two_are_estimated(cluster: Cluster) -> None:
    def is_known() -> bool:
        return call(cluster.members[0], ADSUM, "rtt", "m01", "m02")[0] == 0

    assert until(is_known, within_s=PLACED_S_MAX)
    _, out, _ = call(cluster.members[0], ADSUM, "rtt", "m01", "m02")
    assert out.startswith("Estimated m01 <-> m02 rtt: ")


# Coming and going.


def test_an_agent_joins_by_the_command_line_fails_and_is_declared_gone(cluster: Cluster) -> None:
    first = cluster.members[0]
    stranger = cluster.add(loopbacks(1)[0], {"encrypt": KEY}, name="stranger")
    try:
        assert until(stranger.view, within_s=HEARD_S_MAX)
        address = f"localhost:{first.place.ports.serf_lan}"
        assert call(stranger, ADSUM, "join", address)[:2] == (
            0,
            "Successfully joined cluster by contacting 1 nodes.\n",
        )
        assert until(cluster.has_one_view, within_s=HEARD_S_MAX)
    finally:
        stranger.close()
        cluster.members.remove(stranger)
    assert until(partial(is_seen_as, first, "stranger", Status.FAILED), within_s=FAILED_S_MAX)
    assert call(first, ADSUM, "force-leave", "stranger") == (0, "", "")
    for member in cluster.members:
        assert until(partial(is_seen_as, member, "stranger", Status.LEFT), within_s=HEARD_S_MAX)
    assert call(first, ADSUM, "force-leave", "-prune", "stranger")[0] == 0
    for member in cluster.members:
        assert until(partial(is_seen_as, member, "stranger", None), within_s=HEARD_S_MAX)


def test_a_leave_is_answered_when_all_the_others_know(cluster: Cluster) -> None:
    first = cluster.members[0]
    join = {"retry_join": [f"127.0.0.1:{first.place.ports.serf_lan}"]}
    leaver = cluster.add(loopbacks(1)[0], {"encrypt": KEY, **join}, name="leaver")
    try:
        assert until(partial(is_seen_as, first, "leaver", Status.ALIVE), within_s=HEARD_S_MAX)
        assert until(cluster.has_one_view, within_s=HEARD_S_MAX)
        assert leaver.put("/v1/agent/leave") == (200, b"")
        others = [member for member in cluster.members if member is not leaver]
        assert [member.view()["leaver"] for member in others] == [Status.LEFT] * len(others)
    finally:
        leaver.close()
        cluster.members.remove(leaver)
    assert call(first, ADSUM, "force-leave", "-prune", "leaver")[0] == 0


def is_seen_as(member: Member, name: str, status: Status | None) -> bool:
    return member.view().get(name) == status


def test_clients_know_the_leader_until_it_is_gone(cluster: Cluster) -> None:
    """The last of them: it takes the server away."""
    server, client, _ = cluster.members
    address = f"127.0.0.1:{server.place.ports.server}"
    assert [member.agent.get_json("/v1/status/leader") for member in cluster.members] == [address] * 3
    server.kill()
    assert until(partial(is_seen_as, client, "m00", Status.FAILED), within_s=FAILED_S_MAX)
    assert client.agent.get_json("/v1/status/leader") == ""
