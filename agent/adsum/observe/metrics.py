"""What the agent tells about itself, in one table.

Every series is there from the first time, with 0, and no label takes its values from outside: names of
services, clients or peers would grow without end.
"""

from __future__ import annotations

import platform
import time

import trio

from adsum.now import SECOND
from adsum.observe.loop_lag import BOUNDS_NS
from adsum.observe.membership_metrics import MEMBERSHIP
from adsum.observe.net_metrics import NET
from adsum.observe.process import PROCESS, tasks
from adsum.observe.replication_metrics import REPLICATION
from adsum.observe.series import (
    HistogramReading,
    Labelled,
    Reading,
    Sources,
    counter,
    gauge,
    histogram,
    table,
)
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


def _build(_sources: Sources) -> Labelled:
    return {(ADSUM_VERSION, platform.python_version(), trio.__version__): 1}


def _journal_lost(sources: Sources) -> Reading:
    journal = sources.agent.journal.counters
    return {
        "queue": journal.dropped,
        "too_many": journal.rationed,
        "disk": journal.lost_writing,
        "unreadable": journal.unreadable,
    }


def _loop_lag(sources: Sources) -> HistogramReading:
    bounds = tuple(bound / SECOND for bound in BOUNDS_NS)
    return HistogramReading(bounds, tuple(sources.lag.passes), sources.lag.held_ns / SECOND)


