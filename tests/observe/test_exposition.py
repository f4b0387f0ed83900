"""Oracles for the text are prometheus-client's parser and promtool; the JSON's shape was read off Consul."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest
import trio
from trio.testing import MockClock

from adsum.config.config import Telemetry
from adsum.dns_server.counters import AnswerLabels, DnsCounters
from adsum.observe.consul_metrics import CONSUL
from adsum.observe.exposition import Exposition
from adsum.observe.metrics import ADSUM
from adsum.observe.series import SeriesKind
from tests.observe.readings import samples, sources


def test_every_series_is_there_from_the_first_scrape() -> None:
    names = {name for name, _ in samples(Exposition(sources(), Telemetry()))}
    for series in ADSUM:
        shown = f"{series.name}_bucket" if series.kind is SeriesKind.HISTOGRAM else series.name
        assert shown in names
    for series in CONSUL:
        flat = f"consul_{series.name.replace('.', '_')}"
        assert (f"{flat}_count" if series.kind is SeriesKind.TIMER else flat) in names
    assert {"process_resident_memory_bytes", "python_gc_collections_total"} <= names


def test_no_series_is_born_later() -> None:
    read = sources()
    exposition = Exposition(read, Telemetry())
    before = set(samples(exposition))
    read.http.requests["GET"][2] += 5
    read.http.rejected["host"] += 1
    read.dns.answered[AnswerLabels("udp", "SRV", "NOERROR")] += 3
    read.checks.critical += 1
    read.lag.note_pass(0, 10)
    read.logs.lines["warn"] += 1
    assert set(samples(exposition)) == before


def test_counters_of_the_rooms_are_what_is_shown() -> None:
    read = sources()
    read.http.requests["GET"][2] += 5
    read.dns.answered[AnswerLabels("udp", "SRV", "NOERROR")] += 3
    read.dns.answered[AnswerLabels("tcp", "PTR", "NXDOMAIN")] += 2
    read.checks.critical += 7
    shown = samples(Exposition(read, Telemetry()))
    assert shown["adsum_http_requests_total", ("2xx", "GET")].value == 5
    assert shown["adsum_dns_queries_total", ("NOERROR", "SRV", "udp")].value == 3
    assert shown["adsum_check_results_total", ("critical",)].value == 7
    assert shown["consul_dns_domain_query_count", ("n1",)].value == 3
    assert shown["consul_dns_ptr_query_count", ("n1",)].value == 2


def test_the_histogram_is_cumulated() -> None:
    read = sources()
    for held_ns in (10, 10, 30_000_000):
        read.lag.note_pass(0, held_ns)
    shown = samples(Exposition(read, Telemetry()))
    assert shown["adsum_event_loop_lag_seconds_bucket", ("0.0001",)].value == 2
    assert shown["adsum_event_loop_lag_seconds_bucket", ("0.02",)].value == 2
    assert shown["adsum_event_loop_lag_seconds_bucket", ("0.05",)].value == 3
    assert shown["adsum_event_loop_lag_seconds_bucket", ("+Inf",)].value == 3
    assert shown["adsum_event_loop_lag_seconds_sum", ()].value == pytest.approx(0.03000002)
    assert shown["adsum_event_loop_over_budget_total", ()].value == 1


def test_json_has_consuls_shape() -> None:
    answer = Exposition(sources(), Telemetry()).consul()
    assert set(answer) == {"Timestamp", "Gauges", "Points", "Counters", "Samples"}
    assert str(answer["Timestamp"]).endswith("+0000 UTC")
    assert {"Name": "consul.server.isLeader", "Value": 1, "Labels": {}} in _listed(answer, "Gauges")
    assert {
        "Name": "consul.dns.domain_query",
        "Count": 0,
        "Rate": 0.0,
        "Sum": 0,
        "Min": 0,
        "Max": 0,
        "Mean": 0,
        "Stddev": 0,
        "Labels": {"node": "n1"},
    } in _listed(answer, "Counters")


def _listed(answer: dict[str, object], key: str) -> list[object]:
    items = answer[key]
    assert isinstance(items, list)
    return items


def _domain_queries(exposition: Exposition) -> object:
    for item in _listed(exposition.consul(), "Counters"):
        assert isinstance(item, dict)
        if item["Name"] == "consul.dns.domain_query":
            return item["Count"], item["Rate"]
    raise AssertionError("not told")


def test_json_tells_of_the_last_complete_interval() -> None:
    read = sources()
    exposition = Exposition(read, Telemetry())
    question = AnswerLabels("udp", "A", "NOERROR")
    read.dns.answered[question] += 4
    assert _domain_queries(exposition) == (4, 0.4)  # none is complete yet: since the start
    exposition.end_interval()
    read.dns.answered[question] += 10
    assert _domain_queries(exposition) == (4, 0.4)
    exposition.end_interval()
    assert _domain_queries(exposition) == (10, 1.0)
    exposition.end_interval()
    assert _domain_queries(exposition) == (0, 0.0)


def test_prefix_and_filter_are_the_configured_ones() -> None:
    telemetry = Telemetry(metrics_prefix="my-site", prefix_filter=("-my-site.dns", "+my-site.dns.ptr_query"))
    names = {name for name, _ in samples(Exposition(sources(), telemetry))}
    assert "my_site_runtime_num_goroutines" in names
    assert "my_site_dns_ptr_query_count" in names
    assert "my_site_dns_domain_query_count" not in names
    only = Telemetry(prefix_filter=("+consul.server",), filter_default=False)
    shown = {name for name, _ in samples(Exposition(sources(), only)) if name.startswith("consul_")}
    assert shown == {"consul_server_isLeader"}


def test_prometheus_client_is_loaded_by_the_first_scrape_only() -> None:
    script = "import adsum.observe.exposition, sys; sys.exit('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


LOADED_WHERE = """
import sys, threading, trio
from adsum.observe.exposition import Exposition
from adsum.config.config import Telemetry
from tests.api.agents import FakeAgent
from tests.observe.support import sources

