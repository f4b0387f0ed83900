"""Where the roll's numbers are kept: the gossip core, and what counts on its way to the network.

An agent whose gossip is off has the same series as any other, so every part has a default that counts
nothing, and the roll of such an agent holds itself alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from adsum.agent.user_events import EventCounters
from adsum.frozen import dataclass
from adsum.gossip.broadcasts import Class
from adsum.gossip.core import GossipCore
from adsum.gossip.membership_view import MembershipView, NewsQueue, OwnCondition
from adsum.gossip.order import MemberStatus
from adsum.gossip.tally import GossipTally
from adsum.net.call_server import CallCounters
from adsum.net.datagrams import DatagramCounters
from adsum.net.gate import GateCounters
from adsum.net.gossiping import Gossiping, GossipingCounters
from adsum.net.sealing import SealingCounters
from adsum.net.stream_counters import StreamCounters
from adsum.net.unread import UnreadCounters
from adsum.now import Now

DIGEST_BITS = 53  # Prometheus' numbers are doubles: beyond, two views would look like one


@dataclass(frozen=True, slots=True, kw_only=True)
class NetSource:
    """What counts between the core and the network; without arguments, where there is none."""

    datagrams: DatagramCounters = field(default_factory=DatagramCounters)
    sealing: SealingCounters = field(default_factory=SealingCounters)
    streams: StreamCounters = field(default_factory=StreamCounters)
    gate: GateCounters = field(default_factory=GateCounters)
    unread: UnreadCounters = field(default_factory=UnreadCounters)
    calls: CallCounters = field(default_factory=CallCounters)
    gossiping: GossipingCounters = field(default_factory=GossipingCounters)
    dropped_by_kernel: Callable[[], int] = lambda: 0
    not_allowed: Callable[[], int] = lambda: 0
    calls_waited: Callable[[], int] = lambda: 0

    @classmethod
    def of(cls, network: Gossiping, calls: CallCounters, calls_waited: Callable[[], int]) -> NetSource:
        return cls(
            datagrams=network.datagrams.counters,
            sealing=network.sealing.counters,
            streams=network.streams.counters,
            gate=network.gate.counters,
            unread=network.gate.unread.counters,
            calls=calls,
            gossiping=network.counters,
            dropped_by_kernel=network.datagrams.dropped_by_kernel,
            not_allowed=lambda: network.allowed.refused,
            calls_waited=calls_waited,
        )


def _alone() -> dict[MemberStatus, int]:
    return {status: int(status is MemberStatus.ALIVE) for status in MemberStatus}


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipSource:
    """`of` makes one of a core; without arguments it is the roll of an agent that does not gossip."""

    tally: GossipTally = field(default_factory=GossipTally)
    condition: Callable[[], OwnCondition] = OwnCondition
    queue: Callable[[Class], NewsQueue] = lambda _kind: NewsQueue()
    members: Callable[[], dict[MemberStatus, int]] = _alone
    digest: Callable[[], int] = lambda: 0
    holds_last_known: Callable[[], bool] = lambda: False
    clock_ahead_ms: Callable[[], int] = lambda: 0
    events: EventCounters = field(default_factory=EventCounters)
    net: NetSource = field(default_factory=NetSource)

    @classmethod
    def of(
        cls, core: GossipCore, now: Callable[[], Now], net: NetSource, events: EventCounters | None = None
    ) -> MembershipSource:
        membership = core.membership
        return cls(
            tally=core.tally,
            condition=lambda: membership.condition,
            queue=membership.queue,
            members=lambda: members(membership),
            digest=lambda: membership.digest() & (1 << DIGEST_BITS) - 1,
            holds_last_known=lambda: membership.holds_last_known(now()),
            clock_ahead_ms=lambda: membership.clocks.ahead_ms(now()),
            events=events or EventCounters(),
            net=net,
        )


def members(membership: MembershipView) -> dict[MemberStatus, int]:
    """As `adsum members` lists them: with this agent, and without those who were pruned."""
    counts = membership.counts()
    counts[membership.own_standing.status] += 1
    return counts
