"""What a row of the metrics tables is, and where its numbers come from.

Rooms count in plain integers, which costs them nothing; only when somebody asks are they read, by the
function in each row.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import field, replace

from adsum.agent.cluster_state import ClusterState
from adsum.api.api_types import Agent
from adsum.api.rendering import ApiCounters
from adsum.catalog.replication.tally import ReplicationTally
from adsum.dns_server.counters import DnsCounters
from adsum.frozen import dataclass
from adsum.gossip.membership_view import MembershipView
from adsum.gossip.tally import GossipTally
from adsum.health_checks.runner import Counters as CheckCounters
from adsum.http.limits import HttpCounters
from adsum.logs.faults import Faults
from adsum.logs.stream import LogCounters
from adsum.net.datagrams import DatagramCounters
from adsum.net.gate import GateCounters
from adsum.net.gossiping import Allowed, Gossiping, GossipingCounters
from adsum.net.places import StreamCounters
from adsum.net.sealing import SealingCounters
from adsum.net.unread import UnreadCounters
from adsum.observe.loop_lag import GcPauses, LoopLag
from adsum.observe.server_source import ServerSource
from adsum.observe.tally import CatalogTally
from adsum.peers.client_keys import ClientKeys
from adsum.peers.peer_rpc import PeerRpc
from adsum.storage.writer import WriterCounters
from adsum.watching.counters import WatchCounters


@dataclass(frozen=True, slots=True, kw_only=True)
class NetSource:
    """What counts between gossip and the network. An agent that does not gossip has the same series as any
    other, so there is one without arguments, in which nothing is ever counted."""

    datagrams: DatagramCounters = field(default_factory=DatagramCounters)
    sealing: SealingCounters = field(default_factory=SealingCounters)
    streams: StreamCounters = field(default_factory=StreamCounters)
    gate: GateCounters = field(default_factory=GateCounters)
    unread: UnreadCounters = field(default_factory=UnreadCounters)
    gossiping: GossipingCounters = field(default_factory=GossipingCounters)
    allowed: Allowed = field(default_factory=Allowed)
    dropped_by_kernel: Callable[[], int] = lambda: 0

    @classmethod
    def of(cls, network: Gossiping | None) -> NetSource:
        if network is None:
            return cls()
        return cls(
            datagrams=network.datagrams.counters,
            sealing=network.sealing.counters,
            streams=network.streams.counters,
            gate=network.gate.counters,
            unread=network.gate.unread.counters,
            gossiping=network.counters,
            allowed=network.allowed,
            dropped_by_kernel=network.datagrams.dropped_by_kernel,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where the numbers are kept."""

    agent: Agent
    net: NetSource
    rpc: PeerRpc
    catalog: CatalogTally
    api: ApiCounters
    http: HttpCounters
    dns: DnsCounters
    checks: CheckCounters
    storage: WriterCounters
    logs: LogCounters
    lag: LoopLag
    gc_pauses: GcPauses
    faults: Faults
    watches: WatchCounters = field(default_factory=WatchCounters)
    certificate_end_s: Callable[[], int] = int  # 0 without TLS
    server: ServerSource | None = None  # a client agent has none
    forwarding: ClientKeys | None = None  # a server has none

    @property
    def consensus(self) -> ServerSource:
        """For series that only a server has."""
        assert self.server is not None
        return self.server

    @property
    def forwarded(self) -> ClientKeys:
        """For series that only a client agent has."""
        assert self.forwarding is not None
        return self.forwarding

    @property
    def tally(self) -> GossipTally:
        return self.agent.cluster.gossip.tally

    @property
    def membership(self) -> MembershipView:
        return self.agent.cluster.membership

    @property
    def cluster(self) -> ClusterState:
        return self.agent.cluster

    @property
    def replication(self) -> ReplicationTally:
        return self.agent.cluster.sharing.replication.tally


class SeriesKind(enum.Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    TIMER = "timer"  # Consul times these; of most we only count how many there were


@dataclass(frozen=True, slots=True)
class HistogramReading:
    bounds: tuple[float, ...]
    counts: tuple[int, ...]  # one more than bounds, not cumulated
    total: float


Labelled = Mapping[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class SpreadReading:
    """Of a timer: values as they are now, instead of how many there were."""

    values: tuple[float, ...]


# By one label, or by several; a histogram without one, or by one.
Reading = (
    float | Mapping[str, float] | Labelled | HistogramReading | Mapping[str, HistogramReading] | SpreadReading
)


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    kind: SeriesKind
    read: Callable[[Sources], Reading]
    labels: tuple[str, ...] = ()
    help: str = ""


def counter(name: str, read: Callable[[Sources], Reading]) -> Series:
    """`name` with its labels, as Prometheus spells them: `adsum_dns_dropped_total{cause}`."""
    return _series(name, SeriesKind.COUNTER, read)


def gauge(name: str, read: Callable[[Sources], Reading]) -> Series:
    return _series(name, SeriesKind.GAUGE, read)


def timer(name: str, read: Callable[[Sources], Reading]) -> Series:
    return _series(name, SeriesKind.TIMER, read)


def histogram(name: str, read: Callable[[Sources], Reading]) -> Series:
    return _series(name, SeriesKind.HISTOGRAM, read)


def _series(spelled: str, kind: SeriesKind, read: Callable[[Sources], Reading]) -> Series:
    name, _, labels = spelled.rstrip("}").partition("{")
    return Series(name, kind, read, tuple(labels.split(",")) if labels else ())


def table(*rows: str | Series) -> tuple[Series, ...]:
    """Before each series stands its help, as a comment would; one of another table has its own."""
    every, text = list[Series](), ""
    for row in rows:
        if isinstance(row, str):
            text = row
        else:
            every.append(row if row.help else replace(row, help=text))
    return tuple(every)
