"""The `consul` program of Consul itself with one of our agents, and with one of its own: what scripts read of
it is the same."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.system.agents import Agent, Program, adsum_program, consul_program, running, until

CONSUL = consul_program()
WATCH_S_MAX = 20.0
COMMAND_S_MAX = 30.0
UNKNOWN = "6a0c4f0e-5f0b-4b1e-9d5c-0d3c1b2a9f01"
KEPT = ("dir/", "dir/a", "dir/b", "sp ace/é%2F?#&")

pytestmark = pytest.mark.skipif(
    CONSUL is None, reason="no real consul; set PEERS to a folder that has usr/bin/consul"
)
Told = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module", params=["Adsum", "Consul"])
def agent(request: pytest.FixtureRequest) -> Iterator[Agent]:
    with running(adsum_program() if request.param == "Adsum" else consul()) as started:
        yield started


@pytest.fixture(autouse=True)
def _no_keys(agent: Agent) -> None:
    for session in agent.get_json("/v1/session/list"):
        agent.put(f"/v1/session/destroy/{session['ID']}")
    agent.call("DELETE", "/v1/kv/?recurse")


def consul() -> Program:
    assert CONSUL is not None, "else all of this is skipped"
    return CONSUL


def command(agent: Agent, *words: str, stdin: str = "") -> Told:
    return subprocess.run(
        [*consul().command, *words],
        env=environment(agent),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=COMMAND_S_MAX,
        check=False,
    )


def environment(agent: Agent) -> dict[str, str]:
    return {**os.environ, "CONSUL_HTTP_ADDR": f"127.0.0.1:{agent.ports.http}"}


def printed(agent: Agent, *words: str, stdin: str = "") -> str:
    told = command(agent, *words, stdin=stdin)
    assert (told.returncode, told.stderr) == (0, "")
    return told.stdout


def failed(agent: Agent, *words: str) -> str:
    told = command(agent, *words)
    assert (told.returncode, told.stdout) == (1, "")
    return told.stderr


def modify_index(agent: Agent, key: str) -> str:
    return str(agent.get_json(f"/v1/kv/{key}")[0]["ModifyIndex"])


def test_a_value_is_put_got_and_deleted(agent: Agent) -> None:
    assert printed(agent, "kv", "put", "a/b", "c") == "Success! Data written to: a/b\n"
    assert printed(agent, "kv", "get", "a/b") == "c\n"
    assert printed(agent, "kv", "get", "-stale", "a/b") == "c\n"
    assert printed(agent, "kv", "get", "-datacenter=dc1", "a/b") == "c\n"
    assert printed(agent, "kv", "get", "-base64", "a/b") == "Yw==\n"
    assert printed(agent, "kv", "delete", "a/b") == "Success! Deleted key: a/b\n"
    assert printed(agent, "kv", "delete", "a/b") == "Success! Deleted key: a/b\n"
    assert failed(agent, "kv", "get", "a/b") == "Error! No key exists at: a/b\n"


def test_values_come_from_files_and_pipes_and_in_base64(agent: Agent, tmp_path: Path) -> None:
    value = tmp_path / "value"
    value.write_bytes(bytes(range(256)))
    printed(agent, "kv", "put", "file", f"@{value}")
    printed(agent, "kv", "put", "pipe", "-", stdin="from a pipe")
    printed(agent, "kv", "put", "-base64", "encoded", "aGVsbG8=")
    assert agent.call("GET", "/v1/kv/file?raw") == (200, bytes(range(256)))
    assert printed(agent, "kv", "get", "pipe") == "from a pipe\n"
    assert printed(agent, "kv", "get", "encoded") == "hello\n"


def test_details_are_told(agent: Agent) -> None:
    printed(agent, "kv", "put", "-flags=18446744073709551615", "a", "x")
    index = modify_index(agent, "a")
    assert printed(agent, "kv", "get", "-detailed", "a") == (
        f"CreateIndex      {index}\n"
        "Flags            18446744073709551615\n"
        "Key              a\n"
        "LockIndex        0\n"
        f"ModifyIndex      {index}\n"
        "Session          -\n"
        "Value            x\n"
    )


def test_a_comparison_holds_or_fails(agent: Agent) -> None:
    printed(agent, "kv", "put", "a", "1")
    index = modify_index(agent, "a")
    assert failed(agent, "kv", "put", "-cas", "-modify-index=1", "new", "x") == (
        "Error! Did not write to new: CAS failed\n"
    )
    printed(agent, "kv", "put", "-cas", f"-modify-index={index}", "a", "2")
    stale = ("-cas", f"-modify-index={index}", "a")
    assert failed(agent, "kv", "put", *stale, "3") == "Error! Did not write to a: CAS failed\n"
    assert failed(agent, "kv", "delete", *stale) == "Error! Did not delete key a: CAS failed\n"
    printed(agent, "kv", "delete", "-cas", f"-modify-index={modify_index(agent, 'a')}", "a")
    assert agent.call("GET", "/v1/kv/a")[0] == 404


def test_trees_are_listed_and_deleted(agent: Agent) -> None:
    for key in KEPT:
        printed(agent, "kv", "put", key, "x")
    assert printed(agent, "kv", "get", "-keys") == "dir/\nsp ace/\n"
    assert printed(agent, "kv", "get", "-keys", "-separator=", "d") == "dir/\ndir/a\ndir/b\n"
    assert printed(agent, "kv", "get", "-keys", "-separator=r", "d") == "dir\n"
    assert printed(agent, "kv", "get", "-recurse", "dir/a") == "dir/a:x\n"
    assert printed(agent, "kv", "get", "-recurse").splitlines() == [f"{key}:x" for key in KEPT]
    assert printed(agent, "kv", "get", "sp ace/é%2F?#&") == "x\n"
    assert printed(agent, "kv", "delete", "-recurse", "dir") == "Success! Deleted keys with prefix: dir\n"
    assert printed(agent, "kv", "get", "-keys") == "sp ace/\n"


def test_all_keys_are_exported_and_imported(agent: Agent) -> None:
    for key in KEPT:
        printed(agent, "kv", "put", "-flags=42", key, key)
    exported = printed(agent, "kv", "export")
    assert printed(agent, "kv", "export", "dir/a") == (
        '[\n\t{\n\t\t"key": "dir/a",\n\t\t"flags": 42,\n\t\t"value": "ZGlyL2E="\n\t}\n]\n'
    )
    printed(agent, "kv", "delete", "-recurse", "")
    assert printed(agent, "kv", "export") == "[]\n"
    assert printed(agent, "kv", "import", "-", stdin=exported).splitlines() == [
        f"Imported: {key}" for key in KEPT
    ]
    assert printed(agent, "kv", "export") == exported


def test_what_it_refuses_itself_and_what_is_too_large(agent: Agent, tmp_path: Path) -> None:
    assert failed(agent, "kv", "put", "/a", "x") == (
        "Error! Failed writing data: Invalid key. Key must not begin with a '/': /a\n"
    )
    assert failed(agent, "kv", "get", "-datacenter=zz", "a") == (
        "Error querying Consul agent: Unexpected response code: 500\n"
    )
    large = tmp_path / "large"
    large.write_bytes(b"x" * (512 * 1024 + 1))
    assert failed(agent, "kv", "put", "a", f"@{large}").startswith(
        "Error! Failed writing data: Unexpected response code: 413 "
        "(Request body(524289 bytes) too large, max size: 524288 bytes."
    )


@pytest.mark.parametrize(
    ("watched", "nothing"),
    [(("-type=key", "-key=dir/a"), "null\n"), (("-type=keyprefix", "-prefix=dir/"), "null\n")],
)
def test_a_watch_without_a_handler_tells_what_is_there(
    agent: Agent, watched: tuple[str, str], nothing: str
) -> None:
    assert printed(agent, "watch", *watched) == nothing
    agent.call("PUT", "/v1/kv/dir/a?flags=42", b"x")
    told = re.sub(r'(?<=Index": )\d+', "N", printed(agent, "watch", *watched))
    assert re.sub(r"\s+", "", told).strip("[]") == (
        '{"Key":"dir/a","CreateIndex":N,"ModifyIndex":N,"LockIndex":N,"Flags":42,"Value":"eA==","Session":""}'
    )


@pytest.mark.parametrize("watched", [("-type=key", "-key=dir/a"), ("-type=keyprefix", "-prefix=dir/")])
def test_a_watch_calls_its_handler_for_each_change(
    agent: Agent, watched: tuple[str, str], tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    handler = f"tr -d ' \\n' >>{seen}; echo >>{seen}"

    def shown(count: int) -> Callable[[], bool]:
        return lambda: seen.exists() and len(seen.read_text().splitlines()) >= count

    agent.call("PUT", "/v1/kv/dir/a", b"1")
    watch = subprocess.Popen(
        [*consul().command, "watch", *watched, handler],
        env=environment(agent),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert until(shown(1), within_s=WATCH_S_MAX)
        agent.call("PUT", "/v1/kv/elsewhere", b"2")
        agent.call("PUT", "/v1/kv/dir/a", b"2")
        assert until(shown(2), within_s=WATCH_S_MAX)
        agent.call("DELETE", "/v1/kv/dir/a")
        assert until(shown(3), within_s=WATCH_S_MAX)
    finally:
        watch.terminate()
        watch.wait()
    values = [re.findall(r'"Value":"(\w+==)"', line) for line in seen.read_text().splitlines()]
    assert values == [["MQ=="], ["Mg=="], []]


def test_the_roll_and_the_state_are_told(agent: Agent) -> None:
    head, row = printed(agent, "members").splitlines()
    assert head.split() == ["Node", "Address", "Status", "Type", "Build", "Protocol", "DC", "Segment"]
    assert row.split() == [
        *("n1", f"127.0.0.1:{agent.ports.serf_lan}", "alive", "server", "1.8.7", "2", "dc1", "<all>")
    ]
    info = printed(agent, "info")
    for line in ("\tleader = true", f"\tleader_addr = 127.0.0.1:{agent.ports.server}", "\tstate = Leader"):
        assert line in info.splitlines()
    assert printed(agent, "catalog", "datacenters") == "dc1\n"


# Sessions and locks.


def session(agent: Agent, **fields: object) -> str:
    _status, body = agent.put("/v1/session/create", {"LockDelay": "0s", **fields})
    return str(json.loads(body)["ID"])


def test_a_key_is_acquired_and_released_by_a_session(agent: Agent) -> None:
    mine, other = session(agent), session(agent)
    assert printed(agent, "kv", "put", "-acquire", f"-session={mine}", "a", "1") == (
        "Success! Lock acquired on: a\n"
    )
    assert failed(agent, "kv", "put", "-acquire", f"-session={other}", "a", "2") == (
        "Error! Did not acquire lock\n"
    )
    assert f"Session          {mine}\n" in printed(agent, "kv", "get", "-detailed", "a")
    assert failed(agent, "kv", "put", "-release", f"-session={other}", "a", "2") == (
        "Error! Did not release lock\n"
    )
    assert printed(agent, "kv", "put", "-release", f"-session={mine}", "a", "1") == (
        "Success! Lock released on: a\n"
    )
    assert "invalid session" in failed(agent, "kv", "put", "-acquire", f"-session={UNKNOWN}", "a", "1")


def test_a_command_runs_under_a_lock_and_nothing_is_left(agent: Agent) -> None:
    assert printed(agent, "lock", "-verbose=false", "a", "echo $CONSUL_LOCK_HELD") == "true\n"
    assert agent.call("GET", "/v1/kv/a/.lock")[0] == 404
    assert agent.get_json("/v1/session/list") == []
    told = command(agent, "lock", "-child-exit-code", "a", "exit 3")
    assert (told.returncode, told.stderr) == (2, "Error running handler: exit status 3\n")


@pytest.mark.parametrize("limit", ["-n=1", "-n=2"])
def test_a_lock_is_held_while_its_command_runs_and_others_wait(
    agent: Agent, limit: str, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    words = [*consul().command, "lock", limit, "b", f"echo >>{begun}; exec sleep 60"]
    holders = [subprocess.Popen(words, env=environment(agent)) for _ in range(int(limit[-1]))]
    try:
        assert until(lambda: begun.exists() and len(begun.read_text()) == len(holders), within_s=WATCH_S_MAX)
        assert failed(agent, "lock", limit, "-timeout=1s", "b", "echo never") == (
            "Shutdown triggered or timeout during lock acquisition\n"
        )
    finally:
        for holder in holders:
            holder.terminate()
            holder.wait()
    assert printed(agent, "lock", limit, "b", "echo mine") == "mine\n"


def test_a_lock_whose_session_ends_ends_its_command(agent: Agent, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    words = [*consul().command, "lock", "c", f"echo >{begun}; exec sleep 60"]
    with subprocess.Popen(words, env=environment(agent), stderr=subprocess.PIPE, text=True) as holder:
        assert until(begun.exists, within_s=WATCH_S_MAX)
        agent.put(f"/v1/session/destroy/{agent.get_json('/v1/kv/c/.lock')[0]['Session']}")
        _out, err = holder.communicate(timeout=COMMAND_S_MAX)
    assert err == "Error running handler: signal: terminated\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("operator", "autopilot", "get-config"), "Adsum has no autopilot to set yet"),
        (("snapshot", "save", "saved"), "Adsum saves and restores no snapshots yet"),
    ],
)
def test_what_is_not_there_yet_is_answered_with_a_sentence(
    agent: Agent, words: tuple[str, ...], sentence: str
) -> None:
    if agent.program == CONSUL:
        pytest.skip("Consul has it")
    assert sentence in failed(agent, *words)
