"""Local health: how much I should doubt my own eyes before I doubt another member.

Lifeguard's multiplier (section IV-A of its paper, memberlist's `awareness.go`): failed probes and missing
nacks mean that my messages may be the ones that do not arrive; having to refute means that I was slow. It
stretches the probe period, the probe timeout (memberlist forgets this one) and the suspicion deadline."""

from __future__ import annotations

SCORE_MAX = 7  # Lifeguard's S = 8


class Health:
    __slots__ = ("lows", "score")

    def __init__(self) -> None:
        self.score = 0
        self.lows = 0  # how often it got worse

    @property
    def multiplier(self) -> int:
        return 1 + self.score

    def probe_answered(self) -> None:
        self._move(-1)

    def probe_failed(self, *, nacks_expected: int, nacks_received: int) -> None:
        """Helpers that heard me and answered clear me; without helpers I am as suspect as my target."""
        self._move(nacks_expected - nacks_received if nacks_expected else 1)

    def had_to_refute(self) -> None:
        self._move(1)

    def was_paused(self) -> None:
        self._move(1)

    def _move(self, by: int) -> None:
        self.lows += by > 0
        self.score = min(SCORE_MAX, max(0, self.score + by))
