"""The boards and the rules, asked of a real Prometheus that scrapes five real agents in trouble: they
join, one crashes and comes back (a flap), one stands still and has to say that it lives, one leaves. Two are
servers, which keep keys.

What the agents see is read from Prometheus too, so that it has scraped what it is asked about.
"""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from tests.deploy.promql import read
from tests.deploy.test_grafana import BOARDS, queries
from tests.deploy.test_prometheus import ALERTS, FOLDER, RULES
from tests.system.agents import AgentFailed, adsum_program, free_ports, until
from tests.system.clusters import Cluster, Member, emptied, loopbacks, role

AGENTS = 5
READY_S_MAX = 30.0
SEEN_S_MAX = 60.0
SCRAPE_INTERVAL = "1s"
KEYS = 40
SNAPSHOTS = {"raft_snapshot_threshold": 20, "raft_snapshot_interval": "1s"}


class Prometheus(NamedTuple):
    port: int

    def query(self, expr: str) -> list[dict[str, Any]]:
        """What an instant query gives: a list of series, empty where there are none."""
        result: list[dict[str, Any]] = self.get(f"/api/v1/query?query={quote(expr)}")["result"]
        return result

    def holds(self, expr: str, *, within_s: float = SEEN_S_MAX) -> bool:
        return bool(until(lambda: self.query(expr), within_s=within_s))

    def get(self, target: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", target)
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        assert answer["status"] == "success", answer
        return answer["data"]

    def is_ready(self) -> bool:
        try:
            return bool(self.get("/api/v1/status/runtimeinfo"))
        except (OSError, http.client.HTTPException, ValueError):
            return False


@contextmanager
def scraping(program: str, cluster: Cluster) -> Iterator[Prometheus]:
    folder = Path(tempfile.mkdtemp(prefix="prometheus-"))
    port = free_ports().http
    targets = [f"127.0.0.1:{member.place.ports.http}" for member in cluster.members]
    config = {
        "global": {"scrape_interval": SCRAPE_INTERVAL, "evaluation_interval": SCRAPE_INTERVAL},
        "rule_files": [str(FOLDER / "adsum-rules.yml")],
        "scrape_configs": [{"job_name": "adsum", "static_configs": [{"targets": targets}]}],
    }
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    command = [
        program,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=folder)
    try:
        prometheus = Prometheus(port)
        if not until(prometheus.is_ready, within_s=READY_S_MAX):
            raise AgentFailed(f"Prometheus is not ready:\n{(folder / 'log').read_text()[-2_000:]}")
        yield prometheus
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def prometheus(debian_tool: Callable[[str], str]) -> Iterator[Prometheus]:
    """After a while in which everything happened that the board shows."""
    program = debian_tool("prometheus")
    with emptied(Cluster(adsum_program())) as cluster:
        places = loopbacks(AGENTS)
        for place in places:
            if place is places[-1]:  # the first one founds alone, and takes this one in
                assert until(lambda: has_leader(cluster.members[0]), within_s=READY_S_MAX)
            more = SNAPSHOTS if place is places[0] else {"server": place is places[-1]}
            cluster.add(place, {**role(places, place), **more, "leave_on_terminate": True})
        with scraping(program, cluster) as asked:
            live_through(cluster, asked)
            yield asked


def has_leader(server: Member) -> bool:
    return server.ask("/v1/status/leader") not in (b"", b'""')


def live_through(cluster: Cluster, asked: Prometheus) -> None:
    leader, crashing, standing, leaving, _ = cluster.members
    assert asked.holds(f'count(adsum_members{{state="alive"}} == {AGENTS}) == {AGENTS}'), cluster.complaint()
    crashing.kill()
    assert asked.holds(f'count(adsum_members{{state="failed"}} == 1) == {AGENTS - 1}')
    assert asked.holds('ALERTS{alertname="AdsumMembersFailed", alertstate="pending"}')
    assert asked.holds('ALERTS{alertname="AdsumAgentDown", alertstate="pending"}')
    crashing.restart()
    assert asked.holds("max(adsum_member_flaps_total) >= 1")
    assert asked.holds(f'count(adsum_members{{state="alive"}} == {AGENTS}) == {AGENTS}')
    standing.pause()
    assert asked.holds('max(adsum_members{state="suspect"}) == 1')
    standing.resume()
    assert asked.holds("max(adsum_false_suspicions_total) >= 1")
    assert asked.holds(f'count(adsum_members{{state="alive"}} == {AGENTS}) == {AGENTS}')
    leaving.agent.stop()
    assert asked.holds(f'count(adsum_members{{state="left"}} == 1) == {AGENTS - 1}')
    assert asked.holds("count(adsum_raft_follower_silent_seconds < 5) == 1")
    for number in range(KEYS):
        assert leader.put(f"/v1/kv/key-{number}", number) == (200, b"true")
    assert asked.holds("count(adsum_raft_follower_lag_entries == 0) == 1")
    assert asked.holds('max(adsum_raft_snapshots_total{what="made"}) >= 1')


def of_boards() -> list[tuple[str, str]]:
    """With the whole story within the interval that rates are taken over."""
    asked = [each for path in BOARDS for each in queries(json.loads(path.read_text()))]
    # Marks are drawn where something happened; that the leader changes is no part of the story.
    return [(title, expr.replace("[1m]", "[10m]").removesuffix(" > 0")) for title, expr in asked]


def test_every_query_of_the_board_returns_data(prometheus: Prometheus) -> None:
    silent = [(title, expr) for title, expr in of_boards() if not numbers(prometheus.query(expr))]
    assert silent == []


def test_every_recorded_series_is_there(prometheus: Prometheus) -> None:
    recorded = [rule.name for rule in RULES if not rule.is_alert]
    assert recorded
    assert [name for name in recorded if not numbers(prometheus.query(name))] == []


def test_every_alert_watches_series_that_are_there(prometheus: Prometheus) -> None:
    selectors = {str(selector) for alert in ALERTS for selector in read(alert.expr).selectors}
    assert [each for each in sorted(selectors) if not prometheus.query(each)] == []


def test_prometheus_evaluates_every_rule_without_an_error(prometheus: Prometheus) -> None:
    rules = [rule for group in prometheus.get("/api/v1/rules")["groups"] for rule in group["rules"]]
    assert [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"] == []
    assert len(rules) == len(RULES)


@pytest.mark.parametrize(
    "expr",
    [
        'max(adsum_member_transitions_total{from="unknown", to="alive", cause="joined"}) >= 4',
        'max(adsum_member_transitions_total{from="suspect", to="failed"}) >= 1',
        'max(adsum_member_transitions_total{from="failed", to="alive", cause="restarted"}) >= 1',
        'max(adsum_member_transitions_total{from=~"suspect|failed", to="alive", cause="refuted"}) >= 1',
        'max(adsum_member_transitions_total{to="left", cause="left"}) >= 1',
        "sum(max_over_time(adsum_suspicions_raised_total[10m])) >= 2",
        "sum(max_over_time(adsum_gossip_news_age_seconds_count[10m])) >= 4",
        "sum(max_over_time(adsum_suspicion_verdict_seconds_count[10m])) >= 1",
        "sum(max_over_time(adsum_verdict_phi_count[10m])) >= 1",
        "sum(max_over_time(adsum_probe_rtt_seconds_count[10m])) >= 10",
        'sum(max_over_time(adsum_gossip_undeliverable_total{error="port"}[10m])) >= 1',
        "sum(max_over_time(consul_serf_member_flap[10m])) >= 1",
        "count(count_values('digest', adsum_members_view_digest)) == 1",
        "count(adsum_raft_leader == 1) == 1",
        "count(adsum_raft_leader_known == 1) == 2",
        f"min(adsum_kv_keys) == {KEYS}",
        "sum(adsum_raft_write_seconds_count) >= 1",
        "max(consul_raft_apply) > 40",
    ],
)
def test_what_happened_is_in_the_numbers(prometheus: Prometheus, expr: str) -> None:
    """Over time, where the one agent that counted it may be the one that left."""
    assert prometheus.holds(expr), prometheus.query(expr.rsplit(" ", 2)[0])


def numbers(result: list[dict[str, Any]]) -> list[str]:
    return [series["value"][1] for series in result if series["value"][1] != "NaN"]
