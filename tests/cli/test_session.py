"""Sessions and transactions from the command line."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Adsum
from tests.cli.fake_agent import FakeAgent

ID = "6a0c4f0e-5f0b-4b1e-9d5c-0d3c1b2a9f01"
SESSION = {
    "ID": ID,
    "Name": "leader",
    "Node": "n1",
    "LockDelay": 15_000_000_000,
    "Behavior": "release",
    "TTL": "",
    "NodeChecks": ["serfHealth"],
    "ServiceChecks": [{"ID": "service:web", "Namespace": ""}],
    "CreateIndex": 12,
    "ModifyIndex": 12,
}
REFUSED = {"Results": None, "Errors": [{"OpIndex": 1, "What": 'key "a" exists'}]}


def test_what_is_asked_for_is_sent_and_the_id_is_printed(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["PUT /v1/session/create"] = {"ID": ID}
    assert adsum("session", "create") == (0, f"{ID}\n", "")
    words = ("-name=x", "-ttl=30s", "-behavior=delete", "-lock-delay=1s", "-node=n2", "-no-checks")
    assert adsum("session", "create", *words, "-service-check=a", "-service-check=b").status == 0
    assert [asked.json() for asked in agent.asked] == [
        {},
        {
            "Name": "x",
            "Node": "n2",
            "TTL": "30s",
            "LockDelay": "1s",
            "Behavior": "delete",
            "NodeChecks": [],
            "ServiceChecks": [{"ID": "a"}, {"ID": "b"}],
        },
    ]


def test_several_are_destroyed_and_renewed(adsum: Adsum, agent: FakeAgent) -> None:
    for verb in ("destroy", "renew"):
        for name in ("a", "b"):
            agent.answers[f"PUT /v1/session/{verb}/{name}"] = True
    done = "Success! Destroyed session: a\nSuccess! Destroyed session: b\n"
    assert adsum("session", "destroy", "a", "b") == (0, done, "")
    assert adsum("session", "renew", "a", "b").out.startswith("Success! Renewed session: a\n")


def test_renewing_one_that_is_gone_has_a_status_of_its_own(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers[f"PUT /v1/session/renew/{ID}"] = (404, f"Session id '{ID}' not found")
    assert adsum("session", "renew", ID) == (3, "", f"adsum: Session id '{ID}' not found\n")


def test_they_are_listed_all_or_those_of_a_node(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["GET /v1/session/list"] = agent.answers["GET /v1/session/node/n1"] = [SESSION]
    table = (
        "ID                                    Name    Node  TTL  Behavior\n"
        f"{ID}  leader  n1    -    release\n"
    )
    assert adsum("session", "list") == (0, table, "")
    assert adsum("session", "list", "-node=n1", "-stale") == (0, table, "")
    assert agent.asked[1].query == {"stale": "1"}


def test_one_is_shown_and_one_that_is_gone_is_not_found(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers[f"GET /v1/session/info/{ID}"] = [SESSION]
    assert adsum("session", "info", ID).out.splitlines()[-3:] == [
        "LockDelay    15s",
        "Checks       serfHealth,service:web",
        "CreateIndex  12",
    ]
    assert json.loads(adsum("session", "info", "-o=json", ID).out)["Name"] == "leader"
    agent.answers["GET /v1/session/info/gone"] = []
    status, _out, err = adsum("session", "info", "gone")
    assert (status, "`adsum explain gone`" in err) == (3, True)


# Transactions.


def test_operations_are_read_from_a_file_or_the_standard_input(
    adsum: Adsum, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    operations = b'[{"KV":{"Verb":"get","Key":"a"}}]'
    (tmp_path / "FILE").write_bytes(operations)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(operations)))
    agent.answers["PUT /v1/txn"] = {"Results": [{"KV": {"Key": "a"}}], "Errors": None}
    for word in ("FILE", "-"):
        status, out, _err = adsum("txn", word)
        assert (status, json.loads(out)) == (0, [{"KV": {"Key": "a"}}])
    assert [asked.body for asked in agent.asked] == [operations, operations]


def test_operations_that_failed_are_told_with_their_places(
    adsum: Adsum, agent: FakeAgent, tmp_path: Path
) -> None:
    (tmp_path / "f").write_bytes(b"[]")
    agent.answers["PUT /v1/txn"] = (409, json.dumps(REFUSED))
    expected = 'Error! Nothing was done:\n  operation 1: key "a" exists\n'
    assert adsum("txn", str(tmp_path / "f")) == (1, "", expected)


def test_a_lock_that_was_not_acquired_says_why(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["PUT /v1/kv/k"] = False
    agent.headers["PUT /v1/kv/k"] = {"X-Adsum-Reason": "session s-1 holds it"}
    expected = (1, "", "Error! Did not acquire lock\nsession s-1 holds it\n")
    assert adsum("kv", "put", "-acquire", "-session=x", "k") == expected


# Explained.

EXPLAINED = {
    "Observer": "n1",
    "ID": ID,
    "Status": "alive",
    "Summary": f"Session {ID} of node n1 has been alive for 2m and holds one key.",
    "Created": "2026-11-19T22:00:00.000Z",
    "Ends": ["somebody destroys it", "node n1 leaves or is deregistered"],
    "Ended": None,
    "Keys": ["a"],
    "KeysTotal": 3,
    "Session": SESSION,
}


def test_a_session_is_explained_by_what_it_holds_and_what_would_end_it(
    adsum: Adsum, agent: FakeAgent
) -> None:
    agent.answers[f"GET /v1/explain/session/{ID}"] = EXPLAINED
    status, out, _err = adsum("explain", ID)
    lines = out.splitlines()
    assert (status, lines[0]) == (0, f"{EXPLAINED['Summary']} So says n1.")
    assert lines[2:] == [
        "  holds a",
        "  and 2 more",
        "",
        "It ends when:",
        "  somebody destroys it",
        "  node n1 leaves or is deregistered",
    ]


def test_one_that_ended_is_explained_with_a_status_of_its_own(adsum: Adsum, agent: FakeAgent) -> None:
    ended = {"Time": "2026-11-19T22:01:00.000Z", "Index": 17}
    agent.answers[f"GET /v1/explain/session/{ID}"] = {
        **EXPLAINED,
        "Status": "ended",
        "Ended": ended,
        "Ends": [],
        "Keys": [],
        "KeysTotal": 0,
    }
    status, out, _err = adsum("explain", ID)
    assert status == 1
    assert out.splitlines()[-1].endswith(", at index 17")


def test_an_id_that_is_no_session_s_is_a_node_s(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers[f"GET /v1/membership/explain/{ID}"] = (404, "nobody knows it")
    assert adsum("explain", ID)[0] == 3
    assert [asked.line.split("/")[2] for asked in agent.asked] == ["explain", "membership"]
