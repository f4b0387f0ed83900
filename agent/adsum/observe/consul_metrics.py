"""The names that Consul's dashboards and runbooks look for, without the prefix (`consul`, unless configured).

Dotted, as Consul's JSON spells them; in Prometheus' text the dots are underscores. Only what this agent
can say truthfully is here: a made-up zero would silence somebody's alert.

What Serf and memberlist count has the meaning it has there: a member joins when it is met or comes back, and
messages are those that were news.
"""

from __future__ import annotations

import sys

from adsum.api import leadership
from adsum.gossip.tally import UNKNOWN
from adsum.observe.process import resident_bytes, tasks
from adsum.observe.series import Labelled, Series, Sources, counter, gauge, timer


def _dns_kinds(sources: Sources, *, is_reverse: bool) -> Labelled:
    answers = sum(
        count for tally, count in sources.dns.answered.items() if (tally.qtype == "PTR") == is_reverse
    )
    return {(sources.agent.config.node_name,): answers}


def _became(sources: Sources, status: str, befores: tuple[str, ...] = (), cause: str = "") -> int:
    """Members that took on a state; from any, for any reason, unless told."""
    return sum(
        count
        for (before, after, why), count in sources.tally.transitions.items()
        if after == status and (not befores or before in befores) and why.startswith(cause)
    )


CONSUL: tuple[Series, ...] = (
    gauge("runtime.alloc_bytes", "Resident memory; Python tells no finer.", resident_bytes),
    gauge("runtime.sys_bytes", "Resident memory.", resident_bytes),
    gauge("runtime.num_goroutines", "Tasks alive.", tasks),
    gauge(
        "runtime.heap_objects",
        "Blocks of memory that Python has given out.",
        lambda _sources: sys.getallocatedblocks(),
    ),
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
    gauge("server.isLeader", "1 if this agent leads.", lambda s: int(leadership.leads_alone(s.agent))),
    gauge("rpc.queries_blocking", "Blocking queries waiting for a change.", lambda s: s.http.parked),
    timer("dns.domain_query", "Questions about names.", lambda s: _dns_kinds(s, is_reverse=False), "node"),
    timer("dns.ptr_query", "Questions about addresses.", lambda s: _dns_kinds(s, is_reverse=True), "node"),
    counter("dns.stale_queries", "Answers from a copy too old.", lambda _sources: 0),
    # Gossip.
    counter(
        "serf.member.join",
        "Members met, or back after they failed or left.",
        lambda s: _became(s, "alive", (UNKNOWN, "failed", "left")),
    ),
    counter("serf.member.failed", "Members called failed.", lambda s: _became(s, "failed")),
    counter("serf.member.left", "Members that left.", lambda s: _became(s, "left")),
    counter(
        "serf.member.update",
        "Members that say something else about themselves.",
        lambda s: _became(s, "alive", ("alive",), "changed"),
    ),
    counter("serf.member.flap", "Members back soon after they failed.", lambda s: s.tally.flaps),
    gauge(
        "memberlist.health.score",
        "How much this agent doubts itself.",
        lambda s: s.membership.condition.health_score,
    ),
    counter("memberlist.msg.alive", "News that a member is alive.", lambda s: _became(s, "alive")),
    counter("memberlist.msg.suspect", "News of suspicions.", lambda s: _became(s, "suspect")),
    counter("memberlist.msg.dead", "News of failures.", lambda s: _became(s, "failed")),
    timer("memberlist.probeNode", "Members probed.", lambda s: s.tally.probes),
    timer(
        "memberlist.pushPullNode", "Rosters compared at this agent's wish.", lambda s: s.tally.syncs_opened
    ),
    counter("memberlist.udp.sent", "Bytes of gossip's datagrams.", lambda s: s.net.datagrams.sent_bytes),
    counter(
        "memberlist.udp.received", "Bytes of gossip's datagrams.", lambda s: s.net.datagrams.received_bytes
    ),
    counter("memberlist.tcp.accept", "Streams from other agents.", lambda s: s.net.gate.welcomed),
    counter("memberlist.tcp.connect", "Streams to other agents.", lambda s: s.net.gate.dialled),
)
