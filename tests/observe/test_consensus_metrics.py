"""Consensus and keys as a scraper sees them, read from shipped cores."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest

from adsum import kv
from adsum.config.config import Telemetry
from adsum.kv import KeyRead, KeyVerb, KeyWrite, ReadMode, ReadShape
from adsum.observe.consensus_metrics import CONSENSUS
from adsum.observe.consul_server_metrics import CONSUL_SERVERS
from adsum.observe.exposition import Exposition
from adsum.observe.series import SeriesKind
from adsum.observe.server_source import ServerSource
from adsum.observe.session_metrics import SESSIONS
from adsum.raft.errors import TooLarge
from adsum.servers.stages import WriteStage
from tests.api.agents import FakeAgent
from tests.observe.readings import samples
from tests.observe.servers import LeadingServer, not_of_a_cluster_yet
from tests.observe.support import sources
from tests.sessions.support import Leader, Log, session

LEADER_ONLY = {
    "adsum_raft_failure_tolerance",
    "adsum_raft_follower_lag_entries",
    "adsum_raft_follower_silent_seconds",
    "autopilot.healthy",
    "autopilot.failure_tolerance",
}


def exposed(server: ServerSource | None) -> Exposition:
    return Exposition(replace(sources(FakeAgent()), server=server), Telemetry())


def shown(server: ServerSource | None) -> dict[str, float]:
    text = exposed(server).prometheus().decode()
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


# Which series there are.


def test_a_client_agent_shows_none_of_it() -> None:
    names = [
        name
        for name in shown(None)
        if name.startswith(("adsum_raft", "adsum_kv", "adsum_agent_", "consul_raft", "consul_kvs"))
    ]
    assert names == []


def names_of(server: ServerSource) -> set[str]:
    return {name for name, _ in samples(exposed(server))}


def test_a_server_shows_all_of_it_from_the_first_scrape_also_before_there_is_a_cluster() -> None:
    names = names_of(not_of_a_cluster_yet())
    for series in (*CONSENSUS, *SESSIONS):
        name = f"{series.name}_bucket" if series.kind is SeriesKind.HISTOGRAM else series.name
        assert name in names or name in LEADER_ONLY
    for series in CONSUL_SERVERS:
        flat = f"consul_{series.name.replace('.', '_')}"
        assert {flat, f"{flat}_count"} & names or series.name in LEADER_ONLY
    assert {"adsum_raft_follower_lag_entries", "consul_autopilot_healthy"} & names == set()


def test_a_leader_adds_what_only_a_leader_knows_and_no_series_is_born_later() -> None:
    server = LeadingServer()
    server.hear()
    before = set(samples(exposed(server.source)))
    assert {"adsum_raft_follower_lag_entries", "adsum_raft_failure_tolerance"} <= {name for name, _ in before}
    assert {"consul_autopilot_healthy", "consul_autopilot_failure_tolerance"} <= {name for name, _ in before}
    server.keys.keys.write(KeyWrite(KeyVerb.PUT, b"a", b"1"), lambda _answer: None)
    server.driver.stages.times[WriteStage.SYNC].add(0.001)
    server.driver.snapshots_written.add(0.1)
    server.go_on()
    assert set(samples(exposed(server.source))) == before


def test_promtool_finds_no_fault_with_a_servers_series(debian_tool: Callable[[str], str]) -> None:
    text = exposed(LeadingServer().source).prometheus()
    command = [debian_tool("promtool"), "check", "metrics"]
    done = subprocess.run(command, input=text, capture_output=True, check=False)
    complaints = [line for line in done.stderr.decode().splitlines() if line.startswith("adsum_")]
    assert complaints == []
    assert b"error while linting" not in done.stderr


# What they say.


def test_who_leads_in_which_term_and_how_far_the_log_is() -> None:
    read = shown(LeadingServer().source)
    assert read["adsum_raft_leader"] == read["adsum_raft_leader_known"] == 1
    assert read["adsum_raft_term"] == 2
    assert read['adsum_raft_role{role="leader"}'] == 1
    assert read['adsum_raft_role{role="follower"}'] == 0
    assert read["adsum_raft_elections_total"] == 1
    assert read["adsum_raft_leader_changes_total"] == 0
    assert read['adsum_raft_members{kind="voter"}'] == read['adsum_raft_members{kind="learner"}'] == 1
    assert read["adsum_raft_last_index"] == read["adsum_raft_commit_index"] == 2
    assert read["adsum_raft_applied_index"] == 2
    assert read["adsum_raft_entries_since_snapshot"] == 1
    assert read["adsum_raft_log_entries"] == 1
    assert read['adsum_raft_log_bytes{where="memory"}'] == 64  # the first entry of its term has no data
    assert read['adsum_raft_log_bytes{where="disk"}'] == 256 << 10
    assert read["adsum_raft_log_full"] == 0
    assert read["adsum_raft_log_sync_seconds_count"] >= 2  # the first snapshot, and the first entry
    assert read["adsum_raft_group_entries_sum"] == 1
    assert read["consul_raft_state_leader"] == 1
    assert read["consul_raft_apply"] == 1
    assert read["consul_raft_peers"] == 1


def test_the_leader_tells_what_each_follower_lacks_and_when_it_was_heard() -> None:
    server = LeadingServer()
    server.hear()
    server.pass_ms(250)
    read = shown(server.source)
    assert read['adsum_raft_follower_lag_entries{node="name of n2"}'] == 2
    assert read['adsum_raft_follower_silent_seconds{node="name of n2"}'] == 0.25
    assert read['consul_raft_leader_lastContact{quantile="0.99"}'] == 250
    assert read["adsum_raft_failure_tolerance"] == 0
    assert read["consul_autopilot_healthy"] == 1


def test_a_follower_that_a_new_leader_never_heard_is_silent_since_it_leads() -> None:
    """A server may have failed at the same moment as the previous leader, and has to show in the metrics."""
    server = LeadingServer()
    server.pass_ms(70_000)
    assert shown(server.source)['adsum_raft_follower_silent_seconds{node="name of n2"}'] == 70


def test_keys_and_what_is_remembered_of_them() -> None:
    server = LeadingServer()
    keys = server.keys.keys
    for write in (
        KeyWrite(KeyVerb.PUT, b"a", b"1"),
        KeyWrite(KeyVerb.PUT, b"b", b"22"),
        KeyWrite(KeyVerb.PUT, b"b", b"3", cas=1_000),
        KeyWrite(KeyVerb.DELETE, b"a"),
    ):
        keys.write(write, lambda _answer: None)
    keys.read(KeyRead(ReadShape.KEY, b"b"), lambda _found: None)
    keys.read(KeyRead(ReadShape.KEY, b"b", mode=ReadMode.STALE), lambda _found: None)
    keys.read(KeyRead(ReadShape.KEY, b"b", since=4), lambda _found: None)
    read = shown(server.source)
    assert read["adsum_kv_keys"] == read["consul_state_kv_entries"] == 1
    assert read["adsum_kv_bytes"] == 190 + 2 + 1
    assert read["adsum_kv_revision"] == 6
    assert read["adsum_kv_history_changes"] == 3
    assert read["adsum_kv_history_bytes"] == 3 * 121 + 190 + 1
    assert read["adsum_kv_tombstones"] == 1
    assert read["adsum_kv_result_agents"] == 1
    assert read["adsum_kv_waiters"] == 1
    assert read['adsum_kv_writes_total{outcome="done",verb="put"}'] == 2
    assert read['adsum_kv_writes_total{outcome="compare_failed",verb="put"}'] == 1
    assert read['adsum_kv_writes_total{outcome="done",verb="delete"}'] == 1
    assert read['adsum_kv_reads_total{mode="default"}'] == 2
    assert read['adsum_kv_reads_total{mode="stale"}'] == 1
    keys.write(KeyWrite(KeyVerb.PUT, b"b", b"4"), lambda _answer: None)
    read = shown(server.source)
    assert (read["adsum_kv_wakes_total"], read["adsum_kv_waiters"]) == (1, 0)


def test_what_is_refused_is_counted_by_its_cause() -> None:
    server = LeadingServer()
    server.keys.refuses = TooLarge("much")
    server.keys.keys.write(KeyWrite(KeyVerb.PUT, b"a", b"1"), lambda _answer: None)
    server.keys.keys.read(KeyRead(ReadShape.KEY, b"a"), lambda _found: None)
    read = shown(server.source)
    assert read['adsum_kv_refused_total{cause="too_large"}'] == 2
    assert read['adsum_kv_refused_total{cause="no_leader"}'] == 0


def test_what_client_agents_ask_is_counted_and_who_is_none_of_ours() -> None:
    server = LeadingServer()
    server.agents.strangers = 2
    server.agents.call_counters.in_flight, server.agents.call_counters.cancelled = 7, 5
    server.agent_places.open, server.agent_places.turned_away = 9, 1
    server.agents.unread_counters.refused["host"] = 3
    node = UUID(int=1).bytes
    for body in (kv.encode(KeyRead(ReadShape.KEY, b"k")), b"\xff"):
        server.agents.questions.begin(node, "key.read", body, lambda _end: None)
    read = shown(server.source)
    assert read["adsum_agent_lines_open"] == 9
    assert read["adsum_agent_lines_turned_away_total"] == 1
    assert read["adsum_agent_calls_open"] == 7
    assert read['adsum_agent_calls_total{how="cancelled"}'] == 5
    assert read['adsum_agent_questions_total{what="reads"}'] == 1
    assert read['adsum_agent_questions_total{what="writes"}'] == 0
    assert read['adsum_agent_questions_refused_total{reason="stranger"}'] == 2
    assert read['adsum_agent_questions_refused_total{reason="malformed"}'] == 1
    assert read['adsum_agent_unread_refused_total{limit="host"}'] == 3


def test_stages_and_snapshots_are_histograms_by_their_label() -> None:
    server = LeadingServer()
    server.driver.stages.times[WriteStage.SYNC].add(0.002)
    server.driver.snapshots_read.add(0.3)
    read = shown(server.source)
    assert read['adsum_raft_write_stage_seconds_bucket{le="0.001",stage="sync"}'] == 0
    assert read['adsum_raft_write_stage_seconds_bucket{le="0.0025",stage="sync"}'] == 1
    assert read['adsum_raft_write_stage_seconds_count{stage="queue"}'] == 0
    assert read['adsum_raft_snapshot_seconds_bucket{le="0.5",what="read"}'] == 1
    assert read['adsum_raft_snapshot_seconds_count{what="write"}'] == 0


# As Consul tells it.


def test_consuls_timers_are_summaries_in_milliseconds_with_quantiles_of_the_last_interval() -> None:
    server = LeadingServer()
    exposition = exposed(server.source)
    whole = server.driver.stages.whole
    whole.add(4.0)  # long ago
    exposition.end_interval()
    for _ in range(9):
        whole.add(0.004)
    whole.add(0.04)
    exposition.end_interval()
    shown_now = samples(exposition)
    assert shown_now["consul_kvs_apply_count", ()].value == 11
    assert shown_now["consul_kvs_apply_sum", ()].value == pytest.approx(4_076)
    assert shown_now["consul_kvs_apply", ("0.9",)].value == pytest.approx(5)
    assert shown_now["consul_kvs_apply", ("0.99",)].value == pytest.approx(47.5)
    exposition.end_interval()
    assert str(samples(exposition)["consul_kvs_apply", ("0.9",)].value) == "nan"


def test_consuls_json_counts_what_it_times() -> None:
    server = LeadingServer()
    exposition = exposed(server.source)
    server.driver.stages.whole.add(0.004)
    exposition.end_interval()
    exposition.end_interval()
    told = exposition.consul()
    assert {"Name": "consul.raft.applied_index", "Value": 2, "Labels": {}} in told["Gauges"]  # type: ignore[operator]
    assert "consul.kvs.apply" in str(told["Counters"])


# Sessions.


def test_sessions_and_how_they_end_and_what_the_leader_does_for_them() -> None:
    server = LeadingServer()
    log = Log(server.keys.machine)
    log.create(session("a"), session("b"))
    leader = Leader(log, keeper=server.sessions).proven()
    leader.renewed("a", "gone")
    leader.pass_to(1)
    read = shown(server.source)
    assert read["adsum_sessions"] == read["adsum_sessions_with_ttl"] == read["consul_session_ttl_active"] == 2
    assert read["consul_session_apply_count"] == 2
    assert read['adsum_session_renewals_total{what="renewed"}'] == read["consul_session_renew_count"] == 1
    assert read['adsum_session_renewals_total{what="not_found"}'] == 1
    leader.pass_to(30)
    read = shown(server.source)
    assert read['adsum_sessions_ended_total{cause="expired"}'] == 2
    assert read['adsum_sessions_ended_total{cause="node_failed"}'] == 0
    assert read["consul_session_ttl_invalidate_count"] == 2
    assert read['adsum_session_entries_total{what="expiries"}'] == 1
    assert read["adsum_sessions"] == read["adsum_sessions_with_ttl"] == 0


def test_a_leader_that_stood_still_says_that_it_ends_no_sessions() -> None:
    server = LeadingServer()
    name = "adsum_sessions_time_untrusted"
    assert shown(server.source)[name] == 1  # it has just begun to lead
    Leader(Log(server.keys.machine), keeper=server.sessions).proven()
    assert shown(server.source)[name] == 0
    server.core.pace.is_time_trusted = False
    assert shown(server.source)[name] == 1
