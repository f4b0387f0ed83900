"""Trouble that strangers can cause at will is counted every time and logged at most once a minute."""

from __future__ import annotations

import logging

import trio

INTERVAL_S = 60.0


class Complaints:
    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._silent_until_s = -1.0
        self._unsaid = 0

    def say(self, sentence: str) -> None:
        now_s = trio.current_time()
        if now_s < self._silent_until_s:
            self._unsaid += 1
            return
        more = f" ({self._unsaid} more of this kind were not logged)" if self._unsaid else ""
        self._log.warning("%s%s", sentence, more)
        self._silent_until_s = now_s + INTERVAL_S
        self._unsaid = 0
