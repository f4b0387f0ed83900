"""The names that Consul's dashboards and runbooks look for, without the prefix (`consul`, unless configured).

Dotted, as Consul's JSON spells them; in Prometheus' text the dots are underscores. Only what one agent
without gossip and Raft can say truthfully is here: a made-up zero would silence somebody's alert.
"""

from __future__ import annotations

from adsum.observe.process import heap_objects, resident_bytes, tasks
from adsum.observe.series import Labelled, Series, Sources, counter, gauge, timer


def _dns_kinds(sources: Sources, *, is_reverse: bool) -> Labelled:
    answers = sum(
        count for tally, count in sources.dns.answered.items() if (tally.qtype == "PTR") == is_reverse
    )
    return {(sources.node_name,): answers}


def _none(_sources: Sources) -> int:
    return 0


CONSUL: tuple[Series, ...] = (
    gauge("runtime.alloc_bytes", "Resident memory; Python tells no finer.", resident_bytes),
    gauge("runtime.sys_bytes", "Resident memory.", resident_bytes),
    gauge("runtime.num_goroutines", "Tasks alive.", tasks),
    gauge("runtime.heap_objects", "Blocks of memory that Python has given out.", heap_objects),
    gauge(
        "runtime.total_gc_pause_ns", "Time spent in the garbage collector.", lambda s: s.gc_pauses.paused_ns
    ),
    gauge("runtime.total_gc_runs", "Runs of the garbage collector.", lambda s: s.gc_pauses.runs),
    gauge("state.nodes", "Nodes in the catalog.", lambda s: s.catalog.count().nodes),
    gauge("state.services", "Service names in the catalog.", lambda s: s.catalog.count().services),
    gauge(
        "state.service_instances",
        "Instances of services in the catalog.",
        lambda s: sum(s.catalog.count().instances.values()),
    ),
    gauge("server.isLeader", "1 if this agent leads.", lambda s: int(s.is_leader)),
    gauge("rpc.queries_blocking", "Blocking queries waiting for a change.", lambda s: s.http.parked),
    timer("dns.domain_query", "Questions about names.", lambda s: _dns_kinds(s, is_reverse=False), "node"),
    timer("dns.ptr_query", "Questions about addresses.", lambda s: _dns_kinds(s, is_reverse=True), "node"),
    counter("dns.stale_queries", "Answers from a copy too old.", _none),
)
