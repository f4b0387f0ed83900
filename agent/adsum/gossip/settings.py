"""What an operator may set about membership, and who this member is.

The defaults are Consul's LAN profile (memberlist's `DefaultLANConfig`), so that a `gossip_lan` block
written for Consul means here what it meant there."""

from __future__ import annotations

import enum

from adsum.frozen import dataclass
from adsum.gossip.claims import Profile
from adsum.now import MILLISECOND, MINUTE, SECOND


class SuspicionMode(enum.Enum):
    CLASSIC = "classic"  # the suspicion timeout comes from the size of the cluster alone
    ADAPTIVE = "adaptive"  # and goes down to what pauses seen so far allow


@dataclass(frozen=True, slots=True)
class GossipSettings:
    mode: SuspicionMode = SuspicionMode.CLASSIC
    refused_grace_ns: int = SECOND
    probe_interval_ns: int = SECOND
    # The latest moment to ask helpers; measured round trips make it sooner.
    probe_timeout_ns: int = 500 * MILLISECOND
    indirect_checks: int = 3
    gossip_interval_ns: int = 200 * MILLISECOND
    gossip_nodes: int = 3
    push_nodes: int = 5  # that are told at once what is first heard; none: news waits for the next gossip
    quiet_interval_ns: int = SECOND  # without news, counters of life are pushed this often on average
    retransmit_mult: int = 4
    suspicion_mult: int = 4
    suspicion_max_mult: int = 6
    sync_interval_ns: int = 30 * SECOND
    reconnect_interval_ns: int = 30 * SECOND
    reconnect_timeout_ns: int = 72 * 60 * MINUTE  # how long a failed member is remembered and looked for
    tombstone_timeout_ns: int = 24 * 60 * MINUTE  # how long one that left is
    datagram_bytes_max: int = 1_400 - 40  # what sealing adds is kept free
    members_max: int = 16_384
    build_wall_ms: int = 0  # our own clock is believed only when it is past the day we were built


@dataclass(frozen=True, slots=True)
class MemberIdentity:
    """Who I am in this life; the rim has persisted the generation before it is used."""

    profile: Profile
    generation: int
