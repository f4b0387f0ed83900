"""A real agent on a disk that is full, mounted read-only, or deleted under it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.agents import (
    Agent,
    free_ports,
    launch,
    running,
    until,
)
from tests.system.disks import SmallDisk, small_disk, why_no_small_disk

# Ten seconds between two tries, and a busy machine.
WRITTEN_S_MAX = 30.0
FULL = (
    b"Nothing was changed, because it could not be kept in data_dir: "
    b"no space left on device: make room on its disk, and try again"
)
LOST = "data_dir was deleted or emptied under the running agent"
READ_ONLY = (
    b"Nothing was changed, because it could not be kept in data_dir: "
    b"read-only file system: mount it writable again, and try again"
)


@pytest.fixture(scope="module", autouse=True)
def _needs_a_disk() -> None:
    if reason := why_no_small_disk():
        pytest.skip(reason)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk") as made:
        yield made


@pytest.fixture
def agent(disk: SmallDisk) -> Iterator[Agent]:
    with running(disk.program, config(disk), arguments=()) as started:
        yield started
        assert "Traceback" not in started.log()


def config(disk: SmallDisk) -> dict[str, object]:
    return {"data_dir": str(disk.path / "data"), "log_level": "INFO"}


def register(agent: Agent, name: str) -> tuple[int, bytes]:
    return agent.put("/v1/agent/service/register", {"Name": name, "Port": 80, "Check": {"TTL": "1h"}})


def services(agent: Agent) -> list[str]:
    return sorted(agent.get_json("/v1/agent/services"))


def node_id(agent: Agent) -> str:
    return str(agent.get_json("/v1/agent/self")["Config"]["NodeID"])


def generation(disk: SmallDisk) -> int:
    return int((disk.files / "data" / "generation").read_text())


def metric(agent: Agent, name: str) -> float:
    _status, text = agent.call("GET", "/metrics")
    (line,) = [each for each in text.decode().splitlines() if each.startswith(name + " ")]
    return float(line.split()[-1])


# While it runs.


def test_a_full_disk_refuses_registrations_and_nothing_else(agent: Agent, disk: SmallDisk) -> None:
    assert register(agent, "before") == (200, b"")
    disk.fill()
    assert [register(agent, f"s{number}") for number in range(12)] == [(500, FULL)] * 12
    assert services(agent) == ["before"]
    assert agent.get_json("/v1/health/service/s1") == []
    assert agent.put("/v1/agent/check/pass/service:before?note=fine") == (200, b"")
    assert until(lambda: metric(agent, "adsum_storage_unsaved_files") > 0, within_s=WRITTEN_S_MAX)
    assert int(agent.get_json("/v1/agent/self")["Stats"]["agent"]["unsaved_files"]) > 0
    disk.make_room()
    assert register(agent, "after") == (200, b"")
    assert until(lambda: "nothing is left unsaved" in agent.log(), within_s=WRITTEN_S_MAX)
    assert metric(agent, "adsum_storage_unsaved_files") == 0
    agent.kill()
    agent.start_again()
    assert services(agent) == ["after", "before"]
    assert agent.get_json("/v1/agent/checks")["service:before"]["Output"] == "fine"


def test_on_a_full_disk_a_service_can_be_deregistered(agent: Agent, disk: SmallDisk) -> None:
    register(agent, "before")
    disk.fill()
    assert agent.put("/v1/agent/service/deregister/before") == (200, b"")
    agent.kill()
    agent.start_again()
    assert services(agent) == []


def test_a_disk_mounted_read_only_refuses_every_change(agent: Agent, disk: SmallDisk) -> None:
    register(agent, "before")
    disk.mount_read_only()
    assert register(agent, "after") == (500, READ_ONLY)
    assert agent.put("/v1/agent/service/deregister/before") == (500, READ_ONLY)
    assert agent.put("/v1/agent/maintenance?enable=true") == (500, READ_ONLY)
    assert agent.put("/v1/catalog/deregister", {"Node": "n1", "ServiceID": "before"}) == (500, READ_ONLY)
    assert services(agent) == ["before"]
    disk.mount_writable()
    assert register(agent, "after") == (200, b"")
    assert services(agent) == ["after", "before"]


# At its start.


@pytest.mark.parametrize("how", ["full", "mounted read-only"])
def test_an_agent_starts_where_it_cannot_write_and_writes_when_it_can(
    agent: Agent, disk: SmallDisk, how: str
) -> None:
    register(agent, "before")
    same_id, last = node_id(agent), generation(disk)
    agent.kill()
    disk.fill() if how == "full" else disk.mount_read_only()
    agent.start_again()
    assert (services(agent), node_id(agent)) == (["before"], same_id)
    assert register(agent, "after")[0] == 500
    assert "a restart finds what was saved last: " in agent.log()
    assert generation(disk) == last
    disk.make_room() if how == "full" else disk.mount_writable()
    assert until(lambda: generation(disk) > last, within_s=WRITTEN_S_MAX)
    assert until(lambda: "nothing is left unsaved" in agent.log(), within_s=WRITTEN_S_MAX)
    assert agent.stop() == 0


def test_a_first_start_on_a_full_disk_keeps_its_new_id_when_it_can(disk: SmallDisk) -> None:
    (disk.files / "data").mkdir()
    disk.fill()
    with running(disk.program, config(disk), arguments=()) as agent:
        new_id = node_id(agent)
        assert f"the new node id {new_id} cannot be kept in data_dir yet" in agent.log()
        disk.make_room()
        path = disk.files / "data" / "node-id"
        assert until(lambda: path.exists() and path.read_text() == new_id, within_s=WRITTEN_S_MAX)


# A data folder that is deleted.


@pytest.mark.parametrize("how", ["deleted", "emptied"])
def test_a_data_folder_that_is_gone_is_written_anew_without_anybody_asking(
    agent: Agent, disk: SmallDisk, how: str
) -> None:
    for name in ("one", "two"):
        register(agent, name)
    agent.put("/v1/agent/check/pass/service:one?note=fine")
    same_id, last = node_id(agent), generation(disk)
    data = disk.files / "data"
    shutil.rmtree(data)
    if how == "emptied":
        data.mkdir()
    assert until(lambda: LOST in agent.log(), within_s=WRITTEN_S_MAX)
    files = [data / "ttl-states", data / "generation"]  # in whichever order they come
    assert until(lambda: all(file.exists() for file in files), within_s=WRITTEN_S_MAX)
    assert agent.log().count(LOST) == 1
    assert generation(disk) == last
    agent.kill()
    agent.start_again()
    assert (services(agent), node_id(agent)) == (["one", "two"], same_id)
    assert agent.get_json("/v1/agent/checks")["service:one"]["Output"] == "fine"


def test_a_data_folder_that_is_gone_is_noticed_by_the_next_registration(
    agent: Agent, disk: SmallDisk, tmp_path: Path
) -> None:
    register(agent, "one")
    shutil.rmtree(disk.files / "data")
    assert register(agent, "two") == (200, b"")
    assert until(lambda: len(list((disk.files / "data" / "services").iterdir())) == 2, within_s=WRITTEN_S_MAX)
    second = launch(disk.program, tmp_path, free_ports(), config(disk), ())
    assert second.wait_for_end() == 1
    assert "in use by another agent" in second.log()


def test_a_server_without_room_for_its_log_does_everything_else(disk: SmallDisk) -> None:
    """No log fits on this disk."""
    flags = ("-server=true", "-bootstrap=true")  # it never has a leader, for which nobody waits here
    with running(disk.program, config(disk), arguments=flags) as agent:
        assert register(agent, "web")[0] == 200
        status, body = agent.put("/v1/kv/a")
        assert status == 507
        assert body.startswith(b"this server keeps no keys until there is room for the log of consensus")
        assert agent.log().count("[ERROR] agent: this server keeps no keys") == 1
