from __future__ import annotations

import json

import pytest

from tests.agent.cli.conftest import Adsum
from tests.agent.cli.fake_agent import FakeAgent


def member(name: str, addr: str, status: int = 1, **tags: str) -> dict[str, object]:
    tags = {"role": "node", "build": "1.8.7:abc", "vsn": "2", "dc": "dc1", "id": "u-1", **tags}
    return {"Name": name, "Addr": addr, "Port": 8301, "Status": status, "Tags": tags}


@pytest.fixture
def three(agent: FakeAgent) -> FakeAgent:
    agent.answers["GET /v1/agent/members"] = [
        member("c1", "10.0.0.2", 4),
        member("n2", "fd00::1", role="consul"),
        member("n1", "127.0.0.1", role="consul"),
    ]
    return agent


def test_members_are_listed_as_consul_lists_them(adsum: Adsum, three: FakeAgent) -> None:
    """Literal: columns, order and gaps as real Consul printed them."""
    assert adsum("members") == (
        0,
        (
            "Node  Address         Status  Type    Build  Protocol  DC   Segment\n"
            "n1    127.0.0.1:8301  alive   server  1.8.7  2         dc1  <all>\n"
            "n2    [fd00::1]:8301  alive   server  1.8.7  2         dc1  <all>\n"
            "c1    10.0.0.2:8301   failed  client  1.8.7  2         dc1  <default>\n"
        ),
        "",
    )
    assert three.asked[0].query == {"segment": "_all"}


def test_members_are_chosen_by_a_regular_expression_and_none_is_exit_status_2(
    adsum: Adsum, three: FakeAgent
) -> None:
    assert [line.split()[0] for line in adsum("members", "-status=^fail").out.splitlines()] == ["Node", "c1"]
    status, out, err = adsum("members", "-status", "left")
    assert (status, out, err) == (2, "", "No member is like that.\n")
    assert adsum("members", "-status=[").status == 2


def test_detailed_members_show_their_tags(adsum: Adsum, three: FakeAgent) -> None:
    lines = adsum("members", "-detailed").out.splitlines()
    assert lines[0].split() == ["Node", "Address", "Status", "Tags"]
    assert lines[1].split()[-1] == "build=1.8.7:abc,dc=dc1,id=u-1,role=consul,segment=<all>,vsn=2"


def test_members_as_json_keep_their_keys(adsum: Adsum, three: FakeAgent) -> None:
    first = json.loads(adsum("members", "-o=jsonl").out.splitlines()[0])
    assert list(first) == [
        *("Node", "Address", "Status", "Type", "Build", "Protocol", "DC", "Segment", "ID", "Tags"),
    ]
    assert first["Status"] == "alive"


def test_the_wide_area_pool_is_asked_for(adsum: Adsum, three: FakeAgent) -> None:
    adsum("members", "-wan")
    assert three.asked[0].query == {"segment": "_all", "wan": "1"}
