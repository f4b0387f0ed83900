"""What the agent tells about itself, in one table.

Every series is there from the first time, with 0, and no label takes its values from outside: names of
services, clients or peers would grow without end.
"""

from __future__ import annotations

import platform
import time

import trio

from adsum.now import SECOND
from adsum.observe.journal_metrics import JOURNAL
from adsum.observe.loop_lag import BOUNDS_NS
from adsum.observe.membership_metrics import MEMBERSHIP
from adsum.observe.net_metrics import NET
from adsum.observe.process import PROCESS, tasks
from adsum.observe.replication_metrics import REPLICATION
from adsum.observe.series import HistogramReading, Labelled, Series, Sources, counter, gauge, histogram
from adsum.version import ADSUM_VERSION


def _http_requests(sources: Sources) -> Labelled:
    return {
        (method, f"{hundreds}xx"): count
        for method, counts in sources.http.requests.items()
        for hundreds, count in enumerate(counts)
        if hundreds
    }


def _dns_queries(sources: Sources) -> Labelled:
    return {tuple(tally): count for tally, count in sources.dns.answered.items()}


def _loop_lag(sources: Sources) -> HistogramReading:
    bounds = tuple(bound / SECOND for bound in BOUNDS_NS)
    return HistogramReading(bounds, tuple(sources.lag.passes), sources.lag.held_ns / SECOND)


def _build(_sources: Sources) -> Labelled:
    return {(ADSUM_VERSION, platform.python_version(), trio.__version__): 1}


