from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Adsum
from tests.cli.fake_agent import FakeAgent

REGISTER = "PUT /v1/agent/service/register"


@pytest.fixture
def taking(agent: FakeAgent) -> FakeAgent:
    agent.answers[REGISTER] = (200, "")
    for service_id in ("x2", "web", "batman/pg0"):
        agent.answers[f"PUT /v1/agent/service/deregister/{service_id}"] = (200, "")
    return agent


def service(service_id: str, name: str, **fields: object) -> dict[str, object]:
    return {"ID": service_id, "Service": name, "Tags": [], "Meta": {}, "Address": "", "Port": 0, **fields}


def check(check_id: str, service_id: str, status: str) -> dict[str, object]:
    return {"CheckID": check_id, "ServiceID": service_id, "Status": status}


def test_registering_by_flags(adsum: Adsum, taking: FakeAgent) -> None:
    words = (
        "-name=cli1 -id=x2 -port=80 -address=10.0.0.1 -tag=a -tag=b -meta=k=v=w -tagged-address=lan=[::1]:81"
    )
    assert adsum("services", "register", *words.split()) == (0, "Registered service: cli1\n", "")
    assert taking.asked[0].json() == {
        "ID": "x2",
        "Name": "cli1",
        "Port": 80,
        "Address": "10.0.0.1",
        "Tags": ["a", "b"],
        "Meta": {"k": "v=w"},
        "TaggedAddresses": {"lan": {"Address": "::1", "Port": 81}},
    }


def test_only_what_was_given_is_sent(adsum: Adsum, taking: FakeAgent) -> None:
    adsum("services", "register", "-name=web")
    assert taking.asked[0].json() == {"Name": "web"}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("", "give files, or flags with at least -name"),
        ("web.json -name=x", "give files, or flags with at least -name"),
        ("-port=80", "-name is missing"),
        ("-name=x -port=http", '-port needs a port from 1 to 65535, not "http"'),
        ("-name=x -port=70000", "-port needs a port"),
        ("-name=x -meta=k", '-meta needs name=value, not "k"'),
        ("-name=x -tagged-address=lan=h", "-tagged-address needs name=host:port"),
    ],
)
def test_bad_flags_are_a_matter_of_usage(adsum: Adsum, taking: FakeAgent, words: str, complaint: str) -> None:
    status, _, err = adsum("services", "register", *words.split())
    assert status == 2
    assert complaint in err
    assert taking.asked == []


def test_registering_from_a_file_of_the_configuration_s_form(
    adsum: Adsum, taking: FakeAgent, tmp_path: Path
) -> None:
    file = tmp_path / "web.json"
    one = {"name": "web", "check": {"http": "http://localhost", "interval": "10s"}}
    file.write_text(json.dumps({"service": one, "services": [{"Name": "two"}, {"id": "3", "name": "three"}]}))
    status, out, _ = adsum("services", "register", str(file))
    assert (status, out.splitlines()) == (
        0,
        ["Registered service: web", "Registered service: two", "Registered service: three"],
    )
    assert taking.asked[0].json() == one


def test_registering_from_toml_and_from_the_standard_input(
    adsum: Adsum, taking: FakeAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "web.toml"
    file.write_text('[service]\nname = "web"\nport = 80\n')
    assert adsum("services", "register", str(file)).out == "Registered service: web\n"
    monkeypatch.setattr("sys.stdin", io.StringIO('{"service": {"name": "db"}}'))
    assert adsum("services", "register", "-").out == "Registered service: db\n"


def test_with_one_bad_file_nothing_is_registered(adsum: Adsum, taking: FakeAgent, tmp_path: Path) -> None:
    (tmp_path / "good.json").write_text('{"service": {"name": "web"}}')
    (tmp_path / "bare.json").write_text('{"Name": "web"}')
    (tmp_path / "unnamed.json").write_text('{"service": {"port": 1}}')
    (tmp_path / "broken.json").write_text("{")
    names = ("good.json", "bare.json", "unnamed.json", "broken.json", "absent.json")
    status, out, err = adsum("services", "register", *(str(tmp_path / name) for name in names))
    assert (status, out) == (1, "")
    assert "bare.json: holds no service" in err
    assert "unnamed.json: holds a service without a name" in err
    assert "broken.json" in err
    assert "absent.json" in err
    assert taking.asked == []


def test_a_refused_registration_is_told_in_the_agent_s_words(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers[REGISTER] = (400, "Invalid service address")
    assert adsum("services", "register", "-name=x", "-address=::") == (
        1,
        "",
        "adsum: Invalid service address\n",
    )


def test_deregistering_by_id_and_by_file(adsum: Adsum, taking: FakeAgent, tmp_path: Path) -> None:
    file = tmp_path / "web.json"
    file.write_text('{"services": [{"name": "web"}, {"name": "any", "id": "batman/pg0"}]}')
    assert adsum("services", "deregister", "-id=x2").out == "Deregistered service: x2\n"
    assert adsum("services", "deregister", str(file)).out == (
        "Deregistered service: web\nDeregistered service: batman/pg0\n"
    )


def test_an_id_where_a_file_belongs_is_told_where_it_goes(adsum: Adsum, taking: FakeAgent) -> None:
    status, _, err = adsum("services", "deregister", "x2")
    assert status == 2
    assert "there is no file x2; a service's id goes with -id=x2" in err
    assert adsum("services", "deregister").status == 2


def test_own_services_are_listed_with_the_worst_of_their_checks(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["GET /v1/agent/services"] = {
        "web2": service("web2", "web", Address="10.0.0.2", Port=81, Tags=["b", "a"]),
        "web": service("web", "web", Port=80),
        "db": service("db", "db"),
    }
    agent.answers["GET /v1/agent/checks"] = {
        "1": check("1", "web", "warning"),
        "2": check("2", "web", "critical"),
        "3": check("3", "web2", "passing"),
        "4": check("_service_maintenance:db", "db", "critical"),
        "5": check("disk", "", "critical"),
    }
    status, out, _ = adsum("services", "list")
    assert status == 0
    assert out == (
        "Service  ID    Address      Status       Checks  Tags\n"
        "db       db                 maintenance  1\n"
        "web      web   :80          critical     2\n"
        "web      web2  10.0.0.2:81  passing      1       b,a\n"
    )
    row = json.loads(adsum("services", "list", "-o=jsonl").out.splitlines()[2])
    assert row == {
        "Service": "web",
        "ID": "web2",
        "Address": "10.0.0.2",
        "Port": 81,
        "Status": "passing",
        "Checks": 1,
        "Tags": ["b", "a"],
        "Meta": {},
    }


def test_an_empty_list_says_how_to_fill_it(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["GET /v1/agent/services"] = agent.answers["GET /v1/agent/checks"] = {}
    status, out, err = adsum("services", "list")
    assert (status, out) == (0, "")
    assert "adsum services register -h" in err
    assert adsum("services", "list", "-o=json").out == "[]\n"
