from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Adsum
from tests.cli.fake_agent import FakeAgent


def instance(service_id: str, *checks: tuple[str, str, str], address: str = "") -> dict[str, object]:
    return {
        "Node": {"Node": "n1", "Address": "127.0.0.1"},
        "Service": {"ID": service_id, "Service": "web", "Address": address, "Port": 80},
        "Checks": [
            {"CheckID": check_id, "Name": check_id, "Status": status, "Notes": "why", "Output": output}
            for check_id, status, output in checks
        ],
    }


@pytest.fixture
def two(agent: FakeAgent) -> FakeAgent:
    agent.answers["GET /v1/catalog/services"] = {"web": ["a"], "db": []}
    agent.answers["GET /v1/health/service/db"] = [instance("db", ("alive", "passing", ""))]
    agent.answers["GET /v1/health/service/web"] = [
        instance("web1", ("serfHealth", "passing", "Agent alive"), ("http", "critical", "refused\nat once")),
        instance("web2", address="fd00::2"),
        instance("web3", ("http", "warning", "429")),
        instance("web4", ("_node_maintenance", "critical", "")),
    ]
    agent.answers["GET /v1/health/service/wbe"] = []
    return agent


def test_services_are_counted_by_state(adsum: Adsum, two: FakeAgent) -> None:
    assert adsum("health") == (
        1,
        (
            "Service  Instances  Passing  Warning  Critical\n"
            "db       1          1        0        0\n"
            "web      4          1        1        2\n"
        ),
        "",
    )


def test_all_passing_is_exit_status_0(adsum: Adsum, two: FakeAgent) -> None:
    assert adsum("health", "db").status == 0
    del two.answers["GET /v1/health/service/web"]
    two.answers["GET /v1/catalog/services"] = {"db": []}
    assert adsum("health").status == 0


def test_one_service_shows_instances_checks_and_the_first_line_of_output(
    adsum: Adsum, two: FakeAgent
) -> None:
    assert adsum("health", "web") == (
        1,
        (
            "Instance  Node  Address       Check              Status    Output\n"
            "web1      n1    127.0.0.1:80  serfHealth         passing   Agent alive\n"
            "                              http               critical  refused\n"
            "web2      n1    [fd00::2]:80  (none)             passing\n"
            "web3      n1    127.0.0.1:80  http               warning   429\n"
            "web4      n1    127.0.0.1:80  _node_maintenance  critical  why\n"
        ),
        "",
    )


def test_as_json_an_instance_holds_its_checks(adsum: Adsum, two: FakeAgent) -> None:
    status, out, _ = adsum("health", "web", "-o=json")
    rows = json.loads(out)
    assert status == 1
    assert [row["Status"] for row in rows] == ["critical", "passing", "warning", "maintenance"]
    assert rows[0]["Checks"][1]["Output"] == "refused\nat once"


def test_a_long_line_is_cut_in_a_table_and_whole_when_wide(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["GET /v1/health/service/web"] = [instance("web1", ("http", "passing", "x" * 150))]
    assert "x" * 101 not in adsum("health", "web").out
    assert "x" * 150 in adsum("health", "web", "-o=wide").out


def test_whole_outputs_are_asked_for_and_shown_whole(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["GET /v1/health/service/web"] = [instance("web1", ("http", "passing", "x" * 300))]
    assert "x" * 300 in adsum("health", "web", "-full-output").out
    assert agent.asked[0].query["output"] == "full"


def test_every_line_of_a_whole_output_is_shown(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["GET /v1/health/service/web"] = [
        instance("web1", ("http", "critical", "refused\n  first\x1b[2J\n\nlast\n"), ("disk", "passing", ""))
    ]
    for form in ("table", "wide"):
        assert adsum("health", "web", "-full-output", f"-o={form}") == (
            1,
            (
                "Instance  Node  Address       Check  Status    Output\n"
                "web1      n1    127.0.0.1:80  http   critical  refused\n"
                "                                                 first\\x1b[2J\n"
                "\n"
                "                                               last\n"
                "                              disk   passing\n"
            ),
            "",
        )


@pytest.mark.parametrize("form", ["table", "json"])
def test_whose_outputs_could_not_be_fetched_is_said(adsum: Adsum, agent: FakeAgent, form: str) -> None:
    agent.answers["GET /v1/health/service/web"] = [instance("web1", ("http", "passing", "x"))]
    agent.headers["GET /v1/health/service/web"] = {
        "X-Adsum-Output": "partial",
        "X-Adsum-Output-Missing": "n2, n%C3%A9, 3 more",
    }
    assert adsum("health", "web", "-full-output", f"-o={form}").err == (
        "Whole outputs could not be fetched from n2, né, 3 more: what is shown of theirs is what every agent "
        "knows. Try again, or ask the agent there with -http-addr.\n"
    )


def test_whole_outputs_are_those_of_one_service(adsum: Adsum, two: FakeAgent) -> None:
    status, out, err = adsum("health", "-full-output")
    assert (status, out) == (2, "")
    assert "-full-output is for the checks of one service: adsum health SERVICE -full-output\n" in err
    assert two.asked == []


def test_an_unknown_service_is_exit_status_3_with_the_nearest(adsum: Adsum, two: FakeAgent) -> None:
    assert adsum("health", "wbe") == (3, "", "adsum: no instance of wbe is registered; did you mean web?\n")


def test_the_datacenter_is_passed_on(adsum: Adsum, two: FakeAgent) -> None:
    adsum("health", "db", "-datacenter=dc2", "-stale")
    assert two.asked[0].query == {"dc": "dc2", "stale": "1"}
