"""User events from the command line."""

from __future__ import annotations

from tests.cli.conftest import Adsum
from tests.cli.fake_agent import FakeAgent

FIRED = {"ID": "4f0fe767-9d52-49cb-ba13-a86df42477fd", "Name": "deploy"}


def test_an_event_is_fired_with_its_filters_and_its_id_shown(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["PUT /v1/event/fire/deploy"] = FIRED
    words = ["-name=deploy", "-node=^n", "-service=web", "-tag=blue", "v7"]
    assert adsum("event", *words) == (0, f"Event ID: {FIRED['ID']}\n", "")
    assert agent.asked[0].query == {"node": "^n", "service": "web", "tag": "blue"}
    assert agent.asked[0].body == b"v7"


def test_a_payload_is_optional_and_may_be_a_dash(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["PUT /v1/event/fire/a/b"] = FIRED
    adsum("event", "-name=a/b")
    adsum("event", "-name", "a/b", "-")
    assert [asked.body for asked in agent.asked] == [b"", b"-"]


def test_what_cannot_be_fired_is_not_sent(adsum: Adsum, agent: FakeAgent) -> None:
    filters = (["-name=x", "-node=("], ["-name=x", "-service=*"], ["-name=x", "-service=a", "-tag=["])
    for words in (["payload"], ["-name=x", "-tag=y"], ["-name=x", "one", "two"], *filters):
        assert adsum("event", *words).status == 2
    assert "-node is no regular expression: " in adsum("event", "-name=x", "-node=(").err
    assert agent.asked == []


def test_the_agent_s_refusal_is_shown(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["PUT /v1/event/fire/x"] = (500, "No path to datacenter")
    assert adsum("event", "-name=x", "-datacenter=y") == (1, "", "adsum: No path to datacenter\n")
