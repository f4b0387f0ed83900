"""Metrics in the two forms that are asked for: Prometheus' text, and Consul's JSON of `/v1/agent/metrics`.

prometheus-client, and the table of what it is told, are imported when the first scraper comes, in a thread:
they cost 15 ms of start and 3 MB that an agent nobody scrapes need not pay, and the loop could not answer.

The JSON is about the last complete interval of ten seconds, as Consul's is. For that, the counters are read
every ten seconds and the difference told. We count events and not how long each took, so what Consul times is
among the Counters here, and there are no Samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import accumulate
from typing import TYPE_CHECKING

import trio

from adsum.config.config import Telemetry
from adsum.frozen import dataclass
from adsum.observe.consul_metrics import CONSUL
from adsum.observe.series import HistogramReading, Labelled, Reading, Series, SeriesKind, Sources

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
INTERVAL_S = 10  # go-metrics'


@dataclass(frozen=True, slots=True)
class _Snapshot:
    moment: datetime
    gauges: dict[tuple[str, tuple[str, ...]], float]
    counters: dict[tuple[str, tuple[str, ...]], float]


class Exposition:
    prometheus_type = PROMETHEUS_TYPE

    def __init__(self, sources: Sources, telemetry: Telemetry) -> None:
        self._sources = sources
        self._prefix = telemetry.metrics_prefix
        self._series = [each for each in CONSUL if _is_wanted(f"{self._prefix}.{each.name}", telemetry)]
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
        return _Snapshot(
            datetime.now(UTC),
            dict(self._values(SeriesKind.GAUGE)),
            dict(self._values(SeriesKind.COUNTER, SeriesKind.TIMER)),
        )

    def _values(self, *kinds: SeriesKind) -> Iterator[tuple[tuple[str, tuple[str, ...]], float]]:
        for series, reading in self._readings(each for each in self._series if each.kind in kinds):
            for values, number in _labelled(reading).items():
                yield (series.name, values), number

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


def _labelled(reading: Reading) -> Labelled:
    assert not isinstance(reading, HistogramReading)  # Consul has none
    if not isinstance(reading, Mapping):
        return {(): reading}
    return {labels if isinstance(labels, tuple) else (labels,): number for labels, number in reading.items()}


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
    from prometheus_client.core import HistogramMetricFamily, Metric

    if isinstance(reading, HistogramReading):
        bounds, counts = (*map(repr, reading.bounds), "+Inf"), map(float, accumulate(reading.counts))
        buckets = list(zip(bounds, counts, strict=True))
        return HistogramMetricFamily(name, series.help, buckets=buckets, sum_value=reading.total)
    kind, ending = kinds[series.kind]
    name = name.removesuffix(ending)
    family = Metric(name, series.help, kind)
    for values, number in _labelled(reading).items():
        family.add_sample(name + ending, dict(zip(series.labels, values, strict=True)), number)
    return family
