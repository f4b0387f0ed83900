"""The time, as every core receives it: cores never read a clock."""

from __future__ import annotations

from adsum.named import NamedTuple

NANOSECOND = 1
MICROSECOND = 1_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE


class Now(NamedTuple):
    monotonic_ns: int  # orders events and measures durations; says nothing about the date
    wall_ms: int  # the date, which may jump; for people, indexes and generations
