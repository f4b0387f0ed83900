from __future__ import annotations

import json

from tests.cli.conftest import Adsum
from tests.cli.fake_agent import FakeAgent

PATH = "/v1/operator/raft/configuration"
N1 = {"ID": "u-1", "Node": "n1", "Address": "10.0.0.1:8300", "ProtocolVersion": "3"}
FOUND = {
    "Servers": [
        {**N1, "Leader": True, "Voter": True, "LastIndex": 7},
        {**N1, "ID": "u-22", "Node": "n22", "Leader": False, "Voter": False},
    ],
    "Index": 0,
}


def test_peers_are_listed_as_consul_lists_them(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers[f"GET {PATH}"] = FOUND
    assert adsum("operator", "raft", "list-peers", "-stale") == (
        0,
        (
            "Node  ID    Address        State     Voter  RaftProtocol\n"
            "n1    u-1   10.0.0.1:8300  leader    true   3\n"
            "n22   u-22  10.0.0.1:8300  follower  false  3\n"
        ),
        "",
    )
    assert agent.asked[0].query == {"stale": "1"}
    wide = adsum("operator", "raft", "list-peers", "-o=wide").out.splitlines()
    assert [line.split()[-1] for line in wide] == ["LastIndex", "7", "3"]
    assert json.loads(adsum("operator", "raft", "list-peers", "-o=json").out) == FOUND["Servers"]


def test_what_cannot_be_done_to_peers_yet_is_a_matter_of_usage(adsum: Adsum, agent: FakeAgent) -> None:
    status, _, err = adsum("operator", "raft", "remove-peer")
    assert status == 2
    assert 'there is list-peers, and not "remove-peer" yet' in err
    assert agent.asked == []


def test_a_refusal_says_why(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers[f"GET {PATH}"] = (500, "No cluster leader")
    agent.headers[f"GET {PATH}"] = {"X-Adsum-Reason": "an election is on"}
    assert adsum("operator", "raft", "list-peers") == (
        1,
        "",
        "adsum: No cluster leader: an election is on\n",
    )
