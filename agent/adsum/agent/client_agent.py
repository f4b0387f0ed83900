"""The cores of a client, put together: whoever runs an agent, the daemon, the simulation or a test of
endpoints, makes it here. A part that is added is added here, and all of them have it."""

from __future__ import annotations

from random import Random

from adsum.agent.cluster_state import ClusterState
from adsum.agent.core import AgentCore
from adsum.agent.local_catalog import LocalCatalog
from adsum.catalog.replication.interner import Interner
from adsum.gossip.claims import Claims
from adsum.gossip.core import GossipCore
from adsum.gossip.settings import GossipSettings, MemberIdentity
from adsum.now import Now


def client_agent(
    now: Now,
    local: LocalCatalog,
    identity: MemberIdentity,
    settings: GossipSettings,
    random: Random,
    *,
    rejoins: bool = False,
    expects_others: bool = False,
    claims: Claims | None = None,
    interner: Interner | None = None,
) -> AgentCore:
    """`rejoins`: also after it left it looks for its peers at the next start. `expects_others`: it is about
    to join somebody. `claims` and `interner` are shared by the agents of one process, which hold the same."""
    gossip = GossipCore(now, settings, identity, random, claims)
    cluster = ClusterState(
        now,
        gossip,
        local.published,
        local.settings,
        random,
        rejoins=rejoins,
        expects_others=expects_others,
        interner=interner,
    )
    return AgentCore(local, cluster)