ADSUM = table(
    "What this agent is built of; always 1.",
    gauge("adsum_build_info{version,python,trio}", _build),
    # The catalog, as this agent sees it.
    "Nodes in the catalog.",
    gauge("adsum_catalog_nodes", lambda s: s.catalog.count().nodes),
    "Service names in the catalog.",
    gauge("adsum_catalog_services", lambda s: s.catalog.count().services),
    "Instances of services, by the worst status of their checks and their node's.",
    gauge("adsum_catalog_instances{status}", lambda s: s.catalog.count().instances),
    "Checks, by status.",
    gauge("adsum_catalog_checks{status}", lambda s: s.catalog.count().checks),
    "Changes that were asked for and refused.",
    counter("adsum_commands_refused_total", lambda s: s.agent.core.counters.refusals),
    "Services taken off because a check was critical for longer than it may be.",
    counter(
        "adsum_critical_services_deregistered_total", lambda s: s.agent.core.counters.deregistered_critical
    ),
    # Checks.
    "Changes of status of this agent's checks, by what they changed to.",
    counter(
        "adsum_check_transitions_total{to}",
        lambda s: {str(status): count for status, count in s.agent.own.transitions.items()},
    ),
    "Checks begun.",
    counter("adsum_check_runs_total", lambda s: s.checks.runs),
    "Results of checks, by status.",
    counter(
        "adsum_check_results_total{status}",
        lambda s: {"passing": s.checks.passing, "warning": s.checks.warning, "critical": s.checks.critical},
    ),
    "Checks that did not end in time.",
    counter("adsum_check_timeouts_total", lambda s: s.checks.timeouts),
    "Checks that had to wait, because too many were running.",
    counter("adsum_check_queued_total", lambda s: s.checks.queued),
    "Checks ended because their next run was due or they were defined anew.",
    counter("adsum_check_replaced_total", lambda s: s.checks.replaced),
    "Outputs of checks longer than is kept, by where they came from.",
    counter(
        "adsum_check_outputs_cut_total{source}",
        lambda s: {"body": s.checks.bodies_cut, "script": s.checks.outputs_cut},
    ),
    "Scripts that print without end and were read slowly.",
    counter("adsum_check_floods_slowed_total", lambda s: s.checks.floods_slowed),
    "Processes of checks that were killed and did not go.",
    counter("adsum_check_processes_left_total", lambda s: s.checks.processes_left),
    "Checks that failed by a bug of the agent.",
    counter("adsum_check_errors_total", lambda s: s.checks.internal_errors),
    # Watches of the configuration.
    "Watches of the configuration in force.",
    gauge("adsum_watches", lambda s: len(s.agent.config.watches)),
    "Changes that were given to handlers of watches, by what came of it.",
    counter(
        "adsum_watch_handlers_total{outcome}",
        lambda s: {"done": s.watches.handled, "failed": s.watches.handlers_failed},
    ),
    "Handlers of watches that took too long; they count as failed.",
    counter("adsum_watch_handlers_timed_out_total", lambda s: s.watches.handlers_timed_out),
    "Questions of watches that this agent could not answer, and that were asked again.",
    counter("adsum_watch_questions_failed_total", lambda s: s.watches.questions_failed),
    # The disk.
    "Writes that failed without ending the agent: a registration that was refused, or that waited for a "
    "file to open; what nobody waits for, each time that it was left unsaved.",
    counter(
        "adsum_storage_failures_total{what}",
        lambda s: {
            "out_of_files": s.storage.put_off,
            "refused": s.storage.refused,
            "unsaved": s.storage.left_out,
        },
    ),
    "Files in data_dir that are not as they should be yet, because the disk refuses; 0 when all is well.",
    gauge("adsum_storage_unsaved_files", lambda s: s.storage.unsaved),
    "Times that data_dir was deleted under the agent, and written anew.",
    counter("adsum_storage_folders_lost_total", lambda s: s.storage.folders_lost),
    # HTTP.
    "Requests answered, by method and status.",
    counter("adsum_http_requests_total{method,code}", _http_requests),
    "Bytes read from HTTP clients.",
    counter("adsum_http_received_bytes_total", lambda s: s.http.received_bytes),
    "Bytes written to HTTP clients.",
    counter("adsum_http_sent_bytes_total", lambda s: s.http.sent_bytes),
    "Connections accepted.",
    counter("adsum_http_connections_total", lambda s: s.http.connections_accepted),
    "Handshakes of HTTPS done.",
    counter("adsum_http_tls_handshakes_total", lambda s: s.http.tls_handshakes),
    "When the certificate ends, in seconds since 1970; 0 without one.",
    gauge("adsum_tls_certificate_end_seconds", lambda s: s.certificate_end_s()),
    "Connections open now.",
    gauge("adsum_http_connections_open", lambda s: s.http.connections_open),
    "Blocking queries waiting for a change.",
    gauge("adsum_http_requests_waiting", lambda s: s.http.parked),
    "Memory held by bodies of requests.",
    gauge("adsum_http_bodies_held_bytes", lambda s: s.http.bodies_held_bytes),
    "Blocking queries answered, by what ended the wait.",
    counter(
        "adsum_http_blocking_ended_total{by}",
        lambda s: {"change": s.api.blocking_woken, "timeout": s.api.blocking_timed_out},
    ),
    "Blocking queries with an index that is not this agent's, held for a second.",
    counter("adsum_http_foreign_indexes_total", lambda s: s.api.foreign_indexes_held),
    "Answers of catalog queries, by whether they had to be made.",
    counter(
        "adsum_http_renderings_total{how}",
        lambda s: {"made": s.api.renderings, "shared": s.api.rendering_hits},
    ),
    "Answers forgotten to make room for others.",
    counter("adsum_http_renderings_dropped_total", lambda s: s.api.renderings_dropped),
    "Memory held by answers that are shared.",
    gauge("adsum_http_renderings_bytes", lambda s: s.api.rendering_bytes),
    "Time of the event loop that answers with a filter took; at most a quarter of it.",
    counter("adsum_http_filter_seconds_total", lambda s: s.api.filters_ns / SECOND),
    "Requests refused for what their filter needs (work) or all filters had taken (time).",
    counter(
        "adsum_http_filters_refused_total{cause}",
        lambda s: {"work": s.api.filters_refused_for_work, "time": s.api.filters_refused_for_time},
    ),
    "Requests with a filter that had to wait for their turn, because all filters had taken their time.",
    counter("adsum_http_filter_waits_total", lambda s: s.api.filters_waited),
    "Requests answered by their bytes alone, as they came before.",
    counter("adsum_http_unparsed_total", lambda s: s.http.unparsed),
    "How often all known requests were forgotten for want of room.",
    counter("adsum_http_memory_overflows_total", lambda s: s.http.known_overflows),
    "Bytes that were no HTTP.",
    counter("adsum_http_parse_errors_total", lambda s: s.http.parse_errors),
    "Clients that hung up before their answer.",
    counter("adsum_http_clients_gone_total", lambda s: s.http.clients_gone),
    "Requests that met a bug of the agent.",
    counter("adsum_http_handler_errors_total", lambda s: s.http.handler_errors),
    "Connections that the system did not hand over, mostly for want of files.",
    counter("adsum_http_accept_errors_total", lambda s: s.http.accept_errors),
    "Requests and connections turned away, by cause.",
    counter("adsum_http_rejected_total{cause}", lambda s: s.http.rejected),
    # DNS.
    "Questions answered.",
    counter("adsum_dns_queries_total{transport,type,rcode}", _dns_queries),
    "Questions answered, by whether they were recognised by their very bytes or had to be read in full.",
    counter("adsum_dns_answers_total{path}", lambda s: {"fast": s.dns.fast, "full": s.dns.full}),
    "Packets that asked nothing.",
    counter("adsum_dns_malformed_total", lambda s: s.dns.malformed),
    "Questions over the rate of their source: dropped, or sent on to TCP.",
    counter(
        "adsum_dns_rate_limited_total{action}",
        lambda s: {"dropped": s.dns.rate_limited, "slipped": s.dns.rate_slipped},
    ),
    "Packets dropped to keep the loop free: new questions when too many waited (late), and packets not "
    "in the common form, which may take a quarter of the loop's time (unusual).",
    counter(
        "adsum_dns_dropped_total{cause}",
        lambda s: {"late": s.dns.late_dropped, "unusual": s.dns.unusual_dropped},
    ),
    "How often all known questions were forgotten for want of room.",
    counter("adsum_dns_memory_overflows_total", lambda s: s.dns.memory_overflows),
    "How often answers that nobody had asked for lately were forgotten for want of room.",
    counter("adsum_dns_rendering_overflows_total", lambda s: s.dns.rendering_overflows),
    "Datagrams that failed, by direction.",
    counter(
        "adsum_dns_socket_errors_total{direction}",
        lambda s: {"receive": s.dns.receive_errors, "send": s.dns.send_errors},
    ),
    "TCP connections that the system did not hand over, mostly for want of files.",
    counter("adsum_dns_accept_errors_total", lambda s: s.dns.tcp_accepting.errors),
    "TCP connections open now on which nothing was asked yet.",
    gauge("adsum_dns_tcp_newcomers_open", lambda s: s.dns.tcp_newcomers),
    "TCP connections open now on which something was asked.",
    gauge("adsum_dns_tcp_connections_open", lambda s: s.dns.tcp_connections),
    "TCP connections on which something was asked.",
    counter("adsum_dns_tcp_connections_total", lambda s: s.dns.tcp_accepted),
    "Memory held by questions over TCP that are not whole or wait for their turn.",
    gauge("adsum_dns_tcp_unread_bytes", lambda s: s.dns.tcp_unread_bytes),
    "TCP connections ended by the agent, by cause.",
    counter(
        "adsum_dns_tcp_ended_total{cause}",
        lambda s: {
            "limit": s.dns.tcp_turned_away,
            "timeout": s.dns.tcp_timed_out,
            "slow_reader": s.dns.tcp_slow_readers,
            "oversized": s.dns.tcp_oversized,
            "never_asked": s.dns.tcp_newcomers_timed_out,
            "displaced": s.dns.tcp_newcomers_displaced,
            "unread_bytes": s.dns.tcp_unread_displaced,
        },
    ),
    "Questions that a recursor is being asked.",
    gauge("adsum_dns_recursions_open", lambda s: s.dns.recursions),
    "Questions given to recursors, by how it ended.",
    counter(
        "adsum_dns_recursions_total{result}",
        lambda s: {
            "answered": s.dns.recursed,
            "failed": s.dns.recursion_failures,
            "turned_away": s.dns.recursions_turned_away,
        },
    ),
    "Single attempts at a recursor that failed, by cause.",
    counter(
        "adsum_dns_recursor_failures_total{cause}",
        lambda s: {
            "timeout": s.dns.recursor_timeouts,
            "error": s.dns.recursor_errors,
            "mismatch": s.dns.recursor_mismatches,
        },
    ),
    # Other agents.
    *REPLICATION,
    *MEMBERSHIP,
    *NET,
    # The journal of membership changes: whether it keeps up, and what it lost.
    "Entries made about members, for `adsum timeline`.",
    counter("adsum_journal_entries_total", lambda s: s.agent.journal.counters.recorded),
    "Entries lost: the queue was full, strangers caused too many, the disk refused, or one is illegible.",
    counter("adsum_journal_lost_total{reason}", _journal_lost),
    "The oldest entries, dropped to keep the journal within its size.",
    counter("adsum_journal_forgotten_total", lambda s: s.agent.journal.counters.forgotten),
    "Damaged journals set aside.",
    counter("adsum_journal_set_aside_total", lambda s: s.agent.journal.counters.set_aside),
    # The process.
    "For how long each pass of the event loop kept it from looking at its sockets.",
    histogram("adsum_event_loop_lag_seconds", _loop_lag),
    "The longest pass of the event loop in the last one to two minutes.",
    gauge("adsum_event_loop_lag_max_seconds", lambda s: s.lag.longest_ns(time.perf_counter_ns()) / SECOND),
    "Passes of the event loop longer than 20 ms.",
    counter("adsum_event_loop_over_budget_total", lambda s: s.lag.over_budget),
    "Inputs that were dropped because of a mistake in Adsum, by kind; please report what the log says.",
    counter("adsum_faults_total{input}", lambda s: s.faults.counts),
    "Inputs that were dropped because the system gave no file or memory, by kind.",
    counter("adsum_shortages_total{input}", lambda s: s.faults.shortages),
    "Tasks alive.",
    gauge("adsum_tasks", tasks),
    "Time spent in the garbage collector.",
    counter("adsum_gc_pause_seconds_total", lambda s: s.gc_pauses.paused_ns / SECOND),
    "Log lines written, by level.",
    counter("adsum_log_lines_total{level}", lambda s: s.logs.lines),
    "Log lines that could not be written, or that a slow follower missed.",
    counter(
        "adsum_log_lines_lost_total{where}",
        lambda s: {"writing": s.logs.lost_writing, "following": s.logs.lost_following},
    ),
    *PROCESS,
)
