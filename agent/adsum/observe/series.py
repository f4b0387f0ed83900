"""What a row of the metrics tables is, and where its numbers come from.

Rooms count in plain integers, which costs them nothing; only when somebody asks are they read, by the
function in each row.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import field

from adsum.agent.core import CoreCounters
from adsum.api.rendering import ApiCounters
from adsum.catalog.definitions import CheckStatus
from adsum.dns_server.counters import DnsCounters
from adsum.frozen import dataclass
from adsum.health_checks.runner import Counters as CheckCounters
from adsum.http.limits import HttpCounters
from adsum.journal.file import JournalCounters
from adsum.logs.faults import INPUTS
from adsum.logs.stream import LogCounters
from adsum.observe.gc_pauses import GcPauses
from adsum.observe.loop_lag import LoopLag
from adsum.observe.membership_source import MembershipSource
from adsum.observe.replication_source import ReplicationSource
from adsum.observe.tally import CatalogTally
from adsum.storage.writer import WriterCounters


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where the numbers are kept."""

    version: str
    node_name: str
    is_leader: Callable[[], bool]
    catalog: CatalogTally
    core: CoreCounters
    transitions: Mapping[CheckStatus, int]  # of own checks, by what they turned to
    api: ApiCounters
    http: HttpCounters
    dns: DnsCounters
    checks: CheckCounters
    storage: WriterCounters
    logs: LogCounters
    lag: LoopLag
    gc_pauses: GcPauses
    cluster: MembershipSource = field(default_factory=MembershipSource)
    replication: ReplicationSource = field(default_factory=ReplicationSource)
    journal: JournalCounters = field(default_factory=JournalCounters)
    certificate_end_s: Callable[[], int] = int  # 0 without TLS
    faults: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(INPUTS, 0))  # of ours
    shortages: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(INPUTS, 0))


class SeriesKind(enum.Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    TIMER = "timer"  # Consul times these; we only count them, and tell no durations


@dataclass(frozen=True, slots=True)
class HistogramReading:
    bounds: tuple[float, ...]
    counts: tuple[int, ...]  # one more than bounds, not cumulated
    total: float


Labelled = Mapping[tuple[str, ...], float]
Reading = float | Labelled | HistogramReading


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    kind: SeriesKind
    help: str
    read: Callable[[Sources], Reading]
    labels: tuple[str, ...] = ()


def counter(name: str, text: str, read: Callable[[Sources], Reading], *labels: str) -> Series:
    return Series(name, SeriesKind.COUNTER, text, read, labels)


def gauge(name: str, text: str, read: Callable[[Sources], Reading], *labels: str) -> Series:
    return Series(name, SeriesKind.GAUGE, text, read, labels)


def by_one(values: Mapping[str, float]) -> Labelled:
    return {(value,): number for value, number in values.items()}


def timer(name: str, text: str, read: Callable[[Sources], Reading], *labels: str) -> Series:
    return Series(name, SeriesKind.TIMER, text, read, labels)


def histogram(name: str, text: str, read: Callable[[Sources], Reading]) -> Series:
    return Series(name, SeriesKind.HISTOGRAM, text, read)
