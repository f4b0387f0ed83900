"""Metrics in the two forms that are asked for: Prometheus' text, and Consul's JSON of `/v1/agent/metrics`.

prometheus-client, and the table of what it is told, are imported when the first scraper comes, in a thread:
they cost 15 ms of start and 3 MB that an agent nobody scrapes need not pay, and the loop could not answer.

The JSON is about the last complete interval of ten seconds, as Consul's is. For that, the counters are read
every ten seconds and the difference told. Of most events we count how many there were and not how long each
took, so what Consul times is among the Counters here, and there are no Samples. What a server times is a
summary in the text, as Consul's, with quantiles of the last complete interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import TYPE_CHECKING

import trio

from adsum.config.config import Telemetry
from adsum.frozen import dataclass
from adsum.observe import quantiles
from adsum.observe.consul_metrics import CONSUL
from adsum.observe.series import (
    HistogramReading,
    Labelled,
    Reading,
    Series,
    SeriesKind,
    Sources,
    SpreadReading,
)

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
INTERVAL_S = 10  # go-metrics'


@dataclass(frozen=True, slots=True)
class _Snapshot:
    moment: datetime
    gauges: dict[tuple[str, tuple[str, ...]], float]
    counters: dict[tuple[str, tuple[str, ...]], float]
    timed: dict[str, tuple[int, ...]]  # how many there were in each bucket


class Exposition:
    prometheus_type = PROMETHEUS_TYPE

    def __init__(self, sources: Sources, telemetry: Telemetry) -> None:
        self._sources = sources
        self._prefix = telemetry.metrics_prefix
        consul = CONSUL if sources.server is None else (*CONSUL, *_of_servers())
        self._series = [each for each in consul if _is_wanted(f"{self._prefix}.{each.name}", telemetry)]
        self._own: tuple[Series, ...] = ()  # until the first scrape
        self._registry: CollectorRegistry | None = None
        self._before = self._last = self._snapshot()

    # For Prometheus.

    async def scraped(self) -> bytes:
        if self._registry is None:
            self._registry = await trio.to_thread.run_sync(self._registered)
        return self.prometheus()

    def prometheus(self) -> bytes:
        from prometheus_client.exposition import generate_latest

        if self._registry is None:
            self._registry = self._registered()
        return generate_latest(self._registry)

    def _registered(self) -> CollectorRegistry:
        from prometheus_client import GCCollector
        from prometheus_client.core import CollectorRegistry

        from adsum.observe.metrics import ADSUM

        self._own = ADSUM
        if self._sources.server is not None:
            from adsum.observe.consensus_metrics import CONSENSUS
            from adsum.observe.session_metrics import SESSIONS

            self._own = (*ADSUM, *CONSENSUS, *SESSIONS)
        elif self._sources.forwarding is not None:
            from adsum.observe.forward_metrics import FORWARDING

            self._own = (*ADSUM, *FORWARDING)
        registry = CollectorRegistry()
        registry.register(self)
        GCCollector(registry=registry)
        return registry

    def collect(self) -> Iterator[Metric]:
        """Called by prometheus-client."""
        for series, reading in self._readings(self._own):
            yield _family(series, series.name, reading, OWN_KINDS)
        for series, reading in self._readings(self._series):
            flat = f"{self._prefix}.{series.name}".replace(".", "_").replace("-", "_")
            if isinstance(reading, HistogramReading | SpreadReading):
                yield _summary(flat, series.help, reading, self._recent(series.name, reading))
            else:
                yield _family(series, flat, reading, CONSUL_KINDS)

    def _readings(self, wanted: Iterable[Series]) -> Iterator[tuple[Series, Reading]]:
        """What cannot be read is left out; no figure is worth an agent."""
        for series in wanted:
            try:
                reading = series.read(self._sources)
            except Exception as error:
                self._sources.faults.dropped("metric", error)
            else:
                yield series, reading

    # As Consul's JSON.

    async def keep_intervals(self) -> None:
        while True:
            await trio.sleep(INTERVAL_S)
            self.end_interval()

    def end_interval(self) -> None:
        self._before, self._last = self._last, self._snapshot()

    def consul(self) -> dict[str, object]:
        before, last = self._before, self._last
        if last is before:  # no interval is complete yet
            last = self._snapshot()
        return {
            "Timestamp": before.moment.strftime("%Y-%m-%d %H:%M:%S +0000 UTC"),
            "Gauges": [
                {"Name": f"{self._prefix}.{key[0]}", "Value": value, "Labels": self._labels(key)}
                for key, value in last.gauges.items()
            ],
            "Points": [],
            "Counters": [
                self._counter(key, value - before.counters.get(key, value))
                for key, value in last.counters.items()
            ],
            "Samples": [],
        }

    def _snapshot(self) -> _Snapshot:
        taken = _Snapshot(datetime.now(UTC), {}, {}, {})
        for series, reading in self._readings(self._series):
            if isinstance(reading, HistogramReading):
                taken.timed[series.name] = reading.counts
            numbers = taken.gauges if series.kind is SeriesKind.GAUGE else taken.counters
            for values, number in _labelled(reading).items():
                numbers[series.name, values] = number
        return taken

    def _recent(self, name: str, reading: HistogramReading | SpreadReading) -> list[float]:
        """Consul's quantiles."""
        if isinstance(reading, SpreadReading):
            return [quantiles.of_values(share, reading.values) for share in quantiles.SHARES]
        last = self._last.timed.get(name, reading.counts)
        before = self._before.timed.get(name, last)
        counts = [late - early for late, early in zip(last, before, strict=True)]
        return [quantiles.of_buckets(share, reading.bounds, counts) for share in quantiles.SHARES]

    def _counter(self, key: tuple[str, tuple[str, ...]], count: float) -> dict[str, object]:
        each = 1 if count else 0
        return {
            "Name": f"{self._prefix}.{key[0]}",
            "Count": count,
            "Rate": count / INTERVAL_S,
            "Sum": count,
            "Min": each,
            "Max": each,
            "Mean": each,
            "Stddev": 0,
            "Labels": self._labels(key),
        }

    def _labels(self, key: tuple[str, tuple[str, ...]]) -> dict[str, str]:
        name, values = key
        names = next(series.labels for series in self._series if series.name == name)
        return dict(zip(names, values, strict=True))


