"""Moves the clock of a Python process that finds this folder on PYTHONPATH by CLOCK_AHEAD_S seconds.

libfaketime would do the same to any program, but it hangs Python's epoll now and then. What measures spans of
time is left as it is, and so is `datetime.now`, which nothing that two agents compare is made of.
"""

import os
import time

AHEAD_S = int(os.environ["CLOCK_AHEAD_S"])
real_time, real_time_ns = time.time, time.time_ns


def moved_time() -> float:
    return real_time() + AHEAD_S


def moved_time_ns() -> int:
    return real_time_ns() + AHEAD_S * 1_000_000_000


time.time, time.time_ns = moved_time, moved_time_ns
