"""From the operator's configuration to what gossip wants to know: only renamed, nothing decided.

Apart from `translate`, because whoever reads DNS or service settings need not load gossip for it.
"""

from __future__ import annotations

from adsum.config.config import Gossip
from adsum.gossip.settings import GossipSettings, SuspicionMode

# 2026-11-01 00:00 UTC, moved on with each release. A host whose clock shows an earlier time has lost it (a
# flat battery shows 1970, or the day of its firmware), and must not judge the clocks of others.
RELEASED_WALL_MS = 1_793_491_200_000


def gossip_settings(gossip: Gossip) -> GossipSettings:
    return GossipSettings(
        mode=SuspicionMode(gossip.mode),
        refused_grace_ns=gossip.refused_grace_ns,
        push_nodes=gossip.push_nodes,
        probe_interval_ns=gossip.probe_interval_ns,
        probe_timeout_ns=gossip.probe_timeout_ns,
        gossip_interval_ns=gossip.gossip_interval_ns,
        gossip_nodes=gossip.gossip_nodes,
        retransmit_mult=gossip.retransmit_mult,
        suspicion_mult=gossip.suspicion_mult,
        reconnect_timeout_ns=gossip.reconnect_timeout_ns,
        build_wall_ms=RELEASED_WALL_MS,
    )
