from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.cli.conftest import Adsum
from tests.cli.fake_agent import FakeAgent


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


def test_people_and_wide_tables_are_told_who_leads(
    adsum: Adsum, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.answers["GET /v1/agent/members"] = [
        member("n1", "127.0.0.1", role="consul", id="u-1"),
        member("c1", "127.0.0.2", id="u-2"),
    ]
    agent.answers["GET /v1/membership"] = {"Servers": [{"ID": "u-1", "Name": "n1", "Role": "leader"}]}
    assert "leader" not in adsum("members").out
    rows = [line.split() for line in adsum("members", "-o=wide").out.splitlines()]
    assert [row[-2:] for row in rows] == [["ID", "Role"], ["u-1", "leader"], ["<default>", "u-2"]]
    assert [row["Role"] for row in json.loads(adsum("members", "-o=json").out)] == ["leader", ""]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert adsum("members").out.splitlines()[1].endswith("  leader")


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
        *("Node", "Address", "Status", "Type", "Build", "Protocol", "DC", "Segment", "ID", "Tags", "Role"),
    ]
    assert first["Status"] == "alive"


def test_the_wide_area_pool_is_asked_for(adsum: Adsum, three: FakeAgent) -> None:
    adsum("members", "-wan")
    assert three.asked[0].query == {"segment": "_all", "wan": "1"}


def test_an_agent_that_is_not_let_in_says_so_beside_its_list(adsum: Adsum, three: FakeAgent) -> None:
    well = adsum("members")
    conflict = {"IsLetIn": False, "Sentence": "d itself is not let in.", "Next": "Give it another node_name."}
    three.answers["GET /v1/membership"] = {"Conflict": conflict}
    assert adsum("members") == (0, well.out, "d itself is not let in. Give it another node_name.\n")
    three.answers["GET /v1/membership"] = {"Conflict": conflict | {"IsLetIn": True}}
    assert adsum("members") == well


def test_an_agent_that_knows_its_list_to_be_old_says_so_beside_it(adsum: Adsum, three: FakeAgent) -> None:
    well = adsum("members")
    stale = {"Reason": "paused", "Sentence": "it stood still: ask again in a second"}
    three.answers["GET /v1/membership"] = {"Observer": "n1", "Conflict": None, "Stale": stale}
    sentence = "n1 may be out of date (paused): it stood still: ask again in a second.\n"
    assert adsum("members") == (0, well.out, sentence)
    three.answers["GET /v1/membership"] = {"Observer": "n1", "Conflict": None, "Stale": None}
    assert adsum("members") == well


def test_an_agent_whose_clock_is_wrong_says_so_beside_its_list(adsum: Adsum, three: FakeAgent) -> None:
    well = adsum("members")
    three.answers["GET /v1/membership"] = {"Clock": {"Sentence": "This host's clock is 3 days behind."}}
    assert adsum("members") == (0, well.out, "This host's clock is 3 days behind.\n")
    three.answers["GET /v1/membership"] = {"Clock": {"Sentence": ""}}
    assert adsum("members") == well


def test_an_agent_that_nobody_leads_says_so_below_its_list(adsum: Adsum, three: FakeAgent) -> None:
    well = adsum("members")
    three.answers["GET /v1/agent/self"] = {"Stats": {"consul": {"no_leader": "there are 2 servers"}}}
    assert adsum("members") == (0, well.out, "No leader: there are 2 servers.\n")
    three.answers["GET /v1/agent/self"] = {"Stats": {"consul": {"leader": "true"}}}
    assert adsum("members") == well


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """What happens in the seconds between two looks; after the last of them somebody presses Ctrl-C."""
    left: list[Callable[[], None]] = []

    def pause(_duration_s: float) -> None:
        if not left:
            raise KeyboardInterrupt
        left.pop(0)()

    monkeypatch.setattr("adsum.cli.members.time.sleep", pause)
    return left


def becomes(agent: FakeAgent, *members: dict[str, object]) -> Callable[[], None]:
    return lambda: agent.answers.update({"GET /v1/agent/members": list(members)})


def test_watching_in_a_pipe_tells_the_table_once_and_then_each_change(
    adsum: Adsum, agent: FakeAgent, seconds: list[Callable[[], None]]
) -> None:
    web, db = member("web", "10.0.0.2"), member("db", "10.0.0.3")
    becomes(agent, web)()
    seconds += [becomes(agent, web), becomes(agent, web, db), becomes(agent, {**web, "Status": 4})]
    status, out, err = adsum("members", "--watch")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["Node", "web"]
    assert [line.split("  ")[1:] for line in lines[2:]] == [
        ["db", "10.0.0.3:8301", "unknown -> alive"],
        ["db", "10.0.0.3:8301", "alive -> unknown"],
        ["web", "10.0.0.2:8301", "alive -> failed"],
    ]


def test_watching_as_json_is_a_line_for_each_member_and_then_for_each_change(
    adsum: Adsum, agent: FakeAgent, seconds: list[Callable[[], None]]
) -> None:
    web = member("web", "10.0.0.2")
    becomes(agent, web)()
    seconds += [becomes(agent, {**web, "Status": 4})]
    first, second = map(json.loads, adsum("members", "-watch", "-o=jsonl").out.splitlines())
    assert first["Status"] == "alive"
    assert (second["Node"], second["Was"], second["Status"]) == ("web", "alive", "failed")
    assert "-o=jsonl" in adsum("members", "-watch", "-o=json").err


def test_watching_on_a_terminal_draws_the_table_again(
    adsum: Adsum,
    agent: FakeAgent,
    seconds: list[Callable[[], None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    web = member("web", "10.0.0.2")
    becomes(agent, web)()
    seconds += [becomes(agent, {**web, "Status": 4})]
    _, first, second = adsum("members", "-watch").out.split("\x1b[H\x1b[2J")
    assert "web   10.0.0.2:8301  alive" in first
    assert "\n\n1 alive at " in first
    assert "\n\n1 failed at " in second


def test_watching_an_agent_that_ends_is_exit_status_4(
    adsum: Adsum, agent: FakeAgent, seconds: list[Callable[[], None]]
) -> None:
    becomes(agent, member("web", "10.0.0.2"))()
    seconds += [lambda: agent.answers.update({"GET /v1/agent/members": {"no": "list"}})]
    assert adsum("members", "-watch").status == 4
