"""The agent's clock."""

from __future__ import annotations

import time

from adsum.now import MILLISECOND, Now


def monotonic_ns() -> int:
    """By a clock that goes on while the host is suspended, so that this is a pause like any other."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def system_now() -> Now:
    return Now(monotonic_ns(), time.time_ns() // MILLISECOND)
