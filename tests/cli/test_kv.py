"""Keys from the command line. That the bytes are Consul's is asked of Consul in `test_with_agents`."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Adsum
from tests.cli.fake_agent import FakeAgent

HOST: dict[str, object] = {
    "LockIndex": 0,
    "Key": "db/host",
    "Flags": 42,
    "Value": "YWxwaGE=",
    "CreateIndex": 12,
    "ModifyIndex": 14,
}
ADSUM = str(Path(sys.executable).with_name("adsum"))
EMPTY: dict[str, object] = {**HOST, "Key": "db/none", "Flags": 0, "Value": None, "Session": "s-1"}


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)


def give(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_a_value_is_shown_as_it_is(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["GET /v1/kv/db/host"] = [HOST]
    assert adsum("kv", "get", "db/host") == (0, "alpha\n", "")
    assert adsum("kv", "get", "-base64", "/db/host") == (0, "YWxwaGE=\n", "")
    assert [asked.query for asked in agent.asked] == [{}, {}]


def test_all_below_a_prefix_are_shown_with_their_names(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["GET /v1/kv/db"] = [HOST, EMPTY]
    assert adsum("kv", "get", "-recurse", "-stale", "db") == (0, "db/host:alpha\ndb/none:\n", "")
    assert agent.asked[0].query == {"recurse": "1", "stale": "1"}


def test_details_are_in_columns_and_records_apart(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["GET /v1/kv/db"] = [HOST, EMPTY]
    assert adsum("kv", "get", "-recurse", "-detailed", "db").out == (
        "CreateIndex      12\n"
        "Flags            42\n"
        "Key              db/host\n"
        "LockIndex        0\n"
        "ModifyIndex      14\n"
        "Session          -\n"
        "Value            alpha\n"
        "\n"
        "CreateIndex      12\n"
        "Flags            0\n"
        "Key              db/none\n"
        "LockIndex        0\n"
        "ModifyIndex      14\n"
        "Session          s-1\n"
        "Value\n"
    )


def test_names_alone_are_cut_at_the_separator(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["GET /v1/kv/"] = ["db/", "web"]
    assert adsum("kv", "get", "-keys") == (0, "db/\nweb\n", "")
    assert adsum("kv", "get", "-keys", "-separator=", "-datacenter=dc1").status == 0
    asked = [each.query for each in agent.asked]
    assert asked == [{"keys": "1", "separator": "/"}, {"keys": "1", "dc": "dc1"}]


def test_a_key_that_is_not_there_is_a_failure_of_status_1(adsum: Adsum, agent: FakeAgent) -> None:
    assert adsum("kv", "get", "db/none") == (1, "", "Error! No key exists at: db/none\n")
    assert adsum("kv", "get", "-recurse", "db") == (0, "", "")
    assert adsum("kv", "get", "-keys", "db") == (0, "", "")


def test_programs_get_the_records(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["GET /v1/kv/db/host"] = [HOST]
    agent.answers["GET /v1/kv/db"] = [HOST, EMPTY]
    assert json.loads(adsum("kv", "get", "-o=json", "db/host").out) == HOST
    assert json.loads(adsum("kv", "get", "-o=json", "-recurse", "db").out) == [HOST, EMPTY]
    lines = adsum("kv", "get", "-o=jsonl", "-recurse", "db").out.splitlines()
    assert list(map(json.loads, lines)) == [HOST, EMPTY]


def test_a_value_goes_to_a_pipe_as_bytes(agent: FakeAgent) -> None:
    agent.answers["GET /v1/kv/raw"] = [HOST | {"Value": "/wobWzMxbQ=="}]
    done = subprocess.run([ADSUM, "kv", "get", "raw"], capture_output=True)
    assert (done.stdout, done.stderr) == (b"\xff\n\x1b[31m\n", b"")


def test_a_value_does_not_steer_a_terminal(
    adsum: Adsum, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_terminal(monkeypatch)
    agent.answers["GET /v1/kv/raw"] = [HOST | {"Value": "YQobWzMxbQ=="}]
    assert adsum("kv", "get", "raw").out == "a\n\\x1b[31m\n"


def test_keys_are_listed_as_a_tree(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["GET /v1/kv/"] = ["a", "db/", "db/host", "db/pool/max", "db/pool/min", "web/\x1b"]
    assert adsum("kv", "list") == (
        0,
        "a\ndb/  (a key itself)\n  host\n  pool/\n    max\n    min\nweb/\n  \\x1b\n",
        "",
    )
    assert agent.asked[0].query == {"keys": "1"}


def test_a_list_without_keys_says_so(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["GET /v1/kv/"] = []
    assert adsum("kv", "list") == (0, "", "There are no keys.\n")
    assert adsum("kv", "list", "x/") == (0, "", "No key begins with x/.\n")
    assert adsum("kv", "list", "-o=json") == (0, "[]\n", "")


@pytest.mark.parametrize(
    ("words", "body"),
    [
        ([], b""),
        (["alpha"], b"alpha"),
        (["-5"], b"-5"),
        (["-cas"], b"-cas"),
        (["-"], b"from stdin\n"),
        (["@FILE"], b"from a file\n"),
        ([""], b""),
    ],
)
def test_data_is_a_word_a_file_or_the_standard_input(
    adsum: Adsum,
    agent: FakeAgent,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    words: list[str],
    body: bytes,
) -> None:
    (tmp_path / "FILE").write_bytes(b"from a file\n")
    monkeypatch.chdir(tmp_path)
    give(monkeypatch, b"from stdin\n")
    agent.answers["PUT /v1/kv/db/host"] = True
    assert adsum("kv", "put", "db/host", *words) == (0, "Success! Data written to: db/host\n", "")
    assert (agent.asked[0].body, agent.asked[0].query) == (body, {})


def test_flags_and_a_value_in_base64_are_sent(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["PUT /v1/kv/k"] = True
    assert adsum("kv", "put", "-flags=0x2a", "-base64", "k", "YWxwaGE=").status == 0
    assert (agent.asked[0].body, agent.asked[0].query) == (b"alpha", {"flags": "42"})


def test_a_lost_compare_is_a_failure_of_status_1(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["PUT /v1/kv/k"] = agent.answers["DELETE /v1/kv/k"] = False
    words = ("-cas", "-modify-index=7", "k")
    assert adsum("kv", "put", *words, "v") == (1, "", "Error! Did not write to k: CAS failed\n")
    assert adsum("kv", "delete", *words) == (1, "", "Error! Did not delete key k: CAS failed\n")
    assert [asked.query for asked in agent.asked] == [{"cas": "7"}, {"cas": "7"}]


def test_a_compare_with_0_writes_only_where_there_is_no_key(adsum: Adsum, agent: FakeAgent) -> None:
    """Consul's refuses it, as if the index had not been given."""
    agent.answers["PUT /v1/kv/k"] = True
    assert adsum("kv", "put", "-cas", "-modify-index=0", "k", "v").status == 0
    assert agent.asked[0].query == {"cas": "0"}


