"""Our command line on our own agent, and the real `consul` binary, unmodified, on it too."""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.agents import Agent, adsum_program, consul_program, running, until
from tests.system.conftest import DURABLE

WAIT_S = 15.0


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    with running(adsum_program()) as agent:
        agent.put("/v1/agent/service/register", {"Name": "web", "ID": "web1", "Port": 80, "Tags": ["b", "a"]})
        critical = {"Name": "web", "ID": "web2", "Port": 81, "Check": {"TTL": "1h", "Status": "critical"}}
        agent.put("/v1/agent/service/register", critical)
        yield agent


@pytest.fixture(scope="module")
def consul() -> str:
    program = consul_program()
    if program is None:
        pytest.skip("real Consul is not here: set PEERS, or run the script that unpacks it")
    return program.command[0]


ADSUM = adsum_program().command[0]


def call(agent: Agent, program: str, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [program, *words], capture_output=True, text=True, env=pointed_at(agent), timeout=30
    )
    return done.returncode, done.stdout


def pointed_at(agent: Agent) -> dict[str, str]:
    return os.environ | {"CONSUL_HTTP_ADDR": f"127.0.0.1:{agent.ports.http}"}


@pytest.mark.parametrize(
    "words",
    [
        ["members"],
        ["members", "-detailed"],
        ["members", "-wan"],
        ["members", "-status=left"],
        ["catalog", "datacenters"],
        ["catalog", "nodes"],
        ["catalog", "nodes", "-detailed"],
        ["catalog", "services"],
        ["catalog", "services", "-tags"],
        ["catalog", "services", "-node=n1"],
        ["maint"],
        ["operator", "raft", "list-peers"],
        ["info"],
    ],
    ids=" ".join,
)
def test_both_command_lines_show_the_same(agent: Agent, consul: str, words: list[str]) -> None:
    assert comparable(call(agent, ADSUM, *words)) == comparable(call(agent, consul, *words))


CHANGES = """\
services register -name=cli1 -port=80 -tag=x -meta=k=v
services deregister -id=cli1
maint -enable -service=web1 -reason=why
maint
maint -disable -service=web1
maint -enable
maint
maint -disable
maint
reload"""


def test_both_command_lines_do_the_same(agent: Agent, consul: str) -> None:
    ours, theirs = (
        [call(agent, program, *line.split()) for line in CHANGES.splitlines()] for program in (ADSUM, consul)
    )
    assert ours == theirs


KEYS = """\
kv put a/b alpha
kv put -flags=42 a/c
kv put -base64 a/d YWxwaGEK
kv get a/b
kv get -recurse a/
kv get -recurse -base64 a/
kv get -recurse -detailed a/
kv get -detailed a/b
kv get -keys
kv get -keys -separator= a
kv get -keys none
kv get none
kv put -cas -modify-index=1 a/b beta
kv delete -cas -modify-index=1 a/b
kv export a/
kv export none
kv import [{"key":"i/1","flags":3,"value":"YWxwaGE="},{"key":"i/2","value":null}]
kv get -recurse i
kv delete a/b
kv delete none
kv delete -recurse a/
kv delete -recurse i/
kv get -recurse"""


def test_both_command_lines_treat_keys_alike(agent: Agent, consul: str) -> None:
    ours, theirs = (
        [(line, *told(call(agent, program, *line.split()))) for line in KEYS.splitlines()]
        for program in (ADSUM, consul)
    )
    assert ours == theirs


def told(outcome: tuple[int, str]) -> tuple[int, str]:
    """Two writes have two indexes."""
    status, out = outcome
    return status, re.sub(r"Index  ( *)\d+", r"Index  \1#", out)


def comparable(outcome: tuple[int, str]) -> tuple[int, list[str]]:
    """Numbers in `info` move between two calls; blanks at a line's end mean nothing."""
    status, out = outcome
    return status, [line.rstrip().partition(" = ")[0] for line in out.splitlines()]


def test_consul_watches_a_service_through_our_agent(agent: Agent, consul: str) -> None:
    status, out = call(agent, consul, "watch", "-type=service", "-service=web")
    assert status == 0
    assert [each["Service"]["ID"] for each in json.loads(out)] == ["web1", "web2"]


@pytest.mark.parametrize("program", ["adsum", "consul"])
def test_monitor_follows_the_log_until_it_is_interrupted(
    agent: Agent, program: str, request: pytest.FixtureRequest
) -> None:
    path = ADSUM if program == "adsum" else request.getfixturevalue("consul")
    with subprocess.Popen(
        [path, "monitor", "-log-level=debug"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=pointed_at(agent),
    ) as monitor:
        output = monitor.stdout
        assert output is not None

        def has_line() -> bool:
            agent.put("/v1/agent/reload")
            return bool(select.select([output], [], [], 0.1)[0])

        try:
            assert until(has_line, within_s=WAIT_S)
            assert b"configuration reloaded" in output.readline()
            monitor.send_signal(signal.SIGINT)
            _, err = monitor.communicate(timeout=WAIT_S)
        finally:
            monitor.kill()
    assert monitor.returncode == 0
    if program == "adsum":
        assert err == b""


def test_health_and_resolve_tell_about_the_critical_instance(agent: Agent) -> None:
    status, out = call(agent, ADSUM, "health", "web")
    assert status == 1
    assert [line.split()[-1] for line in out.splitlines() if "Service 'web' check" in line] == ["critical"]
    status, out = call(agent, ADSUM, "resolve", "web.service.consul", "-type=SRV")
    assert status == 0
    assert "web2 on n1 (127.0.0.1, port 81) is left out: it is critical." in out
    assert [line for line in out.splitlines() if " SRV " in line] == [
        "web.service.consul. 0 IN SRV 1 1 80 n1.node.dc1.consul."
    ]


def test_a_file_that_starts_an_agent_also_registers_and_deregisters(agent: Agent, tmp_path: Path) -> None:
    file = tmp_path / "db.json"
    file.write_text(
        json.dumps({"service": {"name": "db", "port": 5432, "checks": [{"ttl": "1h", "name": "t"}]}})
    )
    assert call(agent, ADSUM, "services", "register", str(file)) == (0, "Registered service: db\n")
    assert "db" in agent.get_json("/v1/agent/services")
    assert len(agent.get_json("/v1/health/checks/db")) == 1
    assert call(agent, ADSUM, "services", "deregister", str(file)) == (0, "Deregistered service: db\n")
    assert "db" not in agent.get_json("/v1/agent/services")


def test_leave_ends_the_agent_and_then_nobody_is_there_and_its_data_folder_is_free() -> None:
    with running(adsum_program(), DURABLE, arguments=()) as agent:
        assert call(agent, ADSUM, "leave") == (0, "Graceful leave complete\n")
        with open(agent.folder / "data" / "lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert agent.wait_for_end() == 0
        assert call(agent, ADSUM, "members") == (4, "")
