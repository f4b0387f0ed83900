"""Signals, endings and starts that must not succeed."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.system.agents import (
    Agent,
    Program,
    adsum_program,
    free_ports,
    launch,
    running,
    until,
    wait_until_ready,
    write_config,
)
from tests.system.conftest import DURABLE

RELOAD_S_MAX = 5.0
HEARD_S_MAX = 20.0
WITH_PID_FILE = {**DURABLE, "pid_file": "pid", "log_level": "INFO"}

# Agents that wait for the other end of a FIFO: before they have loaded their HTTP side, and while they end.
WAITS_IN_ITS_START = """
import sys
from adsum.cli.main import main
from adsum.process import assembly
load = assembly._serve_http
def wait():
    open("held").read()
    return load()
assembly._serve_http = wait
sys.exit(main())
"""
FAILS_IN_ITS_START = """
import sys
from adsum.cli.main import main
from adsum.process import crashes
from adsum.storage.failures import StorageFailed
def fail(*_args):
    raise StorageFailed("the disk is gone")
crashes.begin = fail
sys.exit(main())
"""
WAITS_IN_ITS_END = """
import sys, trio
from adsum.cli.main import main
from adsum.process.running import RunningAgent
async def wait(agent, leaves):
    await trio.to_thread.run_sync(lambda: open("held").read())