def test_locks_are_taken_and_left_with_a_session(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["PUT /v1/kv/k"] = True
    assert adsum("kv", "put", "-acquire", "-session=s", "k").out == "Success! Lock acquired on: k\n"
    assert adsum("kv", "put", "-release", "-session=s", "k").out == "Success! Lock released on: k\n"
    agent.answers["PUT /v1/kv/k"] = False
    assert adsum("kv", "put", "-acquire", "-session=s", "k") == (1, "", "Error! Did not acquire lock\n")
    assert [asked.query for asked in agent.asked[:2]] == [{"acquire": "s"}, {"release": "s"}]


def test_keys_are_deleted_one_by_one_and_by_prefix(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["DELETE /v1/kv/db"] = agent.answers["DELETE /v1/kv/"] = True
    assert adsum("kv", "delete", "/db").out == "Success! Deleted key: db\n"
    assert adsum("kv", "delete", "-recurse", "db").out == "Success! Deleted keys with prefix: db\n"
    assert adsum("kv", "delete", "-recurse").out == "Success! Deleted keys with prefix: \n"
    assert [asked.query for asked in agent.asked] == [{}, {"recurse": "1"}, {"recurse": "1"}]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["get"], "KEY is missing"),
        (["delete", "/"], "KEY is missing"),
        (["put", "", "v"], "KEY is empty"),
        (["put", "/k", "v"], "a key must not begin with a slash: /k"),
        (["put", "-cas", "k"], "Must specify -modify-index with -cas!"),
        (["put", "-flags=x", "k"], '-flags is a number from 0 to 2^64 - 1, not "x"'),
        (["put", "-flags=18446744073709551616", "k"], "-flags is a number from 0 to 2^64 - 1"),
        (["put", "-acquire", "k"], "Missing -session (required with -acquire and -release)"),
        (["delete", "-cas", "k"], "Must specify -modify-index with -cas!"),
        (["delete", "-modify-index=1", "k"], "Cannot specify -modify-index without -cas!"),
        (["delete", "-cas", "-modify-index=1", "-recurse", "k"], "Cannot specify both -cas and -recurse!"),
    ],
)
def test_what_makes_no_sense_is_not_sent(
    adsum: Adsum, agent: FakeAgent, words: list[str], sentence: str
) -> None:
    status, _, err = adsum("kv", *words)
    assert status == 2
    assert sentence in err
    assert agent.asked == []


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["put", "-base64", "k", "!!"], "the data is no base64"),
        (["put", "k", "@nosuch"], "nosuch cannot be read: No such file or directory"),
        (["import", "junk"], "the data is no JSON, as `adsum kv export` writes it"),
        (["import", "{}"], "the data is no list of keys"),
        (["import", '[{"key":"a","value":""},{"key":""}]'], 'entry 2 is not like {"key": "a/b", '),
        (["import", '[{"key":"a","flags":"1"}]'], "entry 1 is not like"),
        (["import", '[{"key":"a"},{"key":"b","value":"!!"}]'], "the value of b is no base64"),
    ],
)
def test_data_that_cannot_be_read_writes_nothing(
    adsum: Adsum, agent: FakeAgent, words: list[str], sentence: str
) -> None:
    status, _, err = adsum("kv", *words)
    assert status == 1
    assert sentence in err
    assert agent.asked == []


