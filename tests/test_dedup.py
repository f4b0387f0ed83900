"""How an agent numbers the writes that it accepts."""

from __future__ import annotations

from adsum.dedup import DedupKey, WriteNumbers


def test_the_low_water_is_the_oldest_write_that_is_open() -> None:
    numbers = WriteNumbers("agent-1", 5)
    first, second = numbers.begin(), numbers.begin()
    assert second == DedupKey("agent-1", 5, sequence=2, low_water=1)
    numbers.end(first)
    assert numbers.begin() == DedupKey("agent-1", 5, sequence=3, low_water=2)


def test_writes_that_are_told_of_another_run_go_on_together_under_one_generation() -> None:
    """If each took a generation of its own, each would have to be begun anew for the next one."""
    numbers = WriteNumbers("agent-1", 5)
    numbers.pass_over(7)
    assert numbers.begin() == DedupKey("agent-1", 8, sequence=1, low_water=1)
    numbers.pass_over(8)
    assert numbers.begin() == DedupKey("agent-1", 8, sequence=2, low_water=1)