RunningAgent.stop_serving = wait
sys.exit(main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_end_the_agent_exits_with_zero(agent: Agent, number: signal.Signals) -> None:
    """Consul exits with 1 unless it left the cluster, which service managers take for a failure."""
    assert agent.stop(number) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_end_before_its_start_is_complete_the_agent_ends_in_order(
    tmp_path: Path, number: signal.Signals
) -> None:
    with launched(WAITS_IN_ITS_START, tmp_path) as agent:
        with held_open(tmp_path / "held"):
            assert (tmp_path / "pid").exists()
            agent.send(number)
            heard = f"caught {number.name} before the start was complete: stopping"
            assert until(lambda: heard in agent.log(), within_s=HEARD_S_MAX), agent.log_tail()
        assert agent.wait_for_end() == 0, agent.log_tail()
    assert not (tmp_path / "pid").exists()
    assert (tmp_path / "data" / "starts").read_bytes() == b"", "it does not count as a crash"


def test_a_hangup_before_the_start_is_complete_is_a_reload_after_it(tmp_path: Path) -> None:
    with launched(WAITS_IN_ITS_START, tmp_path) as agent:
        with held_open(tmp_path / "held"):
            agent.send(signal.SIGHUP)
            agent.send(signal.SIGHUP)
            write_config(tmp_path, agent.ports, {**WITH_PID_FILE, "services": [{"name": "web"}]})
        wait_until_ready(agent)
        assert until(lambda: services(agent) == ["web"], within_s=RELOAD_S_MAX), agent.log_tail()
        assert agent.stop() == 0


def test_the_first_signal_after_a_client_asked_to_leave_ends_nothing_at_once(tmp_path: Path) -> None:
    with launched(WAITS_IN_ITS_END, tmp_path) as agent:
        wait_until_ready(agent)
        client = http.client.HTTPConnection("127.0.0.1", agent.ports.http)
        client.request("PUT", "/v1/agent/leave")
        with held_open(tmp_path / "held"):
            agent.send(signal.SIGTERM)
            assert until(lambda: "caught SIGTERM" in agent.log(), within_s=HEARD_S_MAX), agent.log_tail()
        assert agent.wait_for_end() == 0
        client.close()
    assert not (tmp_path / "pid").exists()


def test_the_second_signal_ends_the_agent_at_once(tmp_path: Path) -> None:
    with launched(WAITS_IN_ITS_END, tmp_path) as agent:
        wait_until_ready(agent)
        agent.send(signal.SIGTERM)
        with held_open(tmp_path / "held"):
            agent.send(signal.SIGINT)
            assert agent.wait_for_end() == 1


def test_a_configuration_that_cannot_be_read_to_its_end_does_not_keep_the_agent_from_ending(
    durable_agent: Agent,
) -> None:
    """As on a network file system that is away."""
    file = durable_agent.folder / "config.json"
    file.unlink()
    os.mkfifo(file)
    durable_agent.send(signal.SIGHUP)
    with held_open(file):
        assert durable_agent.stop() == 0


def test_leave_over_http_ends_the_process_with_zero(agent: Agent) -> None:
    assert agent.put("/v1/agent/leave") == (200, b"")
    assert agent.wait_for_end() == 0


def test_orderly_end_keeps_registrations(durable_agent: Agent) -> None:
    durable_agent.put("/v1/agent/service/register", {"Name": "web"})
    assert durable_agent.stop() == 0
    durable_agent.start_again()
    assert list(durable_agent.get_json("/v1/agent/services")) == ["web"]


def test_dev_forgets(agent: Agent) -> None:
    agent.put("/v1/agent/service/register", {"Name": "web"})
    agent.stop()
    agent.start_again()
    assert agent.get_json("/v1/agent/services") == {}


def test_hangup_reloads_services_and_keeps_registered_ones(durable_agent: Agent) -> None:
    durable_agent.put("/v1/agent/service/register", {"Name": "api"})
    reconfigure(durable_agent, {"services": [{"name": "web", "port": 80}]})
    durable_agent.send(signal.SIGHUP)
    assert until(lambda: services(durable_agent) == ["api", "web"], within_s=RELOAD_S_MAX)
    reconfigure(durable_agent, {"services": [{"name": "web", "port": 81}]})
    assert durable_agent.put("/v1/agent/reload")[0] == 200
    assert durable_agent.get_json("/v1/agent/service/web")["Port"] == 81
    reconfigure(durable_agent, {})
    durable_agent.send(signal.SIGHUP)
    assert until(lambda: services(durable_agent) == ["api"], within_s=RELOAD_S_MAX)


def test_hangup_with_a_broken_file_changes_nothing_and_says_so(durable_agent: Agent) -> None:
    reconfigure(durable_agent, {"services": [{"name": "web"}]})
    durable_agent.send(signal.SIGHUP)
    assert until(lambda: services(durable_agent) == ["web"], within_s=RELOAD_S_MAX)
    (durable_agent.folder / "config.json").write_text('{"services": [')
    durable_agent.send(signal.SIGHUP)
    assert until(lambda: "config.json: is not JSON" in durable_agent.log(), within_s=RELOAD_S_MAX)
    assert "\\n" not in durable_agent.log(), "mistakes stand on lines of their own"
    assert services(durable_agent) == ["web"]


def test_second_agent_on_the_same_data_folder_is_refused(durable_agent: Agent, tmp_path: Path) -> None:
    config = {**DURABLE, "data_dir": str(durable_agent.folder / "data")}
    second = launch(adsum_program(), tmp_path, free_ports(), config, ())
    assert second.wait_for_end() == 1
    assert str(durable_agent.folder / "data") in second.log()


def test_port_that_is_taken_is_named(agent: Agent, tmp_path: Path) -> None:
    second = launch(adsum_program(), tmp_path, agent.ports, {}, ("-dev",))
    assert second.wait_for_end() == 1
    assert str(agent.ports.http) in second.log() or str(agent.ports.dns) in second.log()


def test_an_agent_whose_port_is_taken_leaves_the_pid_file_of_the_other_one(tmp_path: Path) -> None:
    config = {"pid_file": str(tmp_path / "pid")}
    with running(adsum_program(), config) as agent:
        (tmp_path / "second").mkdir()
        second = launch(adsum_program(), tmp_path / "second", agent.ports, config, ("-dev",))
        assert second.wait_for_end() == 1
        assert (tmp_path / "pid").read_text() == f"{agent.pid}\n"


def test_a_start_that_fails_leaves_no_pid_file(tmp_path: Path) -> None:
    with launched(FAILS_IN_ITS_START, tmp_path) as agent:
        assert agent.wait_for_end() == 1
        assert agent.log().endswith("The agent did not start: the disk is gone\n")
    assert not (tmp_path / "pid").exists()


def test_misspelt_key_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    refused = launch(adsum_program(), tmp_path, free_ports(), {"datacentre": "dc1"}, ("-dev",))
    assert refused.wait_for_end() == 1
    assert "datacenter" in refused.log()


def test_flags_of_consul_start_us_and_win_over_files() -> None:
    arguments = ("-dev", "-node", "flagged", "-datacenter=dc7", "--log-level", "info")
    with running(adsum_program(), {"node_name": "from-the-file"}, arguments) as agent:
        config = agent.get_json("/v1/agent/self")["Config"]
    assert (config["NodeName"], config["Datacenter"]) == ("flagged", "dc7")


def test_stopped_process_goes_on_where_it_was(agent: Agent) -> None:
    agent.put("/v1/agent/service/register", {"Name": "web"})
    agent.send(signal.SIGSTOP)
    with pytest.raises(TimeoutError):
        agent.call("GET", "/v1/agent/services", timeout_s=0.3)
    agent.send(signal.SIGCONT)
    wait_until_ready(agent)
    assert services(agent) == ["web"]


def test_version_needs_no_agent() -> None:
    done = subprocess.run([*adsum_program().command, "version"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Adsum v")


@contextmanager
def launched(script: str, folder: Path) -> Iterator[Agent]:
    """An agent made by that script, which may wait for the FIFO `held` in its folder."""
    os.mkfifo(folder / "held")
    program = Program("Adsum", (sys.executable, "-c", script))
    agent = launch(program, folder, free_ports(), WITH_PID_FILE, ())
    try:
        yield agent
    finally:
        if agent.process.poll() is None:
            agent.kill()


@contextmanager
def held_open(fifo: Path) -> Iterator[None]:
    """From when somebody reads it; to whom its end comes afterwards."""

    def opened() -> int:
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # nobody yet
            return 0

    writer = until(opened, within_s=HEARD_S_MAX)
    assert writer, f"nobody reads {fifo}"
    try:
        yield
    finally:
        os.close(writer)


def reconfigure(agent: Agent, more: dict[str, object]) -> None:
    write_config(agent.folder, agent.ports, {**DURABLE, **more})


def services(agent: Agent) -> list[str]:
    return sorted(agent.get_json("/v1/agent/services"))
