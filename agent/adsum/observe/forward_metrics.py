"""What a client agent tells about the requests for keys and sessions that it sends on to servers. A server
sends on none, and tells what consensus counts."""

from __future__ import annotations

from dataclasses import fields

from adsum.observe.series import Reading, Sources, counter, gauge, table


def _requests(sources: Sources) -> Reading:
    counters = sources.forwarded.core.counters
    return {each.name: getattr(counters, each.name) for each in fields(counters)}


FORWARDING = table(
    "Servers that this client agent can ask for keys; where none is present, as it knew them last.",
    gauge("adsum_forward_servers", lambda s: len(s.forwarded.core.known)),
    "1 while this client agent knows who leads.",
    gauge("adsum_forward_leader_known", lambda s: int(s.forwarded.core.knows_leader)),
    "Requests for keys without an answer yet; most of them wait for a change.",
    gauge("adsum_forward_requests_open", lambda s: s.forwarded.core.requests_open),
    "Questions that servers are being asked; equal reads that wait for a change share one.",
    gauge("adsum_forward_questions_open", lambda s: s.forwarded.core.questions_open),
    "What requests for keys went through: asked of a server, asked again, doubtful because nobody knows what "
    "came of a try, joined to an equal one that waited, refused because too many were under way, not "
    "answered in time; renewals of sessions, and the batches in which they travelled.",
    counter("adsum_forward_requests_total{what}", _requests),
    "Times that another node answered where a server should be.",
    counter("adsum_forward_wrong_nodes_total", lambda s: s.forwarded.line_counters.wrong_node),
)
