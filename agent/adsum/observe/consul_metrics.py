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
from adsum.observe.series import Labelled, Sources, counter, gauge, table, timer


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


CONSUL = table(
    "Resident memory; Python tells no finer.",
    gauge("runtime.alloc_bytes", resident_bytes),
    "Resident memory.",
    gauge("runtime.sys_bytes", resident_bytes),
    "Tasks alive.",
    gauge("runtime.num_goroutines", tasks),
    "Blocks of memory that Python has given out.",
    gauge("runtime.heap_objects", lambda _sources: sys.getallocatedblocks()),
    "Time spent in the garbage collector.",
    gauge("runtime.total_gc_pause_ns", lambda s: s.gc_pauses.paused_ns),
    "Runs of the garbage collector.",
    gauge("runtime.total_gc_runs", lambda s: s.gc_pauses.runs),
    "Nodes in the catalog.",
    gauge("state.nodes", lambda s: s.catalog.count().nodes),
    "Service names in the catalog.",
    gauge("state.services", lambda s: s.catalog.count().services),
    "Instances of services in the catalog.",
    gauge("state.service_instances", lambda s: sum(s.catalog.count().instances.values())),
    "1 if this agent leads.",
    gauge("server.isLeader", lambda s: int(leadership.is_leader(s.agent))),
    "Blocking queries waiting for a change.",
    gauge("rpc.queries_blocking", lambda s: s.http.parked),
    "Questions about names.",
    timer("dns.domain_query{node}", lambda s: _dns_kinds(s, is_reverse=False)),
    "Questions about addresses.",
    timer("dns.ptr_query{node}", lambda s: _dns_kinds(s, is_reverse=True)),
    "Answers from a copy too old.",
    counter("dns.stale_queries", lambda _sources: 0),
    # Gossip.
    "Members met, or back after they failed or left.",
    counter("serf.member.join", lambda s: _became(s, "alive", (UNKNOWN, "failed", "left"))),
    "Members called failed.",
    counter("serf.member.failed", lambda s: _became(s, "failed")),
    "Members that left.",
    counter("serf.member.left", lambda s: _became(s, "left")),
    "Members that say something else about themselves.",
    counter("serf.member.update", lambda s: _became(s, "alive", ("alive",), "changed")),
    "Members back soon after they failed.",
    counter("serf.member.flap", lambda s: s.tally.flaps),
    "How much this agent doubts itself.",
    gauge("memberlist.health.score", lambda s: s.membership.condition.health_score),
    "News that a member is alive.",
    counter("memberlist.msg.alive", lambda s: _became(s, "alive")),
    "News of suspicions.",
    counter("memberlist.msg.suspect", lambda s: _became(s, "suspect")),
    "News of failures.",
    counter("memberlist.msg.dead", lambda s: _became(s, "failed")),
    "Members probed.",
    timer("memberlist.probeNode", lambda s: s.tally.probes),
    "Rosters compared at this agent's wish.",
    timer("memberlist.pushPullNode", lambda s: s.tally.syncs_opened),
    "Bytes of gossip's datagrams.",
    counter("memberlist.udp.sent", lambda s: s.net.datagrams.sent_bytes),
    "Bytes of gossip's datagrams.",
    counter("memberlist.udp.received", lambda s: s.net.datagrams.received_bytes),
    "Streams from other agents.",
    counter("memberlist.tcp.accept", lambda s: s.net.gate.welcomed),
    "Streams to other agents.",
    counter("memberlist.tcp.connect", lambda s: s.net.gate.dialled),
)