def _is_wanted(name: str, telemetry: Telemetry) -> bool:
    """The longest prefix in the filter that fits decides."""
    fitting = [each for each in telemetry.prefix_filter if name.startswith(each[1:])]
    return max(fitting, key=len).startswith("+") if fitting else telemetry.filter_default


def _of_servers() -> tuple[Series, ...]:
    from adsum.observe.consul_server_metrics import CONSUL_SERVERS

    return CONSUL_SERVERS


def _labelled(reading: Reading) -> Labelled:
    """In plain numbers: of what is timed, how often it was."""
    if isinstance(reading, HistogramReading):
        return {(): sum(reading.counts)}
    if isinstance(reading, SpreadReading):
        return {}
    if not isinstance(reading, Mapping):
        return {(): reading}
    numbers = dict[tuple[str, ...], float]()
    for labels, number in reading.items():
        assert not isinstance(number, HistogramReading), "Consul has none by a label"
        numbers[labels if isinstance(labels, tuple) else (labels,)] = number
    return numbers


# What prometheus-client calls kinds, and how their samples end. A counter of Consul's has no `_total`, which
# prometheus-client would add to one: hence of unknown type. Of a summary only the count is told.
OWN_KINDS = {SeriesKind.GAUGE: ("gauge", ""), SeriesKind.COUNTER: ("counter", "_total")}
CONSUL_KINDS = {
    SeriesKind.GAUGE: ("gauge", ""),
    SeriesKind.COUNTER: ("unknown", ""),
    SeriesKind.TIMER: ("summary", "_count"),
}


def _family(
    series: Series, name: str, reading: Reading, kinds: Mapping[SeriesKind, tuple[str, str]]
) -> Metric:
    from prometheus_client.core import Metric

    if series.kind is SeriesKind.HISTOGRAM:
        return _histogram(series, reading)
    kind, ending = kinds[series.kind]
    name = name.removesuffix(ending)
    family = Metric(name, series.help, kind)
    for values, number in _labelled(reading).items():
        family.add_sample(name + ending, dict(zip(series.labels, values, strict=True)), number)
    return family


def _histogram(series: Series, reading: Reading) -> Metric:
    from prometheus_client.core import HistogramMetricFamily

    family = HistogramMetricFamily(series.name, series.help, labels=series.labels)
    by_label = reading.items() if isinstance(reading, Mapping) else [((), reading)]
    for label, each in by_label:
        assert isinstance(each, HistogramReading)
        bounds, counts = (*map(repr, each.bounds), "+Inf"), map(float, accumulate(each.counts))
        values = (label,) if isinstance(label, str) else label
        family.add_metric(values, list(zip(bounds, counts, strict=True)), sum_value=each.total)
    return family


def _summary(
    name: str, text: str, reading: HistogramReading | SpreadReading, recent: Sequence[float]
) -> Metric:
    """As Consul's, in milliseconds."""
    from prometheus_client.core import Metric

    family = Metric(name, text, "summary")
    for share, value_s in zip(quantiles.SHARES, recent, strict=True):
        family.add_sample(name, {"quantile": repr(share)}, value_s * 1_000)
    if isinstance(reading, HistogramReading):
        family.add_sample(f"{name}_sum", {}, reading.total * 1_000)
        family.add_sample(f"{name}_count", {}, sum(reading.counts))
    return family
