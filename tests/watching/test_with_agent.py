"""Watches in the configuration of a real agent."""

from __future__ import annotations

import json
from pathlib import Path

from tests.system.agents import adsum_program, running, until
from tests.system.clusters import Cluster, emptied, joining, loopbacks

WAIT_S = 20.0


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_a_change_of_a_key_runs_its_handler_until_a_reload_takes_the_watch_away(tmp_path: Path) -> None:
    told, services = tmp_path / "told", tmp_path / "services"
    of_services = {"type": "services", "handler": f"cat >>{services}"}
    of_key = {"type": "key", "key": "a", "args": ["/bin/sh", "-c", f"cat >>{told}"]}
    with running(adsum_program(), {"watches": [of_key, of_services]}) as agent:
        until(lambda: len(lines_of(told)) == 1, within_s=WAIT_S)
        agent.call("PUT", "/v1/kv/a", b"1")
        until(lambda: len(lines_of(told)) == 2, within_s=WAIT_S)
        assert json.loads(lines_of(told)[1])["Value"] == "MQ=="

        config = json.loads((agent.folder / "config.json").read_text())
        (agent.folder / "config.json").write_text(json.dumps(config | {"watches": [of_services]}))
        agent.put("/v1/agent/reload")
        agent.call("PUT", "/v1/kv/a", b"2")
        before = lines_of(services)
        agent.put("/v1/agent/service/register", {"Name": "web"})
        until(lambda: len(lines_of(services)) == len(before) + 1, within_s=WAIT_S)
        assert len(lines_of(told)) == 2
        assert [sorted(json.loads(line)) for line in lines_of(services)][-1] == ["consul", "web"]


def test_the_first_that_a_handler_hears_of_a_cluster_is_what_is_in_it(tmp_path: Path) -> None:
    told = tmp_path / "told"
    watch = {"type": "service", "service": "web", "args": ["/bin/sh", "-c", f"cat >>{told}"]}
    first, second = loopbacks(2)
    with emptied(Cluster(adsum_program())) as cluster:
        cluster.add(first, {"services": [{"name": "web", "port": 80}]})
        cluster.add(second, {**joining(first), "watches": [watch]})
        assert until(lambda: lines_of(told), within_s=WAIT_S)
    assert [each["Service"]["Port"] for each in json.loads(lines_of(told)[0])] == [80]
