"""How long the event loop was held: the time from one look at the sockets to the next, spent in tasks.

While tasks run nobody is answered, whether one of them took it all or a thousand took turns, so this is what
a client feels. Measured for every pass of the loop, by two clock readings. The budget is 20 ms;
passes over it are counted apart, and so is what Python's garbage collector took of it.
"""

from __future__ import annotations

import gc
import time
from bisect import bisect_left

from trio.abc import Instrument

from adsum.now import MICROSECOND, MILLISECOND, SECOND

BUDGET_NS = 20 * MILLISECOND
BOUNDS_NS = (
    100 * MICROSECOND,
    MILLISECOND,
    2 * MILLISECOND,
    5 * MILLISECOND,
    10 * MILLISECOND,
    BUDGET_NS,
    50 * MILLISECOND,
    100 * MILLISECOND,
    500 * MILLISECOND,
    SECOND,
)
WINDOW_NS = 60 * SECOND  # at least; the longest of up to two windows is told, so that every scraper sees it


class LoopLag(Instrument):
    def __init__(self) -> None:
        self.passes = [0] * (len(BOUNDS_NS) + 1)  # by the first bound that is not exceeded
        self.held_ns = 0
        self.over_budget = 0
        self._began_ns: int | None = None
        self._window_ends_ns = 0
        self._longest_ns = 0
        self._longest_before_ns = 0

    def after_io_wait(self, _timeout: float) -> None:
        self._began_ns = time.perf_counter_ns()

    def before_io_wait(self, _timeout: float) -> None:
        if self._began_ns is not None:
            self.note_pass(self._began_ns, time.perf_counter_ns())

    def note_pass(self, began_ns: int, ended_ns: int) -> None:
        held_ns = ended_ns - began_ns
        self.held_ns += held_ns
        self.passes[bisect_left(BOUNDS_NS, held_ns)] += 1
        if held_ns > BUDGET_NS:
            self.over_budget += 1
        if ended_ns >= self._window_ends_ns:
            self._next_window(ended_ns)
        if held_ns > self._longest_ns:
            self._longest_ns = held_ns

    def longest_ns(self, now_ns: int) -> int:
        if now_ns >= self._window_ends_ns:
            self._next_window(now_ns)
        return max(self._longest_ns, self._longest_before_ns)

    def _next_window(self, now_ns: int) -> None:
        is_recent = now_ns < self._window_ends_ns + WINDOW_NS
        self._longest_before_ns = self._longest_ns if is_recent else 0
        self._longest_ns = 0
        self._window_ends_ns = now_ns + WINDOW_NS


class GcPauses:
    def __init__(self) -> None:
        self.runs = 0
        self.paused_ns = 0
        self._began_ns = 0

    def start(self) -> None:
        gc.callbacks.append(self._note)

    def stop(self) -> None:
        gc.callbacks.remove(self._note)

    def _note(self, phase: str, info: dict[str, int]) -> None:  # noqa: ARG002 (gc's signature)
        if phase == "start":
            self._began_ns = time.perf_counter_ns()
        else:
            self.runs += 1
            self.paused_ns += time.perf_counter_ns() - self._began_ns
