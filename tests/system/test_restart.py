"""What survives kill -9: registrations at once, TTL states as of a second ago, and nothing that was taken
back.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tests.system.agents import Agent, until

# TTL states are written at most once a second, and nothing outside tells when.
WRITTEN_S_MAX = 5.0
WEB = {"Name": "web", "ID": "web1", "Port": 80, "Tags": ["a"], "Meta": {"k": "v"}}


def test_registration_is_there_after_kill_right_behind_the_reply(durable_agent: Agent) -> None:
    status, _ = durable_agent.put("/v1/agent/service/register", WEB)
    durable_agent.kill()
    assert status == 200
    durable_agent.start_again()
    service = durable_agent.get_json("/v1/agent/service/web1")
    assert (service["Port"], service["Tags"], service["Meta"]) == (80, ["a"], {"k": "v"})
    assert len(durable_agent.get_json("/v1/health/service/web")) == 1


def test_every_one_of_many_registrations_survives(durable_agent: Agent) -> None:
    for number in range(50):
        status, _ = durable_agent.put(
            "/v1/agent/service/register", {"Name": f"s{number}", "Check": {"TTL": "1h"}}
        )
        assert status == 200
    durable_agent.kill()
    durable_agent.start_again()
    assert sorted(durable_agent.get_json("/v1/agent/services")) == sorted(
        f"s{number}" for number in range(50)
    )
    assert len(durable_agent.get_json("/v1/agent/checks")) == 50


def test_deregistration_survives_too(durable_agent: Agent) -> None:
    durable_agent.put("/v1/agent/service/register", WEB)
    durable_agent.put("/v1/agent/service/deregister/web1")
    durable_agent.kill()
    durable_agent.start_again()
    assert durable_agent.get_json("/v1/agent/services") == {}


def test_check_registered_alone_survives(durable_agent: Agent) -> None:
    durable_agent.put("/v1/agent/check/register", {"Name": "memory", "ID": "mem", "TTL": "1h"})
    durable_agent.kill()
    durable_agent.start_again()
    assert durable_agent.get_json("/v1/agent/checks")["mem"]["Name"] == "memory"


def test_ttl_state_survives_kill(durable_agent: Agent) -> None:
    durable_agent.put("/v1/agent/service/register", {**WEB, "Check": {"TTL": "1h"}})
    durable_agent.put("/v1/agent/check/pass/service:web1?note=fine")
    assert until(lambda: is_on_disk(durable_agent, b"fine"), within_s=WRITTEN_S_MAX)
    durable_agent.kill()
    durable_agent.start_again()
    check = durable_agent.get_json("/v1/agent/checks")["service:web1"]
    assert (check["Status"], check["Output"]) == ("passing", "fine")


def test_maintenance_survives_kill(durable_agent: Agent) -> None:
    durable_agent.put("/v1/agent/service/register", WEB)
    durable_agent.put("/v1/agent/service/maintenance/web1?enable=true&reason=upgrade")
    durable_agent.kill()
    durable_agent.start_again()
    check = durable_agent.get_json("/v1/agent/checks")["_service_maintenance:web1"]
    assert (check["Status"], check["Notes"]) == ("critical", "upgrade")


def test_corrupt_registration_is_set_aside_and_the_rest_lives(durable_agent: Agent) -> None:
    durable_agent.put("/v1/agent/service/register", WEB)
    durable_agent.put("/v1/agent/service/register", {"Name": "db", "ID": "db1"})
    durable_agent.kill()
    (victim,) = [path for path in files(durable_agent) if b"web1" in path.read_bytes()]
    victim.write_bytes(b"\x00garbage\xff")
    durable_agent.start_again()
    assert list(durable_agent.get_json("/v1/agent/services")) == ["db1"]
    assert victim.name in durable_agent.log()


def test_node_keeps_its_id(durable_agent: Agent) -> None:
    before = durable_agent.get_json("/v1/agent/self")["Config"]["NodeID"]
    durable_agent.kill()
    durable_agent.start_again()
    assert durable_agent.get_json("/v1/agent/self")["Config"]["NodeID"] == before


def is_on_disk(agent: Agent, needle: bytes) -> bool:
    for path in files(agent):
        with suppress(FileNotFoundError):  # one that was only on its way to another name
            if needle in path.read_bytes():
                return True
    return False


def files(agent: Agent) -> list[Path]:
    """But for the log of consensus, whose files come and go."""
    found = (agent.folder / "data").rglob("*")
    return [path for path in found if "raft" not in path.parts and path.is_file()]