ADSUM: tuple[Series, ...] = (
    gauge("adsum_build_info", "What this agent is built of; always 1.", _build, "version", "python", "trio"),
    # The catalog, as this agent sees it.
    gauge("adsum_catalog_nodes", "Nodes in the catalog.", lambda s: s.catalog.count().nodes),
    gauge("adsum_catalog_services", "Service names in the catalog.", lambda s: s.catalog.count().services),
    gauge(
        "adsum_catalog_instances",
        "Instances of services, by the worst status of their checks and their node's.",
        lambda s: s.catalog.count().instances,
        "status",
    ),
    gauge("adsum_catalog_checks", "Checks, by status.", lambda s: s.catalog.count().checks, "status"),
    counter(
        "adsum_commands_refused_total",
        "Changes that were asked for and refused.",
        lambda s: s.agent.core.counters.refusals,
    ),
    counter(
        "adsum_critical_services_deregistered_total",
        "Services taken off because a check was critical for longer than it may be.",
        lambda s: s.agent.core.counters.deregistered_critical,
    ),
    # Checks.
    counter(
        "adsum_check_transitions_total",
        "Changes of status of this agent's checks, by what they changed to.",
        lambda s: {str(status): count for status, count in s.agent.own.transitions.items()},
        "to",
    ),
    counter("adsum_check_runs_total", "Checks begun.", lambda s: s.checks.runs),
    counter(
        "adsum_check_results_total",
        "Results of checks, by status.",
        lambda s: {"passing": s.checks.passing, "warning": s.checks.warning, "critical": s.checks.critical},
        "status",
    ),
    counter("adsum_check_timeouts_total", "Checks that did not end in time.", lambda s: s.checks.timeouts),
    counter(
        "adsum_check_queued_total",
        "Checks that had to wait, because too many were running.",
        lambda s: s.checks.queued,
    ),
    counter(
        "adsum_check_replaced_total",
        "Checks ended because their next run was due or they were defined anew.",
        lambda s: s.checks.replaced,
    ),
    counter(
        "adsum_check_outputs_cut_total",
        "Outputs of checks longer than is kept, by where they came from.",
        lambda s: {"body": s.checks.bodies_cut, "script": s.checks.outputs_cut},
        "source",
    ),
    counter(
        "adsum_check_floods_slowed_total",
        "Scripts that print without end and were read slowly.",
        lambda s: s.checks.floods_slowed,
    ),
    counter(
        "adsum_check_processes_left_total",
        "Processes of checks that were killed and did not go.",
        lambda s: s.checks.processes_left,
    ),
    counter(
        "adsum_check_errors_total",
        "Checks that failed by a bug of the agent.",
        lambda s: s.checks.internal_errors,
    ),
    # The disk.
    counter(
        "adsum_storage_failures_total",
        "Writes that failed without ending the agent: a registration that was refused, or that waited for a "
        "file to open; what nobody waits for, each time that it was left unsaved.",
        lambda s: {
            "out_of_files": s.storage.put_off,
            "refused": s.storage.refused,
            "unsaved": s.storage.left_out,
        },
        "what",
    ),
    gauge(
        "adsum_storage_unsaved_files",
        "Files in data_dir that are not as they should be yet, because the disk refuses; 0 when all is well.",
        lambda s: s.storage.unsaved,
    ),
    counter(
        "adsum_storage_folders_lost_total",
        "Times that data_dir was deleted under the agent, and written anew.",
        lambda s: s.storage.folders_lost,
    ),
    # HTTP.
    counter(
        "adsum_http_requests_total",
        "Requests answered, by method and status.",
        _http_requests,
        "method",
        "code",
    ),
    counter(
        "adsum_http_received_bytes_total", "Bytes read from HTTP clients.", lambda s: s.http.received_bytes
    ),
    counter("adsum_http_sent_bytes_total", "Bytes written to HTTP clients.", lambda s: s.http.sent_bytes),
    counter("adsum_http_connections_total", "Connections accepted.", lambda s: s.http.connections_accepted),
    counter("adsum_http_tls_handshakes_total", "Handshakes of HTTPS done.", lambda s: s.http.tls_handshakes),
    gauge(
        "adsum_tls_certificate_end_seconds",
        "When the certificate ends, in seconds since 1970; 0 without one.",
        lambda s: s.certificate_end_s(),
    ),
    gauge("adsum_http_connections_open", "Connections open now.", lambda s: s.http.connections_open),
    gauge("adsum_http_requests_waiting", "Blocking queries waiting for a change.", lambda s: s.http.parked),
    gauge(
        "adsum_http_bodies_held_bytes",
        "Memory held by bodies of requests.",
        lambda s: s.http.bodies_held_bytes,
    ),
    counter(
        "adsum_http_blocking_ended_total",
        "Blocking queries answered, by what ended the wait.",
        lambda s: {"change": s.api.blocking_woken, "timeout": s.api.blocking_timed_out},
        "by",
    ),
    counter(
        "adsum_http_foreign_indexes_total",
        "Blocking queries with an index that is not this agent's, held for a second.",
        lambda s: s.api.foreign_indexes_held,
    ),
    counter(
        "adsum_http_renderings_total",
        "Answers of catalog queries, by whether they had to be made.",
        lambda s: {"made": s.api.renderings, "shared": s.api.rendering_hits},
        "how",
    ),
    counter(
        "adsum_http_renderings_dropped_total",
        "Answers forgotten to make room for others.",
        lambda s: s.api.renderings_dropped,
    ),
    gauge(
        "adsum_http_renderings_bytes",
        "Memory held by answers that are shared.",
        lambda s: s.api.rendering_bytes,
    ),
    counter(
        "adsum_http_filter_seconds_total",
        "Time of the event loop that answers with a filter took; at most a quarter of it.",
        lambda s: s.api.filters_ns / SECOND,
    ),
    counter(
        "adsum_http_filters_refused_total",
        "Requests refused for what their filter needs (work) or all filters had taken (time).",
        lambda s: {"work": s.api.filters_refused_for_work, "time": s.api.filters_refused_for_time},
        "cause",
    ),
    counter(
        "adsum_http_filter_waits_total",
        "Requests with a filter that had to wait for their turn, because all filters had taken their time.",
        lambda s: s.api.filters_waited,
    ),
    counter(
        "adsum_http_unparsed_total",
        "Requests answered by their bytes alone, as they came before.",
        lambda s: s.http.unparsed,
    ),
    counter(
        "adsum_http_memory_overflows_total",
        "How often all known requests were forgotten for want of room.",
        lambda s: s.http.known_overflows,
    ),
    counter("adsum_http_parse_errors_total", "Bytes that were no HTTP.", lambda s: s.http.parse_errors),
    counter(
        "adsum_http_clients_gone_total",
        "Clients that hung up before their answer.",
        lambda s: s.http.clients_gone,
    ),
    counter(
        "adsum_http_handler_errors_total",
        "Requests that met a bug of the agent.",
        lambda s: s.http.handler_errors,
    ),
    counter(
        "adsum_http_accept_errors_total",
        "Connections that the system did not hand over, mostly for want of files.",
        lambda s: s.http.accept_errors,
    ),
    counter(
        "adsum_http_rejected_total",
        "Requests and connections turned away, by cause.",
        lambda s: s.http.rejected,
        "cause",
    ),
    # DNS.
    counter("adsum_dns_queries_total", "Questions answered.", _dns_queries, "transport", "type", "rcode"),
    counter(
        "adsum_dns_answers_total",
        "Questions answered, by whether they were recognised by their very bytes or had to be read in full.",
        lambda s: {"fast": s.dns.fast, "full": s.dns.full},
        "path",
    ),
    counter("adsum_dns_malformed_total", "Packets that asked nothing.", lambda s: s.dns.malformed),
    counter(
        "adsum_dns_rate_limited_total",
        "Questions over the rate of their source: dropped, or sent on to TCP.",
        lambda s: {"dropped": s.dns.rate_limited, "slipped": s.dns.rate_slipped},
        "action",
    ),
    counter(
        "adsum_dns_dropped_total",
        "Packets dropped to keep the loop free: new questions when too many waited (late), and packets not "
        "in the common form, which may take a quarter of the loop's time (unusual).",
        lambda s: {"late": s.dns.late_dropped, "unusual": s.dns.unusual_dropped},
        "cause",
    ),
    counter(
        "adsum_dns_memory_overflows_total",
        "How often all known questions were forgotten for want of room.",
        lambda s: s.dns.memory_overflows,
    ),
    counter(
        "adsum_dns_rendering_overflows_total",
        "How often answers that nobody had asked for lately were forgotten for want of room.",
        lambda s: s.dns.rendering_overflows,
    ),
    counter(
        "adsum_dns_socket_errors_total",
        "Datagrams that failed, by direction.",
        lambda s: {"receive": s.dns.receive_errors, "send": s.dns.send_errors},
        "direction",
    ),
    counter(
        "adsum_dns_accept_errors_total",
        "TCP connections that the system did not hand over, mostly for want of files.",
        lambda s: s.dns.tcp_accepting.errors,
    ),
    gauge(
        "adsum_dns_tcp_newcomers_open",
        "TCP connections open now on which nothing was asked yet.",
        lambda s: s.dns.tcp_newcomers,
    ),
    gauge(
        "adsum_dns_tcp_connections_open",
        "TCP connections open now on which something was asked.",
        lambda s: s.dns.tcp_connections,
    ),
    counter(
        "adsum_dns_tcp_connections_total",
        "TCP connections on which something was asked.",
        lambda s: s.dns.tcp_accepted,
    ),
    gauge(
        "adsum_dns_tcp_unread_bytes",
        "Memory held by questions over TCP that are not whole or wait for their turn.",
        lambda s: s.dns.tcp_unread_bytes,
    ),
    counter(
        "adsum_dns_tcp_ended_total",
        "TCP connections ended by the agent, by cause.",
        lambda s: {
            "limit": s.dns.tcp_turned_away,
            "timeout": s.dns.tcp_timed_out,
            "slow_reader": s.dns.tcp_slow_readers,
            "oversized": s.dns.tcp_oversized,
            "never_asked": s.dns.tcp_newcomers_timed_out,
            "displaced": s.dns.tcp_newcomers_displaced,
            "unread_bytes": s.dns.tcp_unread_displaced,
        },
        "cause",
    ),
    gauge(
        "adsum_dns_recursions_open", "Questions that a recursor is being asked.", lambda s: s.dns.recursions
    ),
    counter(
        "adsum_dns_recursions_total",
        "Questions given to recursors, by how it ended.",
        lambda s: {
            "answered": s.dns.recursed,
            "failed": s.dns.recursion_failures,
            "turned_away": s.dns.recursions_turned_away,
        },
        "result",
    ),
    counter(
        "adsum_dns_recursor_failures_total",
        "Single attempts at a recursor that failed, by cause.",
        lambda s: {
            "timeout": s.dns.recursor_timeouts,
            "error": s.dns.recursor_errors,
            "mismatch": s.dns.recursor_mismatches,
        },
        "cause",
    ),
    # Other agents.
    *REPLICATION,
    *MEMBERSHIP,
    *NET,
    *JOURNAL,
    # The process.
    histogram(
        "adsum_event_loop_lag_seconds",
        "For how long each pass of the event loop kept it from looking at its sockets.",
        _loop_lag,
    ),
    gauge(
        "adsum_event_loop_lag_max_seconds",
        "The longest pass of the event loop in the last one to two minutes.",
        lambda s: s.lag.longest_ns(time.perf_counter_ns()) / SECOND,
    ),
    counter(
        "adsum_event_loop_over_budget_total",
        "Passes of the event loop longer than 20 ms.",
        lambda s: s.lag.over_budget,
    ),
    counter(
        "adsum_faults_total",
        "Inputs that were dropped because of a mistake in Adsum, by kind; please report what the log says.",
        lambda s: s.faults.counts,
        "input",
    ),
    counter(
        "adsum_shortages_total",
        "Inputs that were dropped because the system gave no file or memory, by kind.",
        lambda s: s.faults.shortages,
        "input",
    ),
    gauge("adsum_tasks", "Tasks alive.", tasks),
    counter(
        "adsum_gc_pause_seconds_total",
        "Time spent in the garbage collector.",
        lambda s: s.gc_pauses.paused_ns / SECOND,
    ),
    counter("adsum_log_lines_total", "Log lines written, by level.", lambda s: s.logs.lines, "level"),
    counter(
        "adsum_log_lines_lost_total",
        "Log lines that could not be written, or that a slow follower missed.",
        lambda s: {"writing": s.logs.lost_writing, "following": s.logs.lost_following},
        "where",
    ),
    *PROCESS,
)
