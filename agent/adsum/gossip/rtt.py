"""How long an answer usually takes, pooled over all peers so that it means something at a thousand members.

One probe a second gives one sample a second in total, far too few per peer. So a round trip is taken as
predicted × e^ε: the prediction comes from coordinates (or the pooled median until they have converged), and
the errors ε of all peers share one fading histogram. A peer's own deviation is learned beside it and shrunk
towards the pool. From this come the moment to ask helpers, SWIM's "99th percentile of the round trip", and
the challenge phi."""

from __future__ import annotations

import math

from adsum.gossip.coordinates import Coordinate, Vivaldi
from adsum.gossip.histogram import Histogram
from adsum.now import MILLISECOND, MINUTE, SECOND

HALF_LIFE_NS = 10 * MINUTE
SAMPLES_MIN = 8  # before, the configured timeout is used
INDIRECT_NS_MIN = 10 * MILLISECOND
SHRINK = 5.0  # a peer's own deviation counts fully only after many more samples than this
REFRESH_SAMPLES = 64
LATE_AT_FIRST = 4.0  # times the median, until deviations are known
LOSS_PRIOR_TRIES = 51.0  # Beta(1, 50): one loss in fifty before anything is known
LOSS_TRIES_MAX = 4_096.0


class Path:
    """What is known about the way to one peer; made with its first answer."""

    __slots__ = ("coordinate", "deviation", "heard_ns", "is_direct_ok", "last_rtts_s", "samples")

    def __init__(self) -> None:
        self.coordinate: Coordinate | None = None
        self.deviation = 0.0
        self.samples = 0
        self.last_rtts_s: tuple[float, ...] = ()
        self.is_direct_ok = True
        self.heard_ns = 0

    @property
    def rtt_s(self) -> float | None:
        """The median of the last three, as Serf filters."""
        return sorted(self.last_rtts_s)[len(self.last_rtts_s) // 2] if self.last_rtts_s else None


class Loss:
    """The share of direct probes that stay unanswered, over all peers."""

    __slots__ = ("lost", "tried")

    def __init__(self) -> None:
        self.lost = 1.0
        self.tried = LOSS_PRIOR_TRIES

    @property
    def share(self) -> float:
        return self.lost / self.tried

    def add(self, *, is_lost: bool) -> None:
        self.lost += is_lost
        self.tried += 1
        if self.tried > LOSS_TRIES_MAX:
            self.lost, self.tried = self.lost / 2, self.tried / 2


class RoundTrips:
    def __init__(self, vivaldi: Vivaldi) -> None:
        self.vivaldi = vivaldi
        self.loss = Loss()  # of the direct leg
        self._errors = Histogram(1 / 64, 64.0, HALF_LIFE_NS)  # of e^ε
        self._rtts_s = Histogram(1e-5, 10.0, HALF_LIFE_NS)
        self._median_s = 0.0
        self._late = LATE_AT_FIRST  # e^ε that one answer in a hundred exceeds
        self._fresh_at = SAMPLES_MIN

    @property
    def samples(self) -> int:
        return self._rtts_s.count

    def observe(self, now_ns: int, path: Path, rtt_ns: int) -> None:
        rtt_s = rtt_ns / SECOND
        predicted_s = self.predicted_s(path)
        self._rtts_s.add(now_ns, rtt_s)
        if predicted_s > 0:
            self._errors.add(now_ns, rtt_s / self.expected_s(path))
            error = math.log(max(rtt_s, 1e-6) / predicted_s)
            path.samples += 1
            path.deviation += (error - path.deviation) / min(path.samples, 64)
        path.last_rtts_s = (*path.last_rtts_s[-2:], rtt_s)
        if path.coordinate is not None:
            self.vivaldi.observe(path.coordinate, path.rtt_s or rtt_s)
        if self.samples >= self._fresh_at:
            self._fresh_at = self.samples + min(self.samples, REFRESH_SAMPLES)
            self._median_s = self._rtts_s.quantile(0.5)
            self._late = self._errors.quantile(0.99) if self._errors.count else LATE_AT_FIRST

    def predicted_s(self, path: Path | None) -> float:
        """0 while nothing is known."""
        if path is not None and path.coordinate is not None and self.vivaldi.is_converged:
            return self.vivaldi.here.distance_s(path.coordinate)
        return self._median_s

    def expected_s(self, path: Path | None) -> float:
        """The prediction with the peer's own deviation, as far as there are samples for it."""
        predicted_s = self.predicted_s(path)
        if path is None or not path.samples:
            return predicted_s
        return predicted_s * math.exp(path.samples * path.deviation / (path.samples + SHRINK))

    def indirect_after_ns(self, path: Path | None, latest_ns: int) -> int:
        """When to stop waiting for the direct answer and ask helpers as well."""
        expected_s = self.expected_s(path)
        if not expected_s or self.samples < SAMPLES_MIN:
            return latest_ns
        return min(latest_ns, max(INDIRECT_NS_MIN, int(expected_s * self._late * SECOND)))

    def unanswered(self, path: Path | None, waited_ns: int, *, ways: int) -> float:
        """How likely no answer is after this long although the peer lives, by a leg of so many round
        trips."""
        expected_s = self.expected_s(path) * ways
        if not expected_s or waited_ns <= 0:
            return 1.0
        late = self._errors.survival(waited_ns / SECOND / expected_s)
        lost = 1 - (1 - self.loss.share) ** ways
        return lost + (1 - lost) * late
