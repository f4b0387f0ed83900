"""How much an agent doubts itself."""

from __future__ import annotations

from adsum.gossip.health import SCORE_MAX, Health


def test_missing_nacks_cost_health_and_nacks_that_came_do_not() -> None:
    health = Health()
    health.probe_failed(nacks_expected=3, nacks_received=3)
    assert health.score == 0
    health.probe_failed(nacks_expected=3, nacks_received=1)
    assert health.score == 2
    health.probe_failed(nacks_expected=0, nacks_received=0)
    assert (health.score, health.multiplier) == (3, 4)


def test_health_stays_within_its_bounds() -> None:
    health = Health()
    health.probe_answered()
    assert health.score == 0
    for _ in range(20):
        health.had_to_refute()
    assert health.score == SCORE_MAX
