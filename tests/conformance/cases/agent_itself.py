"""/v1/agent/*: what the agent says about itself and what it can be told to do.

agent/self is compared by the members that clients read; DebugConfig is a dump of internals
and counts only as an object. Metrics and host are compared by their shape.
"""

from __future__ import annotations

from tests.conformance.case import Case, Family, Look, Request, get, put
from tests.conformance.worlds import SHOP, WEB1

SELF = Look(
    only=(
        "status",
        "headers",
        "layout",
        "body.Config.Datacenter",
        "body.Config.NodeName",
        "body.Config.NodeID",
        "body.Config.Revision",
        "body.Config.Server",
        "body.Config.Version",
        "body.DebugConfig",
        "body.Coord",
        "body.Member",
        "body.Meta",
        "body.Stats.agent",
        "body.Stats.build",
        "body.Stats.consul",
        "body.Stats.raft.state",
        "body.Stats.raft.num_peers",
        "body.Stats.raft.term",
        "body.Stats.raft.last_log_index",
        "body.Stats.raft.commit_index",
        "body.Stats.raft.applied_index",
        "body.Stats.serf_lan.members",
        "body.Stats.serf_lan.failed",
        "body.Stats.serf_lan.left",
        "body.Stats.serf_lan.health_score",
        "body.Stats.runtime.os",
        "body.Stats.runtime.cpu_count",
    ),
    types=(
        "body.DebugConfig",
        "body.Coord",
        "body.Stats.raft.term",
        "body.Stats.raft.*_index",
        "body.Stats.serf_lan.health_score",
    ),
)
METRICS = Look(types=("body.Gauges", "body.Points", "body.Counters", "body.Samples", "body.Timestamp"))
HEAD_ONLY = Look(only=("status", "headers.Content-Type"))
HOST = Look(types=("body.*",))
# The first bytes come with the first log line; a stream has no end to wait for.
STREAM_S = 0.6


# Consul drains for five seconds, twice, before it answers.
LEAVE = Request("PUT", "/v1/agent/leave", read_s_max=20)


def monitor(query: str) -> Request:
    return Request("GET", f"/v1/agent/monitor{query}", look=HEAD_ONLY, read_s_max=STREAM_S)


FAMILY = Family(
    "agent itself",
    (
        Case("self", (get("/v1/agent/self", look=SELF),)),
        Case("self counts services and checks", (get("/v1/agent/self", look=SELF),), SHOP),
        Case("members", (get("/v1/agent/members"),)),
        Case("members of the WAN", (get("/v1/agent/members?wan=1", look=Look(ignore=("body*.Tags",))),)),
        Case("members of all segments", (get("/v1/agent/members?segment=_all"),)),
        Case("members of an unknown segment", (get("/v1/agent/members?segment=zz"),)),
        Case("metrics", (get("/v1/agent/metrics", look=METRICS),)),
        Case("metrics for Prometheus", (get("/v1/agent/metrics?format=prometheus", look=HEAD_ONLY),)),
        Case("host", (get("/v1/agent/host", look=HOST),)),
        Case("version is newer than this Consul", (get("/v1/agent/version", look=HEAD_ONLY),)),
        Case("reload", (put("/v1/agent/reload"),)),
        Case("reload with GET", (get("/v1/agent/reload"),)),
        Case("force-leave of an unknown node", (put("/v1/agent/force-leave/zz"),)),
        Case("force-leave and prune an unknown node", (put("/v1/agent/force-leave/zz?prune"),)),
        Case("force-leave without a node", (put("/v1/agent/force-leave/"),)),
        Case("join nobody", (put("/v1/agent/join/127.0.0.1:1"),)),
        Case("join nobody on the WAN", (put("/v1/agent/join/127.0.0.1:1?wan=1"),)),
        Case("join with GET", (get("/v1/agent/join/127.0.0.1:1"),)),
        Case("monitor", (monitor(""),)),
        Case("monitor at a level", (monitor("?loglevel=debug"),)),
        Case("monitor as JSON", (monitor("?loglevel=info&logjson=true"),)),
        Case("monitor at an unknown level", (monitor("?loglevel=bogus"),)),
        Case("monitor at an unknown level, the text", (get("/v1/agent/monitor?loglevel=bogus"),)),
        Case("monitor as odd JSON", (get("/v1/agent/monitor?logjson=maybe"),)),
        Case("a token slot", (put("/v1/agent/token/default", {"Token": "t"}),)),
        Case("an unknown token slot", (put("/v1/agent/token/zz", {"Token": "t"}),)),
        Case("leave with GET", (get("/v1/agent/leave"),)),
        Case("leave", (LEAVE,), (WEB1,), ends_agent=True),
    ),
)
