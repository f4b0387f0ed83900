"""Three agents on loopback: each answers for all of them, and each entry is changed by its owner alone."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from functools import partial

import pytest

from tests.system.agents import adsum_program, until
from tests.system.clusters import Cluster, Member, gathered, loopbacks

SHOWN_S_MAX = 10.0
GONE_S_MAX = 30.0
LONG = "the pool of connections is empty; " * 20
WEB = {
    "ID": "web1",
    "Name": "web",
    "Tags": ["blue"],
    "EnableTagOverride": True,
    "Check": {"TTL": "10m", "CheckID": "alive"},
}


@pytest.fixture(params=[False, True], ids=["open", "encrypted"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The second one offers a service whose check has failed at length."""
    config = {"encrypt": "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="} if request.param else {}
    with gathered(adsum_program(), loopbacks(3), config) as cluster:
        cluster.wait_for_one_view()
        owner = cluster.members[1]
        assert owner.put("/v1/agent/service/register", WEB)[0] == 200
        assert owner.put("/v1/agent/check/update/alive", {"Status": "critical", "Output": LONG})[0] == 200
        for member in cluster.members:
            assert until(partial(shows, member, LONG[:96]), within_s=SHOWN_S_MAX)
        yield cluster


def instances(member: Member, query: str = "") -> list[dict[str, object]]:
    found: list[dict[str, object]] = member.agent.get_json(f"/v1/health/service/web?{query}")
    return found


def output(member: Member, query: str = "") -> str:
    rows = member.agent.get_json(f"/v1/health/checks/web?{query}")
    return "".join(row["Output"] for row in rows)


def shows(member: Member, expected: str) -> bool:
    return output(member).startswith(expected)


def headers(member: Member, target: str) -> dict[str, str]:
    url = f"http://127.0.0.1:{member.place.ports.http}{target}"
    with urllib.request.urlopen(url, timeout=10) as response:
        return dict(response.headers)


def adsum(member: Member, *words: str) -> tuple[int, str]:
    environment = os.environ | {"CONSUL_HTTP_ADDR": f"127.0.0.1:{member.place.ports.http}"}
    command = [*adsum_program().command[:1], *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=30)
    return done.returncode, done.stdout


def test_owners_are_asked_for_what_is_theirs(cluster: Cluster) -> None:
    server, owner, third = cluster.members

    # Whole outputs come from where the check runs.
    assert output(third) == LONG[:96]
    assert output(third, "output=full") == LONG
    assert adsum(server, "health", "web", "-full-output", "-o=json")[1].count(LONG.strip()) == 1

    # Answers that say how old they may be, and answers compared with others first.
    assert headers(third, "/v1/health/service/web")["X-Consul-Lastcontact"].isdigit()
    assert "X-Adsum-Stale" not in headers(third, "/v1/health/service/web")
    for _ in range(5):
        assert len(instances(third, "consistent")) == 1

    # Two copies that agree, and what is in them.
    assert until(lambda: adsum(server, "catalog", "diff", third.name)[0] == 0, within_s=SHOWN_S_MAX)
    rows = {row["Node"]: row for row in json.loads(adsum(server, "catalog", "owners", "-o=json")[1])}
    assert {name: row["Complete"] for name, row in rows.items()} == dict.fromkeys(cluster.names, True)
    assert rows[owner.name]["Items"] == 4

    # Tags by somebody else, and then the end of the service.
    green = {"Node": owner.name, "Service": {"ID": "web1", "Service": "web", "Tags": ["green"]}}
    assert third.put("/v1/catalog/register", green) == (200, b"true")
    assert owner.agent.get_json("/v1/agent/service/web1")["Tags"] == ["green"]
    assert third.put("/v1/catalog/deregister", {"Node": owner.name, "ServiceID": "web1"}) == (200, b"true")
    assert owner.agent.get_json("/v1/agent/services") == {}
    for member in cluster.members:
        assert until(lambda member=member: instances(member) == [], within_s=SHOWN_S_MAX)  # type: ignore[misc]  # of the loop

    # A dead owner can be asked nothing, and its node be taken off.
    owner.kill()
    assert until(
        lambda: third.put("/v1/catalog/deregister", {"Node": owner.name, "ServiceID": "x"})[0] == 500,
        within_s=GONE_S_MAX,
    )
    assert until(
        lambda: third.put("/v1/catalog/deregister", {"Node": owner.name})[0] == 200, within_s=GONE_S_MAX
    )
    assert until(
        lambda: owner.name not in json.dumps(server.agent.get_json("/v1/catalog/nodes")), within_s=SHOWN_S_MAX
    )
