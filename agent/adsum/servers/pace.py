"""Even ticks for the core, and what to believe after a pause.

One tick every 50 ms, times the multiplier. After a gap of more than three ticks (a stopped process, a
suspended host) those that were missed are not made up for: the core counts ticks, and a burst of them would
look like a silence of the others. Somebody else may lead by then, and have renewed what would be expired
here. So until a quorum has confirmed that we lead, `is_time_trusted` is False, and whoever expires something
asks that first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

import trio

from adsum.now import Now
from adsum.raft.errors import RaftRefused
from adsum.servers.errors import Unavailable

PAUSE_TICKS = 3

log = logging.getLogger("raft")


class Paced(Protocol):
    @property
    def is_leader(self) -> bool: ...

    def tick(self, now: Now) -> None: ...

    def read(self, answered: Callable[[int | Exception], None]) -> None: ...


class Pace:
    def __init__(self, driver: Paced, tick_s: float, now: Callable[[], Now]) -> None:
        self.is_time_trusted = True
        self.pauses = 0
        self._driver = driver
        self._tick_s = tick_s
        self._now = now
        self._is_proving = False

    async def run(self) -> None:
        due_s = trio.current_time() + self._tick_s
        while True:
            await trio.sleep_until(due_s)
            gap_s = trio.current_time() - due_s
            if gap_s > PAUSE_TICKS * self._tick_s:
                self._resume(gap_s)
                due_s = trio.current_time()
            due_s += self._tick_s
            self._driver.tick(self._now())
            if not self.is_time_trusted and not self._is_proving:
                self._prove()

    def _resume(self, gap_s: float) -> None:
        self.pauses += 1
        self.is_time_trusted = not self._driver.is_leader
        log.warning("this process stood still for %.1f s", gap_s)

    def _prove(self) -> None:
        self._is_proving = True
        try:
            self._driver.read(self._proven)
        except (RaftRefused, Unavailable) as error:
            self._proven(error)

    def _proven(self, outcome: int | Exception) -> None:
        """What fails is asked again with the next tick, for as long as we seem to lead."""
        self._is_proving = False
        self.is_time_trusted = isinstance(outcome, int) or not self._driver.is_leader
