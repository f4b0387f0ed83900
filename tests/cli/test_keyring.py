"""Keys of gossip from the command line, in Consul's words."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Adsum
from tests.cli.fake_agent import FakeAgent

PATH = "/v1/operator/keyring"


@pytest.fixture
def pools(agent: FakeAgent) -> FakeAgent:
    wide = {"WAN": True, "Datacenter": "dc1", "Segment": "", "Keys": {"b=": 1}, "PrimaryKeys": {"b=": 1}}
    local = {"WAN": False, "Datacenter": "dc1", "Segment": "", "Keys": {"b=": 3, "a=": 2}}
    agent.answers[f"GET {PATH}"] = [
        {**wide, "NumNodes": 1},
        {**local, "PrimaryKeys": {"b=": 3}, "NumNodes": 3},
    ]
    return agent


def test_keys_are_listed_as_consul_lists_them(adsum: Adsum, pools: FakeAgent) -> None:
    """Literal, of a server of Consul's; our own has no pool across datacenters."""
    assert adsum("keyring", "-list").out == (
        "==> Gathering installed encryption keys...\n"
        "\nWAN:\n  b= [1/1]\n"
        "\ndc1 (LAN):\n  a= [2/3]\n  b= [3/3]\n"
    )
    assert adsum("keyring", "-list-primary").out == (
        "==> Gathering installed primary encryption keys...\n\nWAN:\n  b= [1/1]\n\ndc1 (LAN):\n  b= [3/3]\n"
    )


def test_keys_as_json_are_what_the_agent_says(adsum: Adsum, pools: FakeAgent) -> None:
    listed = json.loads(adsum("keyring", "-list", "-o=json", "-local-only").out)
    assert [pool["NumNodes"] for pool in listed] == [1, 3]
    assert pools.asked[0].query == {"local-only": "true"}


@pytest.mark.parametrize(
    ("word", "method", "heading"),
    [
        ("install", "POST", "==> Installing new gossip encryption key...\n"),
        ("use", "PUT", "==> Changing primary gossip encryption key...\n"),
        ("remove", "DELETE", "==> Removing gossip encryption key...\n"),
    ],
)
def test_each_change_is_its_method(
    adsum: Adsum, agent: FakeAgent, word: str, method: str, heading: str
) -> None:
    agent.answers[f"{method} {PATH}"] = (200, "")
    assert adsum("keyring", f"-{word}", "k=", "-relay-factor=2") == (0, heading, "")
    assert agent.asked[0].json() == {"Key": "k="}
    assert agent.asked[0].query == {"relay-factor": "2"}


def test_a_refusal_names_every_member_and_fails(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers[f"PUT {PATH}"] = (500, "2 errors occurred:\n\t* dc1 (LAN) error: 1/3\n\t* web: no\n\n")
    status, _, err = adsum("keyring", "-use=k=")
    assert status == 1
    assert "* web: no" in err


@pytest.mark.parametrize(
    "words", [[], ["-list", "-use=k="], ["-install=k=", "-local-only"], ["-list", "-relay-factor=9"], ["x"]]
)
def test_one_thing_is_asked_for_at_a_time(adsum: Adsum, agent: FakeAgent, words: list[str]) -> None:
    assert adsum("keyring", *words).status == 2
    assert agent.asked == []
