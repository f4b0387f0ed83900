"""Log lines that somebody else can cause at will: one a minute of each kind, and how many were left out."""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

COMPLAINT_INTERVAL_S = 60.0


class Complaints:
    def __init__(self, logger: logging.Logger, clock: Callable[[], float] = trio.current_time) -> None:
        """`clock` counts seconds; who complains in a thread has one of its own."""
        self._logger = logger
        self._clock = clock
        self._quiet_until_s: dict[str, float] = {}
        self._unsaid: dict[str, int] = {}

    def say(
        self,
        kind: str,
        message: str,
        *details: object,
        level: int = logging.WARNING,
        trace: BaseException | None = None,
    ) -> None:
        """`kind` comes from a fixed set of ours; `details` are from the network and are logged escaped.
        `trace` is a mistake of ours, logged with the places in the code that it came through."""
        now_s = self._clock()
        if now_s < self._quiet_until_s.get(kind, now_s):
            self._unsaid[kind] = self._unsaid.get(kind, 0) + 1
            return
        self._quiet_until_s[kind] = now_s + COMPLAINT_INTERVAL_S
        unsaid = self._unsaid.pop(kind, 0)
        suffix = f" ({unsaid} more since the last such line)" if unsaid else ""
        self._logger.log(level, message + "%s", *details, suffix, exc_info=trace)
