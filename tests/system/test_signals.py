"""Signals, endings and starts that must not succeed."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.system.agents import (
    Agent,
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_asked_to_end_the_agent_exits_with_zero(agent: Agent, number: signal.Signals) -> None:
    """Consul exits with 1 unless it left the cluster, which service managers take for a failure."""
    assert agent.stop(number) == 0


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


def reconfigure(agent: Agent, more: dict[str, object]) -> None:
    write_config(agent.folder, agent.ports, {**DURABLE, **more})


def services(agent: Agent) -> list[str]:
    return sorted(agent.get_json("/v1/agent/services"))