class Watcher:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("prometheus_client") or name == "adsum.observe.metrics":
            is_loop = threading.current_thread() is threading.main_thread()
            print(f"{name} by the loop" if is_loop else "by a thread")

sys.meta_path.insert(0, Watcher())
trio.run(Exposition(sources(FakeAgent()), Telemetry()).scraped)
"""


def test_the_loop_goes_on_while_the_first_scrape_loads() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED_WHERE], capture_output=True, text=True, check=True)
    assert set(done.stdout.splitlines()) == {"by a thread"}


def test_promtool_finds_no_fault_with_our_own_series(debian_tool: Callable[[str], str]) -> None:
    text = Exposition(sources(), Telemetry()).prometheus()
    command = [debian_tool("promtool"), "check", "metrics"]
    done = subprocess.run(command, input=text, capture_output=True, check=False)
    complaints = [line for line in done.stderr.decode().splitlines() if line.startswith("adsum_")]
    assert complaints == []
    assert b"error while linting" not in done.stderr


# Figures that fail.


class Late:
    """Counters that cannot be read at first."""

    counters: DnsCounters | None = None

    @property
    def answered(self) -> dict[AnswerLabels, int]:
        if self.counters is None:
            raise LookupError("not yet")
        return self.counters.answered


async def test_what_was_counted_before_it_could_be_read_is_of_no_interval() -> None:
    late = Late()
    exposition = Exposition(replace(sources(), dns=cast("DnsCounters", late)), Telemetry())
    late.counters = DnsCounters()
    late.counters.answered[AnswerLabels("udp", "A", "NOERROR")] = 7
    exposition.end_interval()
    assert _domain_queries(exposition) == (0, 0.0)


async def test_a_figure_that_cannot_be_read_is_left_out_counted_and_ends_nothing(
    autojump_clock: MockClock,
) -> None:
    read = replace(sources(), dns=cast("DnsCounters", Late()))
    exposition = Exposition(read, Telemetry())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(exposition.keep_intervals)
        await trio.sleep(25)
        nursery.cancel_scope.cancel()
    assert read.faults.counts["metric"] == 6  # two figures, at the start and in two intervals
    assert ("consul_dns_ptr_query_count", ("n1",)) not in samples(exposition)
    assert "consul.runtime.alloc_bytes" in str(exposition.consul())