EXPORTED = """\
[
	{
		"key": "db/host",
		"flags": 42,
		"value": "YWxwaGE="
	},
	{
		"key": "a\\u003cb",
		"flags": 0,
		"value": ""
	}
]
"""


def test_an_export_is_what_consul_would_write(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["GET /v1/kv/db"] = [HOST, EMPTY | {"Key": "a<b"}]
    assert adsum("kv", "export", "db") == (0, EXPORTED, "")
    assert adsum("kv", "export", "nothing").out == "[]\n"


def test_an_import_writes_each_key_and_says_so(adsum: Adsum, agent: FakeAgent, tmp_path: Path) -> None:
    file = tmp_path / "export.json"
    file.write_text(EXPORTED)
    agent.answers["PUT /v1/kv/db/host"] = agent.answers["PUT /v1/kv/a<b"] = True
    told = "Imported: db/host\nImported: a<b\n"
    assert adsum("kv", "import", f"@{file}") == (0, told, "")
    sent = [(asked.body, asked.query) for asked in agent.asked]
    assert sent == [(b"alpha", {"flags": "42"}), (b"", {})]


def test_an_import_takes_names_in_any_case_and_puts_a_prefix_before_keys(
    adsum: Adsum, agent: FakeAgent
) -> None:
    agent.answers["PUT /v1/kv/old/k"] = True
    words = ("-prefix=old/", '[{"Key": "k", "VALUE": null}]')
    assert adsum("kv", "import", *words) == (0, "Imported: old/k\n", "")


def test_on_a_terminal_an_import_counts(
    adsum: Adsum, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_terminal(monkeypatch)
    agent.answers["PUT /v1/kv/a"] = agent.answers["PUT /v1/kv/b"] = True
    out = adsum("kv", "import", '[{"key": "a"}, {"key": "b"}]').out
    assert out.endswith("\rImported 2 of 2 keys\n")
    assert "Imported: a" not in out


def test_an_import_that_fails_says_how_far_it_came(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["PUT /v1/kv/a"] = True
    agent.answers["PUT /v1/kv/b"] = (500, "No cluster leader")
    agent.headers["PUT /v1/kv/b"] = {"X-Adsum-Reason": "an election is on"}
    assert adsum("kv", "import", '[{"key": "a"}, {"key": "b"}]') == (
        1,
        "Imported: a\n",
        (
            "adsum: 1 of 2 keys were imported, then b failed: No cluster leader: an election is on. "
            "To import all of them again does no harm\n"
        ),
    )


def test_a_key_may_have_bytes_that_are_no_text(adsum: Adsum, agent: FakeAgent) -> None:
    agent.answers["PUT /v1/kv/\ufffd"] = True
    assert adsum("kv", "put", b"\xff".decode(errors="surrogateescape"), "v").status == 0
